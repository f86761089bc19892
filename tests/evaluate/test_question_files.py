"""Loaders of HotpotQA and Natural Questions: both forms of each, and the one line that a wrong file gets."""

import gzip
import json
import os
from pathlib import Path

import pytest

from precog.errors import InputError
from precog.evaluate.hotpot_data import OFFICIAL, REBUILT, HotpotParagraph, HotpotQuestion, read_hotpot
from precog.evaluate.natural_questions_data import read_natural_questions
from precog.evaluate.squad_data import Question, read_questions

OFFICIAL_ROW = {
    "_id": "h1",
    "question": "Where was the builder of the lighthouse born?",
    "answer": "Leith",
    "supporting_facts": [["Lighthouse", 0], ["Ada Quill", 1], ["Ada Quill", 0]],
    "context": [
        ["Lighthouse", ["Ada Quill built it.", " It stands on Marrow."]],
        ["Ada Quill", ["She was an engineer.", " She was born in Leith."]],
        ["Mill", ["It stands on the Ouse."]],
    ],
}
LINE_ROW = {
    "id": "h1",
    "question": OFFICIAL_ROW["question"],
    "answer": "Leith",
    "supporting_titles": ["Lighthouse", "Ada Quill"],
    "context": [{"title": title, "sentences": sentences} for title, sentences in OFFICIAL_ROW["context"]],
    "setting": "official-distractor",
}
WORDS = (
    "<H1> Lighthouse </H1> <P> The lamp ( of Marrow ) was lit in 1843 , by Ada Quill 's crew . </P> <P> It burns . </P>"
)
NQ_ROW = {
    "example_id": -7,
    "question_text": "when was the lamp lit",
    "document_text": WORDS,
    "long_answer_candidates": [{"start_token": 3, "end_token": 22, "top_level": True}],
    "annotations": [
        {"long_answer": {"start_token": -1, "end_token": -1, "candidate_index": -1}, "short_answers": []},
        {
            "long_answer": {"start_token": 3, "end_token": 22, "candidate_index": 0},
            "short_answers": [{"start_token": 13, "end_token": 14}],
            "yes_no_answer": "NONE",
        },
        {
            "long_answer": {"start_token": 3, "end_token": 22, "candidate_index": 0},
            "short_answers": [{"start_token": 12, "end_token": 14}],
        },
    ],
}
QED_ROW = {
    "id": "n1",
    "title": "Lamp",
    "context": "It burns oil , not gas .",
    "context_detok": "It burns oil, not gas.",
    "question": "what burns",
    "answers": ["oil"],
}


def _write(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_both_forms_of_hotpot_give_the_same_question(tmp_path: Path) -> None:
    expected = HotpotQuestion(
        "h1",
        "Where was the builder of the lighthouse born?",
        "Leith",
        ("Lighthouse", "Ada Quill"),
        (
            HotpotParagraph("Lighthouse", "Ada Quill built it. It stands on Marrow."),
            HotpotParagraph("Ada Quill", "She was an engineer. She was born in Leith."),
            HotpotParagraph("Mill", "It stands on the Ouse."),
        ),
        OFFICIAL,
    )
    zipped = tmp_path / "lines.gz"
    zipped.write_bytes(gzip.compress(json.dumps(LINE_ROW).encode()))
    indented = tmp_path / "indented.json"
    indented.write_text(json.dumps([OFFICIAL_ROW], indent=1))
    assert read_hotpot(_write(tmp_path / "official.json", [OFFICIAL_ROW])) == [expected]
    assert read_hotpot(indented) == read_hotpot(zipped) == [expected]
    assert expected.paragraphs[2].full_text == "Mill. It stands on the Ouse."
    assert not expected.is_yes_no


def test_a_rebuilt_question_is_said_to_be_one_and_may_not_know_its_paragraphs(tmp_path: Path) -> None:
    row = {**LINE_ROW, "setting": "reconstructed: 2 gold + 8", "supporting_titles": None, "answer": "Yes"}
    [question] = read_hotpot(_write(tmp_path / "h.jsonl", row))
    assert question.setting == REBUILT
    assert question.supporting_titles == ()
    assert question.is_yes_no


def test_the_official_long_answer_is_a_passage_without_tags(tmp_path: Path) -> None:
    [question] = read_natural_questions(_write(tmp_path / "nq.jsonl", NQ_ROW))
    context = "The lamp (of Marrow) was lit in 1843, by Ada Quill's crew."
    assert question == Question("-7", "", context, "when was the lamp lit", ("1843", "in 1843"))


def test_questions_without_a_long_or_a_short_answer_are_left_out(tmp_path: Path) -> None:
    neither = {**NQ_ROW, "example_id": 8, "annotations": NQ_ROW["annotations"][:1]}
    no_short = {**NQ_ROW, "example_id": 9, "annotations": [{**NQ_ROW["annotations"][1], "short_answers": []}]}
    assert [q.id for q in read_natural_questions(_write(tmp_path / "nq.jsonl", neither, NQ_ROW, no_short))] == ["-7"]
    with pytest.raises(InputError, match="holds no question"):
        read_natural_questions(_write(tmp_path / "none.jsonl", neither))


def test_qed_is_read_as_people_write_where_the_answer_stands_there(tmp_path: Path) -> None:
    spaced = {**QED_ROW, "id": "n2", "answers": ["oil , not gas"]}
    first, second = read_natural_questions(_write(tmp_path / "nq.jsonl", QED_ROW, spaced))
    assert first.context == "It burns oil, not gas."
    assert second.context == "It burns oil , not gas ."


def _without(row: dict, key: str) -> dict:
    return {name: value for name, value in row.items() if name != key}


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([LINE_ROW, _without(LINE_ROW, "question")], "line 2, field question; given: no such field; expected: a text"),
        ([{**LINE_ROW, "answer": 3}], "line 1, field answer; given: 3; expected: a text"),
        ([{**LINE_ROW, "context": [{"title": "a"}]}], "line 1, field context[0].sentences; given: no such field"),
        ([{**LINE_ROW, "context": {}}], "line 1, field context; given: {}; expected: a list"),
        ([{**LINE_ROW, "supporting_titles": ["Sea"]}], "field context; given: \"without 'Sea'\""),
        ([[OFFICIAL_ROW, {**OFFICIAL_ROW, "context": [["Mill"]]}]], 'field context[0]; given: ["Mill"]; expected: [t'),
        ([{**OFFICIAL_ROW, "supporting_facts": ["Mill"]}], 'field supporting_facts[0]; given: "Mill"'),
        ([3], "line 1; given: 3; expected: a JSON object"),
        ([LINE_ROW, LINE_ROW], "repeats an id"),
        ([], "holds no question"),
    ],
)
def test_a_wrong_hotpot_file_is_told_by_line_and_field(tmp_path: Path, rows: list, said: str) -> None:
    with pytest.raises(InputError) as caught:
        read_hotpot(_write(tmp_path / "h.jsonl", *rows))
    assert said in str(caught.value)
    assert "h.jsonl" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (_without(QED_ROW, "context_detok"), "line 1, field context_detok; given: no such field; expected: a text"),
        ({**QED_ROW, "answers": "oil"}, 'line 1, field answers; given: "oil"; expected: a list of texts'),
        (_without(NQ_ROW, "annotations"), "line 1, field annotations"),
        ({**NQ_ROW, "annotations": [{"short_answers": []}]}, "field annotations[0].long_answer; given: no such field"),
        ({**NQ_ROW, "document_text": "<P> short </P>"}, "field annotations[1].short_answers[0].end_token; given: [13"),
        ({**NQ_ROW, "example_id": None}, "field example_id; given: null"),
    ],
)
def test_a_wrong_natural_questions_file_is_told_by_line_and_field(tmp_path: Path, row: dict, said: str) -> None:
    with pytest.raises(InputError) as caught:
        read_natural_questions(_write(tmp_path / "nq.jsonl", row))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"hello", "line 1 is no JSON"),
        (b'[{"_id": 1},\n {"_id"]', "line 1, field supporting_facts; given: no such field; expected: a list"),
        (b'[\n\n{"_id"]', "line 3 is no JSON"),
        (b"\xff\xfe\x00", "line 1 is no UTF-8"),
        (b"\x1f\x8b\x08damaged", "cannot be read"),
    ],
)
def test_damage_is_one_line(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "h.json"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_hotpot(path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="cannot be read"):
        read_hotpot(tmp_path / "absent.json")


READERS = {"squad": read_questions, "hotpot": read_hotpot, "nq": read_natural_questions}
LINES = {
    "squad": {
        "id": "s1",
        "title": "Mill",
        "context": "It stands on the Ouse.",
        "question": "Where?",
        "answers": ["Ouse"],
    },
    "hotpot": LINE_ROW,
    "nq": NQ_ROW,
}


@pytest.mark.parametrize("name", READERS)
def test_half_a_character_is_refused_wherever_it_stands(name, tmp_path):
    path = tmp_path / "q.jsonl"
    for field, value in LINES[name].items():
        if isinstance(value, str):
            path.write_text(json.dumps(LINES[name]) + "\n" + json.dumps({**LINES[name], field: "a\ud800"}) + "\n")
            with pytest.raises(InputError, match="line 2 holds half of a surrogate pair"):
                READERS[name](path)


@pytest.mark.parametrize("name", READERS)
def test_pipes_and_devices_are_refused_at_once(name, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), Path("/dev/null")):
        with pytest.raises(InputError, match="is a pipe or a device"):
            READERS[name](path)


@pytest.mark.parametrize("name", READERS)
def test_what_follows_a_list_is_not_lost(name, tmp_path):
    path = tmp_path / "q.json"
    path.write_text(json.dumps([LINES[name]]) + "\n" + json.dumps([LINES[name]]))
    with pytest.raises(InputError, match="line 2 goes on after the list's end"):
        READERS[name](path)
    path.write_text(json.dumps([LINES[name]]) + " \n\n")
    assert len(READERS[name](path)) == 1


def test_what_follows_the_object_of_squad_is_not_lost(tmp_path):
    asked = {"id": "a", "question": "Who?", "answers": [{"text": "Ada"}]}
    whole = {"data": [{"title": "t", "paragraphs": [{"context": "Ada built it.", "qas": [asked]}]}]}
    path = tmp_path / "q.json"
    path.write_text(json.dumps(whole) + "\n" + json.dumps(whole))
    with pytest.raises(InputError, match="this is not a SQuAD"):
        read_questions(path)


def test_an_id_that_stands_twice_is_named(tmp_path):
    path = tmp_path / "q.jsonl"
    path.write_text(2 * (json.dumps(LINES["squad"]) + "\n"))
    with pytest.raises(InputError, match="repeats an id; given: s1, 2 times"):
        read_questions(path)
