from pathlib import Path

import pytest
from ended import Run

from precog.evaluate.theorem import experiment

SMALL = ("--quick", "--tokens", "4", "--question-tokens", "4")


def test_the_theorem_holds_for_a_model_and_what_does_not_is_an_error(
    run: Run, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # another process takes seconds to start
    monkeypatch.setattr(experiment, "in_another_process", lambda *_: None)
    ended = run("eval", "theorem", "--model", model, *SMALL, "--json")
    assert ended.status == 0
    report = ended.json
    assert report["experiment"] == "theorem"
    assert report["holds"]
    assert (report["model"], report["texts"], report["chunk_tokens"], report["question_tokens"]) == ("tiny", 1, 4, 4)
    assert report["has_files"]

    part = report["parts"]["exactness"]
    part["bounds"][0] |= {"holds": False, "judged": True}
    part["holds"] = report["holds"] = False
    monkeypatch.setattr("precog.cli.eval_theorem.run", lambda *_: report)
    ended = run("eval", "theorem", "--model", model, *SMALL)
    assert ended.status == 1
    shown = " ".join(ended.out.split())
    assert "exactness: does not hold" in shown
    assert "sufficiency: holds" in shown
    assert "diagonal, random" in shown


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("--tokens", "2"), 2, "chunk tokens: too few; given: 2"),
        (("--texts", "0"), 2, "texts: too few; given: 0"),
        (("--data", "{room}/none.txt"), 1, "none.txt"),
        (("--data", "{room}/short.txt"), 1, "the text is too short for these passages"),
        (("--model", "/nowhere"), 1, "no such model"),
    ],
)
def test_bad_input_is_one_line(
    run: Run, model: Path, tmp_path: Path, arguments: tuple[str, str], status: int, said: str
) -> None:
    (tmp_path / "short.txt").write_text("A few words.\n")
    option, value = arguments
    chosen = () if option == "--model" else ("--model", model)
    ended = run("eval", "theorem", *chosen, option, value.format(room=tmp_path))
    assert ended.status == status
    assert said in " ".join(ended.err.split())
    assert not ended.out
