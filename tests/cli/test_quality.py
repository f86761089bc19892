from pathlib import Path

import pytest
from ended import Run
from pretended_study import SPOILT, PretendedStudy

from precog.refine import study as study_module


@pytest.fixture
def studying(monkeypatch: pytest.MonkeyPatch) -> PretendedStudy:
    pretended = PretendedStudy()
    monkeypatch.setattr(study_module, "study", pretended)
    monkeypatch.setattr(study_module, "check_can_study", lambda _backbone: None)
    return pretended


def test_a_studied_corpus_says_so_everywhere(
    tmp_path: Path, docs: Path, model: Path, run: Run, studying: PretendedStudy
) -> None:
    (docs / "other.txt").write_text(f"The bridge of Sark was {SPOILT} by Eve Long.")
    where = ("--corpus", tmp_path / "c")
    made = run("index", docs, *where, "--model", model, "--quality", "study", "--study-steps", "6", "--study-seconds", "4")
    assert made.status == 0
    assert "3 states studied, 2 refined, 100.0 ms each; kept as they were read: 1 not a number" in made.out
    [note] = [line for line in made.err.splitlines() if "no number" in line]
    assert note == "note training 1 state gave no number: kept as they were read"
    info = run("info", *where).out
    assert "quality    study" in info
    assert "studied at most 6 steps, 4 s each: 2 refined" in " ".join(info.split())
    told = run("info", *where, "--json").json
    assert (told["quality"], told["refined"], told["settings"]["study_seconds"]) == ("study", 2, 4.0)
    listed = run("list", *where, "--json").json
    assert (listed["quality"], [row["refined"] for row in listed["documents"]]) == ("study", [1, 1, 0])
    assert run("list", *where).out.count(", 1 refined") == 2
    asked = run("ask", "Who made the wheel of the mill?", *where, "--always-answer")
    assert "injected, refined" in asked.out
    several = run("ask", "Who made the wheel of the mill?", *where, "--always-answer", "--inject", "2")
    assert ", refined\n" in several.out.split("2 contexts")[1]
    asked = run("ask", "Who made the wheel of the mill?", *where, "--json")
    assert asked.json["composition"]["refined"] is True
    assert "2 records refined: reading does not give such a state" in " ".join(run("verify", *where).out.split())
    assert run("verify", *where, "--json").json["records_refined"] == 2
    assert "gave way to the budget: their texts" in run("index", *where, "--budget", "0").out
    assert "its state gave way: read again, not studied" in " ".join(
        run("ask", "Who made the wheel?", *where).out.split()
    )
    assert "3 gave way and are read again when needed, not studied" in " ".join(run("info", *where).out.split())
    again = run("reindex", *where, "--quality", "fast", "--json").json
    assert (again["studied"], again["refined"], again["kept_as_read"]) == (0, 0, {})
    told = run("info", *where, "--json").json
    assert (told["quality"], told["refined"]) == ("fast", 0)
    assert run("reindex", *where, "--quality", "study", "--study-steps", 6, "--json").json["kept_as_read"] == {"not a number": 1}


@pytest.mark.parametrize(
    "options",
    [
        ("--quality", "magic"),
        ("--quality", "fast", "--encode", "twice"),
        ("--quality", "study", "--study-seconds", "nan"),
        ("--quality", "study", "--study-seconds", "inf"),
        ("--quality", "study", "--study-seconds", "0"),
        ("--quality", "study", "--study-steps", "-1"),
        ("--quality", "study", "--study-seconds", "3"),
        ("--quality", "study", "--study-steps", "0", "--study-seconds", "3"),
        ("--study-steps", "5"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    tmp_path: Path, docs: Path, corpus: Path, model: Path, run: Run, options: tuple[str, ...]
) -> None:
    for command in (
        ("index", docs, "--corpus", tmp_path / "new", "--model", model),
        ("index", docs, "--corpus", corpus),
        ("reindex", "--corpus", corpus),
    ):
        ended = run(*command, *options)
        assert ended.status == 2
        [line] = ended.err.splitlines()
        assert "Traceback" not in line
    assert not (tmp_path / "new").exists()


def test_another_quality_names_the_command_that_makes_it(docs: Path, corpus: Path, run: Run) -> None:
    ended = run("index", docs, "--corpus", corpus, "--quality", "study")
    assert (ended.status, f"precog reindex --corpus {corpus} --quality study" in ended.err) == (2, True)
