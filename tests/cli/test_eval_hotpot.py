import json
from pathlib import Path

import pytest
from ended import Run

ROWS = [
    {
        "_id": name,
        "question": question,
        "answer": answer,
        "supporting_facts": [["Lighthouse", 0], ["Ada Quill", 0]],
        "context": [
            ["Lighthouse", ["Ada Quill built it.", " It stands on Marrow."]],
            ["Mill", ["It stands on the Ouse."]],
            ["Ada Quill", ["She was born in Leith."]],
        ],
    }
    for name, question, answer in (("a", "Where was its builder born?", "Leith"), ("b", "Is it on Marrow?", "yes"))
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "hotpot.json").write_text(json.dumps(ROWS))
    return tmp_path / "hotpot.json"


def test_rules_in_json_and_in_a_table(run: Run, model: Path, data: Path) -> None:
    arguments = ["eval", "hotpot", "--data", data, "--model", model, "--top-k", "1,3", "--rules", "mean,mix@0.1"]
    ended = run(*arguments, "--json")
    assert ended.status == 0, ended.err
    table = ended.json["tables"]["official-distractor"]
    assert [(row["k"], row["rule"]) for row in table["rows"]] == [(1, "best"), (3, "mean"), (3, "mix@0.1")]
    assert table["recall"]["recall_all"]["3"] == 1.0
    assert table["recall"]["recall_all"]["1"] == 0.0
    assert table["num_yes_no"] == 1
    shown = run(*arguments)
    assert shown.status == 0
    assert "HotpotQA, official-distractor, 2 questions" in shown.out
    assert "1 question answered by yes or no" in shown.out


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        (["--rules", ""], 2, "--rules names no rule"),
        (["--rules", " ,"], 2, "--rules names no rule"),
        (["--rules", "soup"], 2, "--compose: no such rule; given: soup"),
        (["--top-k", "1,x"], 2, "--top-k is a list of whole numbers above 0; given: 1,x"),
        (["--top-k", "3,1"], 2, "--top-k are rising numbers"),
        (["--setting", "easy"], 2, "--setting: no such choice; given: easy"),
        (["--setting", "rebuilt"], 1, "no question of the file has such paragraphs"),
    ],
)
def test_bad_options_are_one_line(
    run: Run, model: Path, data: Path, options: list[str], status: int, said: str
) -> None:
    ended = run("eval", "hotpot", "--data", data, "--model", model, *options)
    assert ended.status == status
    assert said in " ".join(ended.err.split())


def test_a_wrong_file_is_told_by_line_and_field(run: Run, model: Path, data: Path) -> None:
    data.write_text(json.dumps([{**ROWS[0], "context": [["Mill"]]}]))
    ended = run("eval", "hotpot", "--data", data, "--model", model, "--json")
    assert ended.status == 1
    assert "line 1, field context[0]" in json.loads(ended.out)["error"]["message"]
