"""Example files: both forms, what is held out, what does not fit, and one clear line for everything else."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from precog.errors import InputError, TrainingError
from precog.train.conversation import Said, conversation_columns, read_roles
from precog.train.data.rows import Kind
from precog.train.data.tokens import BOUNDARY_ID, EOS_ID, Pieces
from precog.train.examples import only_conversations, prepare_examples

TOWNS = ("Oslo", "Riga", "Bern", "Lyon", "Cork", "York", "Kiel", "Nice", "Bari", "Graz", "Linz", "Pisa")


def squad_rows(count: int = 12) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for i, town in enumerate(TOWNS[:count]):
        context = f"The mill of {town} was built in {1800 + i} by Ada Quill."
        rows += [
            {"id": f"{i}a", "title": town, "context": context, "question": "Where is the mill?", "answers": [town]},
            {"id": f"{i}b", "title": town, "context": context, "question": "When was the mill of it built?",
             "answers": [str(1800 + i)]},
        ]  # fmt: skip
    return rows


def jsonl(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def official(path: Path, rows: list[dict[str, object]]) -> Path:
    paragraphs: dict[str, list[dict[str, object]]] = {}
    for row in rows:
        context, [answer] = str(row["context"]), row["answers"]
        asked = {"id": row["id"], "question": row["question"]}
        asked["answers"] = [{"text": answer, "answer_start": context.index(answer)}]
        paragraphs.setdefault(context, []).append(asked)
    data = [{"title": "Mills", "paragraphs": [{"context": c, "qas": q} for c, q in paragraphs.items()]}]
    path.write_text(json.dumps({"version": "1.1", "data": data}), encoding="utf-8")
    return path


def talks(count: int = 6) -> list[dict[str, object]]:
    return [
        {"messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": f"I am from {town}."},
            {"role": "assistant", "content": "Noted!"},
            {"role": "user", "content": "Where am I from?"},
            {"role": "assistant", "content": f"From {town}."},
        ]}
        for town in TOWNS[:count]
    ]  # fmt: skip


@pytest.fixture(scope="module")
def pieces() -> Pieces:
    return Pieces()


@pytest.mark.parametrize("write", [jsonl, official])
def test_squad_in_both_forms(tmp_path: Path, pieces: Pieces, write) -> None:
    examples = prepare_examples([write(tmp_path / "q.json", squad_rows())], tmp_path / "data")
    assert (len(examples.train), len(examples.held_out)) == (11, 1)
    assert (examples.train.num_questions, examples.held_out.num_questions) == (22, 2)
    assert examples.num_left_out == 0
    assert not examples.only_chat
    columns = examples.train.columns
    for row in range(22):
        chunk, start, length = columns["chunk"][row], columns["answer_start"][row], columns["answer_len"][row]
        answer = columns["context"][chunk, start : start + length]
        prompt_len, row_len = columns["prompt_len"][row], columns["row_len"][row]
        assert answer.tolist() == columns["questions"][row, prompt_len : row_len - 1].tolist()
        assert columns["questions"][row, row_len - 1] == EOS_ID
        assert columns["context"].shape[1] < 64  # no wider than the longest chunk


def test_what_is_held_out_is_not_trained_on(tmp_path: Path) -> None:
    examples = prepare_examples([jsonl(tmp_path / "q.jsonl", squad_rows())], tmp_path / "data", share=0.25)
    trained = {tuple(row) for row in examples.train.columns["context"].tolist()}
    held_out = {tuple(row) for row in examples.held_out.columns["context"].tolist()}
    assert (len(trained), len(held_out)) == (9, 3)
    assert not trained & held_out


def test_the_same_files_are_prepared_once_and_others_anew(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "q.jsonl", squad_rows())
    folder = tmp_path / "data"
    first = prepare_examples([path], folder)
    made = (folder / "train" / "examples" / "meta.json").stat().st_mtime_ns
    again = prepare_examples([path], folder)
    assert (folder / "train" / "examples" / "meta.json").stat().st_mtime_ns == made
    assert again.files == first.files
    jsonl(path, squad_rows(5))
    fewer = prepare_examples([path], folder)
    assert fewer.num_questions == 10
    assert fewer.files != first.files


def test_conversations_become_states_questions_and_free_answers(tmp_path: Path, pieces: Pieces) -> None:
    path = jsonl(tmp_path / "c.jsonl", talks())
    examples = prepare_examples([path], tmp_path / "data")
    assert examples.only_chat
    assert only_conversations([path])
    assert (examples.train.num_questions, examples.held_out.num_questions) == (10, 2)
    columns = examples.train.columns
    for row in range(10):
        prompt_len, row_len, context_len = (int(columns[n][row]) for n in ("prompt_len", "row_len", "context_len"))
        prompt = pieces.decode(columns["questions"][row, 1:prompt_len].tolist())
        reply = pieces.decode(columns["questions"][row, prompt_len : row_len - 1].tolist())
        before = columns["context"][row, :context_len].tolist()
        assert columns["questions"][row, row_len - 1] == EOS_ID
        assert before[0] == BOUNDARY_ID
        if "Where am I from?" in prompt:
            assert reply.startswith("From ")
            assert before.count(BOUNDARY_ID) == 2
            assert pieces.decode([i for i in before if i != BOUNDARY_ID]).endswith("###Long Answer: Noted!")
        else:
            assert reply == "Noted!"
            assert pieces.decode(before[1:]) == "Be brief."
    assert set(columns["kind"].tolist()) == {int(Kind.DIALOGUE)}
    assert set(columns["answer_start"].tolist()) == {-1}


def test_both_forms_together(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "c.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in talks())
    paths = [jsonl(tmp_path / "q.jsonl", squad_rows()), tmp_path / "c.jsonl.gz"]
    examples = prepare_examples(paths, tmp_path / "data")
    assert not examples.only_chat
    assert examples.train.num_questions == 22 + 10
    columns = examples.train.columns
    first = columns["first_question"]
    for chunk in range(len(examples.train)):
        assert set(columns["chunk"][first[chunk] : first[chunk + 1]].tolist()) == {chunk}
    assert first[-1] == 32


@pytest.mark.parametrize(
    ("speakers", "roles"),
    [
        (("USER", "SYSTEM"), ("user", "assistant")),
        (("Anna", "Ben"), ("user", "assistant")),
        (("system", "user", "assistant"), ("system", "user", "assistant")),
        (("human", "gpt"), ("user", "assistant")),
        (("assistant", "Anna"), ("assistant", "user")),
    ],
)
def test_who_is_the_user(tmp_path: Path, speakers: tuple[str, ...], roles: tuple[str, ...]) -> None:
    row = {"turns": [{"speaker": speaker, "text": "Well."} for speaker in speakers]}
    [said] = read_roles(jsonl(tmp_path / "c.jsonl", [row]))
    assert tuple(turn.role for turn in said) == roles


def test_it_may_be_unclear_who_replies(tmp_path: Path) -> None:
    row = {"turns": [{"speaker": speaker, "text": "Well."} for speaker in ("Anna", "Ben", "Cleo")]}
    with pytest.raises(InputError, match="unclear who replies"):
        read_roles(jsonl(tmp_path / "c.jsonl", [row]))


def test_long_conversations_keep_their_end(pieces: Pieces) -> None:
    turns = [Said("user" if i % 2 == 0 else "assistant", f"Turn {i} says number {i}.") for i in range(40)]
    columns, dropped = conversation_columns([turns], pieces, 64, 48)
    assert dropped == 0
    last = columns["context"][-1, : columns["context_len"][-1]].tolist()
    assert last[0] == BOUNDARY_ID
    text = pieces.decode([i for i in last if i != BOUNDARY_ID])
    assert "number 37" in text
    assert "number 1." not in text


def test_a_reply_that_is_cut_has_no_end_and_a_question_too_long_is_left_out(pieces: Pieces) -> None:
    long = "word " * 100
    columns, dropped = conversation_columns(
        [[Said("user", "Say it."), Said("assistant", long)], [Said("user", long), Said("assistant", "No.")]],
        pieces, 64, 48,
    )  # fmt: skip
    assert dropped == 1
    assert columns["row_len"].tolist() == [48]
    assert EOS_ID not in columns["questions"][0]


def test_several_turns_of_one_voice_are_one_and_a_chunk_of_one_long_turn_opens_with_the_boundary(
    pieces: Pieces,
) -> None:
    turns = [Said("system", "rule " * 90), Said("user", "One."), Said("user", "Two."), Said("assistant", "Three.")]
    columns, _ = conversation_columns([turns], pieces, 32, 48)
    prompt = pieces.decode(columns["questions"][0, 1 : columns["prompt_len"][0]].tolist())
    assert "One.\nTwo." in prompt
    assert columns["context"][0, 0] == BOUNDARY_ID
    assert columns["context_len"].tolist() == [32]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no known form"),
        ('{"text": "A mill."}', "holds plain text"),
        ('{"messages": [{"role": "user"}]}', "object of another form"),
        ('{"messages": []}\n{"text": "x"}', "object 2"),
        ("[1, 2]", "no known form"),
        ('{"a": 1}', "no known form"),
        ("not json", "no known form"),
        ('{"data": [{"paragraphs": 1}]}', "SQuAD"),
    ],
)
def test_files_that_are_no_examples(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(text)
    with pytest.raises(InputError, match=said):
        prepare_examples([path], tmp_path / "data")
    assert not (tmp_path / "data" / "train" / "examples").exists()


def test_too_few_examples(tmp_path: Path) -> None:
    for rows in (squad_rows(1), [{**row, "answers": ["nowhere"]} for row in squad_rows()]):
        with pytest.raises(TrainingError, match="too few examples"):
            prepare_examples([jsonl(tmp_path / "q.jsonl", rows)], tmp_path / "data")
    with pytest.raises(TrainingError, match="held-out"):
        prepare_examples([jsonl(tmp_path / "q.jsonl", squad_rows())], tmp_path / "data", share=1.0)


def test_questions_whose_answer_is_not_there_are_counted(tmp_path: Path) -> None:
    rows = squad_rows()
    rows[0]["answers"] = ["nowhere"]
    examples = prepare_examples([jsonl(tmp_path / "q.jsonl", rows)], tmp_path / "data")
    assert examples.num_left_out == 1
    assert examples.num_questions == 23


def test_missing_and_damaged_files(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl.gz").write_bytes(b"\x1f\x8bnothing")
    (tmp_path / "x.jsonl").write_bytes(b'\xff\xfe{"messages"')
    for name in ("none.jsonl", "x.jsonl.gz", "x.jsonl"):
        with pytest.raises(InputError, match="cannot be read"):
            prepare_examples([tmp_path / name], tmp_path / "data")


def test_the_draw_depends_on_the_seed_alone(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "q.jsonl", squad_rows())
    held = [
        prepare_examples([path], tmp_path / f"data{number}", seed=seed).held_out.columns["context"]
        for number, seed in enumerate((0, 0, 1, 2, 3))
    ]
    assert np.array_equal(held[0], held[1])
    assert any(not np.array_equal(held[0], other) for other in held[2:])
