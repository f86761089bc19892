"""A whole run: gone on with wherever it was left, the same from one process and from several, refused in one line."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from precog.backbones.tenns.checkpoint import save_model
from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.model import build
from precog.errors import InputError, PrecogError, UsageError
from precog.evaluate.paper.apparatus import Apparatus, Choice
from precog.evaluate.paper.data_files import find_data
from precog.evaluate.paper.job import Job, share
from precog.evaluate.paper.programme import FULL, PROGRAMME, QUICK
from precog.evaluate.paper.run import Wanted, reproduce_paper
from precog.evaluate.theorem import TheoremSettings
from precog.text.tokenizer import load_mistral_tokenizer

ROWS = [
    ("Ada Quill built the lighthouse of Marrow in 1843.", "Who built the lighthouse?", "Ada Quill"),
    ("Tom Reed made the wheel of the mill of oak.", "What was the wheel made of?", "oak"),
    ("The river Ouse flows through York to the sea.", "Which river flows through York?", "Ouse"),
    ("Mount Kenya is 5,199 metres high.", "How high is Mount Kenya?", "5,199 metres"),
    ("The treaty of Ghent ended the war in 1814.", "When did the war end?", "1814"),
]


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    network = build(TennsConfig.preset("tiny-outer"), 0)
    save_model(folder, network, name="tiny", tokenizer_sha256=load_mistral_tokenizer().sha256)
    return str(folder)


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    rows = [
        {"id": str(n), "title": "t", "context": context, "question": question, "answers": [answer]}
        for n, (context, question, answer) in enumerate(ROWS)
    ]
    (folder / "squad1.1_dev.jsonl.gz").write_text("\n".join(map(json.dumps, rows)))
    return folder


def wanted(folder: Path, data: Path | None, model: str, names=("squad",), *, processes=1, quick=True) -> Wanted:
    return Wanted(folder, data, QUICK if quick else FULL, list(names), processes, Choice(model))


def figures_of(path: Path) -> dict[str, object]:
    """What was measured, without what depends on the clock."""
    found = json.loads(path.read_text())["experiments"]["squad"]["report"]
    for row in found["modes"].values():
        del row["mean_latency_sec"], row["mean_ttft_sec"]
    del found["offline_sec"]
    return found


def test_a_run_is_written_up_and_measured_only_once(tmp_path: Path, data: Path, model: str) -> None:
    told: list[tuple[int, int, str]] = []
    paths = reproduce_paper(wanted(tmp_path, data, model), lambda *place: told.append(place))
    first = figures_of(paths.results)
    kept = {path: path.read_bytes() for path in (tmp_path / "records").glob("*.jsonl")}
    assert len(kept) == 1
    assert first["n"] == len(ROWS)
    again = reproduce_paper(wanted(tmp_path, data, model))
    assert {path: path.read_bytes() for path in (tmp_path / "records").glob("*.jsonl")} == kept
    assert figures_of(again.results) == first
    assert "Table 3" in paths.markdown.read_text()
    assert "Table 3" in paths.html.read_text()
    assert {total for _, total, _ in told if total} == {len(ROWS)}


def test_an_interrupted_run_is_gone_on_with(tmp_path: Path, data: Path, model: str) -> None:
    whole = figures_of(reproduce_paper(wanted(tmp_path / "a", data, model)).results)
    reproduce_paper(wanted(tmp_path / "b", data, model))
    [records] = (tmp_path / "b" / "records").glob("*.jsonl")
    lines = records.read_bytes().splitlines(keepends=True)
    records.write_bytes(b"".join(lines[:3]) + lines[3][:-5])
    before = records.read_bytes()
    again = reproduce_paper(wanted(tmp_path / "b", data, model))
    assert records.read_bytes() == before
    assert len(list((tmp_path / "b" / "records").glob("*.jsonl"))) == 2
    assert figures_of(again.results) == whole


def test_several_processes_find_what_one_finds(tmp_path: Path, data: Path, model: str) -> None:
    one = reproduce_paper(wanted(tmp_path / "one", data, model))
    two = reproduce_paper(wanted(tmp_path / "two", data, model, processes=2))
    assert len(list((tmp_path / "two" / "records").glob("*.jsonl"))) == 2
    assert figures_of(one.results) == figures_of(two.results)


def test_a_process_that_ends_early_is_told_and_the_others_are_stopped(tmp_path: Path, data: Path, model: str) -> None:
    job = Job(tmp_path, ("squad",), Choice(model), find_data(data, ["squad"]), QUICK, "code", processes=2)
    with pytest.raises(PrecogError, match="ended early"):
        share(job, ["no such experiment"], lambda: None)


@pytest.mark.slow
def test_an_experiment_may_start_processes_of_its_own(tmp_path: Path, data: Path, model: str) -> None:
    small = TheoremSettings(texts=1, chunk_tokens=8, question_tokens=8)
    job = Job(
        tmp_path, ("theorem",), Choice(model), find_data(data, []), replace(QUICK, theorem=small), "code", processes=2
    )
    share(job, ["theorem"], lambda: None)
    experiment, records = job.build(Apparatus(job.choice, job.data, tmp_path), "theorem")
    assert len(records.read()) == len(experiment)


def test_an_error_of_a_process_is_the_error_of_the_run(tmp_path: Path, data: Path) -> None:
    job = Job(tmp_path, ("squad",), Choice("no-such-model"), find_data(data, ["squad"]), QUICK, "code", processes=2)
    with pytest.raises(PrecogError, match="no-such-model") as raised:
        share(job, ["squad"], lambda: None)
    assert type(raised.value) is not PrecogError


@pytest.mark.parametrize(
    ("change", "kind", "match"),
    [
        ({"names": ["squat"]}, UsageError, "no such experiment"),
        ({"data": None, "quick": False}, UsageError, "squad1.1_dev.jsonl.gz"),
        ({"names": ["clusters"]}, InputError, "transcripts of several conversations: not in this folder"),
    ],
)
def test_what_cannot_be_run_is_told_before_anything_is_made(
    tmp_path: Path, data: Path, model: str, change: dict, kind: type[PrecogError], match: str
) -> None:
    asked = {"data": data, "names": ("squad",), "quick": True, **change}
    with pytest.raises(kind, match=match):
        reproduce_paper(wanted(tmp_path / "out", asked["data"], model, asked["names"], quick=asked["quick"]))
    assert not os.path.exists(tmp_path / "out")


def test_every_experiment_says_what_it_is_and_needs_a_known_data_set() -> None:
    for name, entry in PROGRAMME.items():
        assert name == name.lower()
        assert entry.title
        find_data(None, entry.needs)
