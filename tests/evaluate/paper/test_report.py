"""The report of a whole run, in very small: every table and figure of the paper is in it, with numbers beside."""

import json
import re
from dataclasses import replace

import pytest

from precog import figures
from precog.backbones.tenns.checkpoint import save_model
from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.model import build
from precog.bench.session import SessionSettings
from precog.bench.ttft import TtftSettings
from precog.engine.horizon import HorizonSettings
from precog.evaluate.long_documents import LongSettings
from precog.evaluate.paper.apparatus import Choice
from precog.evaluate.paper.programme import PROGRAMME, QUICK
from precog.evaluate.paper.run import Wanted, reproduce_paper
from precog.evaluate.theorem import TheoremSettings
from precog.text.tokenizer import load_mistral_tokenizer

SMALLEST = replace(
    QUICK,
    theorem=TheoremSettings(texts=1, chunk_tokens=8, question_tokens=8, another_process=False),
    squad=3,
    altered=2,
    hotpot=2,
    nq_per_bin=1,
    long=LongSettings(per_bin=1),
    horizon=HorizonSettings(samples=1, longest_distance=64),
    per_mission=60,
    ttft=TtftSettings(4, 1, (4, 64), repeats=1, long_repeats=1, answers=1, warm_up=1),
    session=SessionSettings((2, 4), repeats=1, warm_up=1),
)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "tiny"
    network = build(TennsConfig.preset("tiny-outer"), 0)
    save_model(folder, network, name="tiny", tokenizer_sha256=load_mistral_tokenizer().sha256)
    wanted = Wanted(tmp_path_factory.mktemp("out"), None, SMALLEST, [], 1, Choice(str(folder)))
    return reproduce_paper(wanted)


def test_every_table_of_the_paper_has_a_row_and_every_figure_is_drawn(written):
    text = written.markdown.read_text()
    for number in range(1, 11):
        assert re.search(rf"Tables?[^.|]*\b{number}\b", text), f"Table {number}"
    rows = json.loads(written.results.read_text())["comparisons"]
    told = " ".join(f"{row['section']} {row['what']}" for row in rows)
    for number in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10):
        assert re.search(rf"Tables?[^.|]*\b{number}\b", told), f"Table {number}"
    drawn = {path.stem for path in written.figures.glob("*.svg")}
    for number in (1, 2, 3, 4, 5, 6, 7, 8):
        assert any(name.startswith(f"figure-{number}-") for name in drawn), f"Figure {number}"
    assert all(f"({written.figures.name}/{name}.svg)" in text for name in drawn)


def test_every_row_says_what_the_paper_says_what_we_found_and_why(written):
    for row in json.loads(written.results.read_text())["comparisons"]:
        assert row["what"], row
        assert row["paper"], row
        assert row["ours"], row
        assert row["why"], row


def test_every_experiment_was_run_and_its_figures_are_in_the_results(written):
    found = json.loads(written.results.read_text(), parse_constant=lambda name: pytest.fail(name))
    assert set(found["experiments"]) == set(PROGRAMME)
    assert found["quick"] is True
    for name, one in found["experiments"].items():
        assert one["report"], name
        assert {"machine", "commit", "begun", "settings"} <= set(one["measured"]), name


def test_every_picture_is_drawn_again_from_its_numbers(written, tmp_path):
    pictures = sorted(written.figures.glob("*.svg"))
    assert len(pictures) >= 14
    for picture in pictures:
        assert picture.with_suffix(".png").stat().st_size > 1000
        again = tmp_path / picture.name
        figures.redraw(picture.with_suffix(".json"), again)
        assert again.read_bytes() == picture.read_bytes(), picture.name


def test_the_page_holds_every_picture_and_loads_nothing(written):
    page = written.html.read_text()
    assert page.count("data:image/svg+xml;base64,") == len(list(written.figures.glob("*.svg")))
    assert not re.search(r'(?:src|href)="(?!data:image|#)', page)
    assert "prefers-color-scheme: dark" in page
