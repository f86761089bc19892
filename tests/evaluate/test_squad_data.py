import gzip
import json
import random
from hashlib import sha256
from pathlib import Path

import pytest

from precog.errors import InputError
from precog.evaluate.regex_baseline import answer_by_rule
from precog.evaluate.squad_data import Question, ids_sha256, read_questions, sample_questions

CONTEXT = "Marie Curie was born in Warsaw in 1867. She won the Nobel Prize in Physics in 1903 with 2 colleagues."
ROWS = [
    {"id": f"q{i}", "title": "Curie", "context": CONTEXT, "question": f"When? {i}", "answers": ["1867", "in 1867"]}
    for i in range(5)
]


def _official() -> str:
    asked = [
        {"id": r["id"], "question": r["question"], "answers": [{"text": a, "answer_start": 0} for a in r["answers"]]}
        for r in ROWS
    ]
    paragraph = {"context": CONTEXT, "qas": asked}
    return json.dumps({"version": "1.1", "data": [{"title": "Curie", "paragraphs": [paragraph]}]})


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    return path


def test_both_forms_give_the_same_questions(lines: Path, tmp_path: Path) -> None:
    official, zipped = tmp_path / "squad.json", tmp_path / "questions.jsonl.gz"
    official.write_text(_official(), encoding="utf-8")
    zipped.write_bytes(gzip.compress(lines.read_bytes()))
    indented = tmp_path / "indented.json"
    indented.write_text(json.dumps(json.loads(_official()), indent=2), encoding="utf-8")
    expected = read_questions(lines)
    assert expected[0] == Question("q0", "Curie", CONTEXT, "When? 0", ("1867", "in 1867"))
    assert read_questions(official) == read_questions(zipped) == read_questions(indented) == expected


def test_subset_is_the_documented_sample(lines: Path) -> None:
    questions = read_questions(lines)
    wanted = random.Random(7).sample(sorted(q.id for q in questions), 3)
    assert [q.id for q in sample_questions(questions[::-1], 3, 7)] == wanted
    assert [q.id for q in sample_questions(questions[::-1], None, 7)] == [f"q{i}" for i in range(5)]
    assert len(sample_questions(questions, 99, 7)) == 5
    assert ids_sha256(questions) == ids_sha256(questions[::-1]) == sha256(b"q0\nq1\nq2\nq3\nq4").hexdigest()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no question|not a SQuAD"),
        (b"hello", "not a SQuAD"),
        (b'{"data": 3}', "not a SQuAD"),
        (b'{"data": []}', "no question"),
        (b"\x1f\x8b\x08damaged", "not a SQuAD|cannot be read"),
        (b"\xff\xfe\x00", "not a SQuAD"),
        (json.dumps(ROWS[0] | {"answers": []}).encode(), "not a SQuAD"),
        (json.dumps(ROWS[0] | {"question": 3}).encode(), "not a SQuAD"),
        ((json.dumps(ROWS[0]) + "\n" + json.dumps(ROWS[0])).encode(), "repeats an id"),
    ],
)
def test_bad_files_give_one_clear_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        read_questions(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (json.dumps(ROWS[0]) + "\n" + json.dumps(ROWS[1] | {"answers": "1867"}), ", line 2, field answers; given: "),
        (json.dumps(ROWS[0]) + "\n{", ", line 2 is no JSON"),
        (
            '{"data": [{"title": "a", "paragraphs": [{"context": "b"}]}]}',
            ", field data[0].paragraphs[0].qas; given: n",
        ),
        ('{"data":\n [{"title": 3}]}', ", field data[0].title; given: 3; expected: a text"),
        ('{"data":\n [,', ", line 2 is no JSON"),
    ],
)
def test_the_line_and_the_field_are_told(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(content)
    with pytest.raises(InputError) as caught:
        read_questions(path)
    assert f"this is not a SQuAD v1.1 file: {path}{said}" in str(caught.value)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_questions(tmp_path / "absent.json")


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("In what year was Marie Curie born?", "1867"),
        ("Where was Marie Curie born?", "Warsaw"),
        ("Who was born in Warsaw?", "Marie Curie"),
        ("When was the Nobel Prize won?", "1903"),
    ],
)
def test_the_rule_finds_typed_entities(question: str, answer: str) -> None:
    assert answer_by_rule(question, CONTEXT) == answer


def test_the_rule_survives_any_text() -> None:
    assert answer_by_rule("Who?", "") == ""
    assert answer_by_rule("", "日本語 only. …") in ("", "日本語 only. …")
