"""SQuAD files and conversations whose parts are of other types, and names and texts beyond UTF-8."""

import json
import os
from pathlib import Path

import pytest

from precog.errors import InputError
from precog.train.data.chat import read_conversations
from precog.train.data.documents import data_files, read_documents, source_name
from precog.train.data.squad import read_squad

CONTEXT = "The mill of Oslo was built in 1801 by Ada Quill."
GOOD = {"title": "T", "context": CONTEXT, "question": "Where?", "answers": [{"text": "Oslo", "answer_start": 12}]}


def refused(action, *parts: str) -> None:
    with pytest.raises(InputError) as told:
        action()
    assert "\n" not in str(told.value)
    for part in parts:
        assert part in str(told.value)


def official(**changes: object) -> dict[str, object]:
    row = GOOD | changes
    qas = [{"question": "Who?", "answers": []}, {"question": row["question"], "answers": row["answers"]}]
    return {"data": [{"title": row["title"], "paragraphs": [{"context": row["context"], "qas": qas}]}]}


BAD = [
    ({"answers": None}, "answers is null"),
    ({"answers": "Oslo"}, "answers is"),
    ({"answers": [{"text": None, "answer_start": 12}]}, "an answer is null"),
    ({"answers": [None]}, "an answer is null"),
    ({"answers": [5]}, "an answer is 5"),
    ({"answers": [{"text": 5, "answer_start": 12}]}, "an answer is 5"),
    ({"answers": [{"answer_start": 12}]}, "no text"),
    ({"answers": [{"text": "Oslo", "answer_start": "12"}]}, "answer_start is"),
    ({"answers": [{"text": "Oslo", "answer_start": 1.5}]}, "answer_start is 1.5"),
    ({"answers": [{"text": "Oslo", "answer_start": None}]}, "answer_start is null"),
    ({"answers": [{"text": "Oslo", "answer_start": True}]}, "answer_start is true"),
    ({"context": 5}, "context is 5"),
    ({"context": None}, "context is null"),
    ({"question": None}, "question is null"),
    ({"question": ["Who?"]}, "question is"),
    ({"title": 7}, "title is 7"),
]


@pytest.mark.parametrize(("changes", "said"), BAD)
def test_a_squad_item_of_other_types_is_named(tmp_path: Path, changes: dict[str, object], said: str) -> None:
    lines, whole = tmp_path / "a.jsonl", tmp_path / "a.json"
    lines.write_text(f"{json.dumps(GOOD)}\n\n{json.dumps(GOOD | changes)}\n")
    refused(lambda: read_squad(lines), "SQuAD", "line 3", said)
    whole.write_text(json.dumps(official(**changes)))
    refused(lambda: read_squad(whole), "SQuAD", "paragraph 1", said)


@pytest.mark.parametrize(
    "row",
    [
        [1], {"data": None}, {"data": [3]}, {"data": [{"title": "T", "paragraphs": 4}]}, {"context": CONTEXT},
        {"data": [{"title": "T", "paragraphs": [{"context": "", "qas": [[]]}]}]},
        GOOD | {"answers": {"text": ["Oslo"], "answer_start": []}}, GOOD | {"answers": {"text": ["Oslo"]}},
    ],
)  # fmt: skip
def test_a_squad_file_of_another_form_is_told(tmp_path: Path, row: object) -> None:
    (tmp_path / "a.json").write_text(json.dumps(row))
    refused(lambda: read_squad(tmp_path / "a.json"), "SQuAD")


def test_answers_may_come_without_a_place(tmp_path: Path) -> None:
    rows = [
        GOOD | {"answers": [{"text": "Oslo", "answer_start": -1}]},
        GOOD | {"answers": [{"text": "Oslo"}]},
        GOOD | {"answers": ["Oslo"]},
        GOOD | {"answers": {"text": ["Oslo"], "answer_start": [12]}},
        GOOD | {"answers": {"text": [], "answer_start": []}, "title": None},
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    first, second = read_squad(tmp_path / "a.jsonl")
    assert [(answer, offset) for _, answer, offset in first.asked] == [("Oslo", None)] * 3 + [("Oslo", 12)]
    assert (second.title, second.asked) == ("", (("Where?", "", None),))


TURN = {"speaker": "Ann", "text": "Well."}


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"turns": [TURN, TURN | {"text": None}]}, "text is NoneType"),
        ({"turns": [TURN, TURN | {"text": 3}]}, "text is int"),
        ({"turns": [TURN | {"speaker": None}]}, "speaker is NoneType"),
        ({"turns": [{"speaker": "Ann"}]}, "no 'text'"),
        ({"turns": [3]}, "object 2"),
        ({"messages": [{"role": "user", "content": None}]}, "text is NoneType"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "Well."}]}]}, "text is list"),
        ({"messages": [{"role": 3, "content": "Well."}]}, "speaker is int"),
        ({"turns": [TURN | {"slots": [{"slot": "a", "start": float("inf"), "exclusive_end": 2}]}]}, "a slot from inf"),
        ({"turns": [TURN | {"slots": [{"slot": "a", "start": "0", "exclusive_end": 2}]}]}, "a slot from '0'"),
        ({"turns": [TURN | {"slots": [{"slot": None, "start": 0, "exclusive_end": 2}]}]}, "name is NoneType"),
        ({"turns": [{"speaker": "A", "utterance": None, "frames": []}]}, "text is NoneType"),
    ],
)
def test_a_turn_of_other_types_is_named(tmp_path: Path, row: object, said: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f"{json.dumps({'turns': [TURN]})}\n{json.dumps(row).replace('Infinity', '1e999')}\n")
    refused(lambda: list(read_conversations(path)), "object 2", said)


def test_messages_that_only_call_a_tool_say_nothing(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "Well?"}, {"role": "assistant", "content": None, "tool_calls": []}]
    (tmp_path / "a.jsonl").write_text(json.dumps({"messages": messages}))
    [conversation] = read_conversations(tmp_path / "a.jsonl")
    assert [turn.text for turn in conversation.turns] == ["Well?"]


def test_halves_of_surrogate_pairs_are_replaced_wherever_json_spells_them(tmp_path: Path) -> None:
    half = "a\ud800b"
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(GOOD | {"title": half, "context": half + CONTEXT, "question": half}))
    [paragraph] = read_squad(path)
    assert paragraph.title == "a\ufffdb"
    assert paragraph.text == f"a\ufffdb{CONTEXT}"
    assert paragraph.asked[0][0] == "a\ufffdb"
    turn = {"speaker": half, "text": half, "slots": [{"slot": half, "start": 1, "exclusive_end": 3}]}
    path.write_text(json.dumps({"id": half, "turns": [turn]}))
    [conversation] = read_conversations(path)
    [said] = conversation.turns
    told = (conversation.name, said.speaker, said.text, said.slots[0].name)
    assert set(told) == {"a\ufffdb"}
    path.write_text(json.dumps({"title": half, "text": half}))
    [document] = read_documents(path)
    assert (document.title, document.paragraphs) == ("a\ufffdb", ("a\ufffdb",))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("town-003.txt.xz", "town"), ("...txt", "text"), ("..txt", "text"), (".parts.txt", "parts"), (".txt", "text"),
        ("-7.txt", "text"), ("a.b.md", "a.b"), ("\udcff\udcfe.txt", "__"), ("K\u00f6ln.jsonl.gz", "K\u00f6ln"),
    ],
)  # fmt: skip
def test_a_source_has_a_name_that_a_folder_can_have(name: str, expected: str) -> None:
    assert source_name(Path("deep", name)) == expected


def test_a_folder_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "closed").mkdir()
    (tmp_path / "a.txt").write_text("text")
    scan = os.scandir

    def closed(path: str) -> object:
        if os.fspath(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", os.fspath(path))
        return scan(path)

    assert data_files(tmp_path) == ([tmp_path / "a.txt"], [])
    monkeypatch.setattr(os, "scandir", closed)
    refused(lambda: data_files(tmp_path), "a folder cannot be read", "closed: Permission denied")
