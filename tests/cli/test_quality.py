from pathlib import Path

import pytest
from ended import Run
from pretended_study import SPOILT, PretendedStudy
from read_texts import TEXTS

from precog.backbones.tiny import make_tiny
from precog.refine import study as study_module
from precog.store import CorpusStore


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
    made = run(
        "index", docs, *where, "--model", model, "--quality", "study", "--study-steps", "6", "--study-seconds", "4"
    )
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
    assert "7 gave way and are read again when needed, not studied" in " ".join(run("info", *where).out.split())
    again = run("reindex", *where, "--quality", "fast", "--json").json
    assert (again["studied"], again["refined"], again["kept_as_read"]) == (0, 0, {})
    told = run("info", *where, "--json").json
    assert (told["quality"], told["refined"]) == ("fast", 0)
    assert run("reindex", *where, "--quality", "study", "--study-steps", 6, "--json").json["kept_as_read"] == {
        "not a number": 1
    }


def test_a_corpus_is_trained_and_stays_the_same(tmp_path: Path, model: Path, run: Run) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    for number, text in enumerate(TEXTS):
        (folder / f"{number}.txt").write_text(text)
    (folder / "bare.txt").write_text("It rains.")
    corpora = {}
    for name in ("c", "d"):
        where = ("--corpus", tmp_path / name)
        steps = ("--quality", "study", "--study-steps", "2")
        made = run("index", folder, *where, "--model", model, *steps, "--json")
        assert made.status == 0, made.err
        report = made.json
        assert (report["studied"], report["kept_as_read"]["no questions"]) == (4, 1)
        assert report["refined"] >= 1
        assert report["study_steps"] == 6
        assert run("info", *where, "--json").json["refined"] == report["refined"]
        verified = run("verify", *where, "--json").json
        assert (verified["ok"], verified["records_refined"]) == (True, report["refined"])
        with CorpusStore.open(tmp_path / name) as store:
            found = [store.read_state(chunk) for chunk in store.visible_chunk_ids()]
            corpora[name] = [(record.refined, bytes(record.state)) for record in found]
    assert corpora["c"] == corpora["d"]
    assert run("ask", "Who built the lighthouse of Marrow?", "--corpus", tmp_path / "c").status == 0


def test_quality_study_alone_trains_nothing(
    tmp_path: Path, docs: Path, model: Path, run: Run, studying: PretendedStudy
) -> None:
    where = ("--corpus", tmp_path / "c")
    made = run("index", docs, *where, "--model", model, "--quality", "study", "--json").json
    assert (made["studied"], made["refined"], studying.texts) == (0, 0, [])
    told = run("info", *where, "--json").json
    assert made["parts"] == told["parts"]
    assert (told["quality"], told["refined"], told["settings"]["study_steps"]) == ("study", 0, 0)
    assert "chunks and sentences, each read once" in " ".join(run("info", *where).out.split())
    assert "step" not in run("info", *where).out


def test_it_is_told_that_an_answer_is_focused_on_a_sentence(tmp_path: Path, model: Path, run: Run) -> None:
    question = "When does the foghorn blow at noon?"
    text = "Its foghorn blows at noon. Its anchor rusts at dusk. Nobody has lived on that island for some eighty years."
    (tmp_path / "island.txt").write_text(text)
    where = ("--corpus", tmp_path / "c")
    assert run("index", tmp_path / "island.txt", *where, "--model", model, "--quality", "study").status == 0
    assert "injected, focused on one sentence" in run("ask", question, *where, "--always-answer").out
    [source] = run("ask", question, *where, "--always-answer", "--json").json["sources"]
    assert text[slice(*source["focus"])] == "Its foghorn blows at noon."
    withheld = run("ask", question, *where, "--min-confidence", "1", "--json").json
    assert withheld["sources"] == []
    assert withheld["looked_at"][0]["focus"] == source["focus"]
    read = run("ask", question, *where, "--always-answer", "--mode", "in-context").out
    assert "in-context: texts are read whole, so that no state is focused on a sentence" in read
    again = run("reindex", *where).out
    assert "documents: 1 read again" in again
    assert "3 sentences and rows of tables read alone, too" in again
    kept = run("forget", "--document", "island.txt", *where).out
    assert "its file is still there: the next `precog index` of its folder reads it again" in kept


def test_a_model_without_gradients_is_refused_in_one_line(tmp_path: Path, docs: Path, run: Run) -> None:
    hosted = make_tiny("mamba", tmp_path / "mamba")
    where = ("--corpus", tmp_path / "c", "--model", hosted, "--quality", "study")
    ended = run("index", docs, *where, "--study-steps", "2")
    assert ended.status == 2
    [line] = ended.err.splitlines()
    assert "this model cannot be studied with: it gives no gradients" in line
    assert "leave --study-steps out" in line
    assert not (tmp_path / "c").exists()
    assert run("index", docs, *where).status == 0  # which asks for no gradients


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
