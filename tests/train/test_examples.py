"""Example files: both forms, what is held out, what does not fit, and one clear line for everything else."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from precog.errors import InputError, TrainingError
from precog.questions.passage import Kind
from precog.train.conversation import Said, conversation_columns, read_roles
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
        ('{"text": "A mill."}', "holds no examples"),
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


def test_a_document_is_no_file_of_examples(tmp_path: Path) -> None:
    path = tmp_path / "x.pdf"
    path.write_bytes(b"%PDF")
    with pytest.raises(InputError, match=r"this file holds no examples; given: .*x\.pdf; expected: SQuAD"):
        only_conversations([path])


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
    assert (examples.num_left_out, examples.num_too_long) == (1, 0)
    assert examples.num_questions == 23
    assert examples.left_out == "1 of 24 questions were left out: 1 whose answer is not in the text"


def test_what_is_too_long_is_told_with_how_long_it_may_be(tmp_path: Path) -> None:
    rows, said = squad_rows(), talks()
    rows[0]["question"] = "Where is it? " * 40
    rows[1]["answers"] = ["nowhere"]
    long = [{"role": "user", "content": "word " * 200}, {"role": "assistant", "content": "Well."}]
    said[0] = {"messages": [*talks(7)[6]["messages"], *long]}
    asked, spoken = jsonl(tmp_path / "q.jsonl", rows), jsonl(tmp_path / "c.jsonl", said)
    question = "a question may be {} tokens long with its answer, the answer alone 24"
    for number, (paths, total, why) in enumerate([
        ([asked], 24, f"1 too long ({question.format(96)}; no option changes that), 1 whose answer is not in the text"),
        ([spoken], 13, "1 too long (what a user says may be 192 tokens long; no option changes that)"),
    ]):  # fmt: skip
        for _ in range(2):  # also where they are found prepared
            examples = prepare_examples(paths, tmp_path / f"data{number}")
            assert examples.num_too_long == 1
            assert examples.left_out == f"{examples.num_left_out} of {total} questions were left out: {why}"
    both = prepare_examples([asked, spoken], tmp_path / "both")
    assert both.row_tokens == 256
    assert f"({question.format(256)}, what a user says may be 192 tokens long; no option" in both.left_out
    few = [{**row, "question": "Where is it? " * 200} for row in rows]
    with pytest.raises(TrainingError, match=r"0 questions that can be used, 23 too long .* 96 tokens long .* 1 whose"):
        prepare_examples([jsonl(tmp_path / "few.jsonl", few)], tmp_path / "few")


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


def rows_with_context(examples) -> tuple[set[bytes], set[bytes]]:
    return tuple({row.tobytes() for row in part.columns["context"]} for part in (examples.train, examples.held_out))


@pytest.mark.parametrize("count", [4, 12])
def test_copies_of_a_paragraph_are_never_on_both_sides(tmp_path: Path, count: int) -> None:
    rows = squad_rows(count)
    spaced = [row | {"context": f"{row['context']} ".replace(". ", ".\n "), "title": "Other"} for row in rows]
    extra = rows[0] | {"question": "Who built the mill?", "answers": ["Ada Quill"]}
    paths = [jsonl(tmp_path / "q.json", rows), jsonl(tmp_path / "copy.json", [*rows[::-1], *spaced, extra])]
    for seed in range(4):
        examples = prepare_examples(paths, tmp_path / str(seed), seed=seed, share=0.5)
        train, held_out = rows_with_context(examples)
        assert not train & held_out
        assert len(train) + len(held_out) == count
        assert examples.num_questions == 2 * count + 1
    once = prepare_examples(paths[:1], tmp_path / "once", share=0.5)
    twice = prepare_examples([paths[0], paths[0]], tmp_path / "twice", share=0.5)
    assert rows_with_context(once) == rows_with_context(twice)


def test_paragraphs_that_begin_alike_for_a_whole_chunk_are_not_on_both_sides(tmp_path: Path) -> None:
    begin = "The mill was built by Ada Quill. " + "It is so. " * 94
    rows = [
        {"title": "", "context": f"{begin}{i}", "question": "Who built it?", "answers": ["Ada Quill"]} for i in range(6)
    ]
    path = jsonl(tmp_path / "q.json", [*rows, *squad_rows(6)])
    for seed in range(3):
        examples = prepare_examples([path], tmp_path / str(seed), seed=seed, share=0.5)
        train, held_out = rows_with_context(examples)
        assert not train & held_out


def test_the_same_conversation_is_taken_once(tmp_path: Path) -> None:
    first, copy = jsonl(tmp_path / "a.jsonl", talks() * 3), jsonl(tmp_path / "b.jsonl", talks())
    for seed in range(4):
        examples = prepare_examples([first, copy], tmp_path / str(seed), seed=seed, share=0.5)
        sides = [
            {
                (context.tobytes(), row.tobytes())
                for context, row in zip(part.columns["context"], part.columns["questions"], strict=True)
            }
            for part in (examples.train, examples.held_out)
        ]
        assert not sides[0] & sides[1]
        assert examples.num_questions == 12


def test_conversations_that_open_alike_are_not_on_both_sides(tmp_path: Path) -> None:
    opened = [
        {"messages": [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hello!"},
                      *row["messages"][1:]]}
        for row in talks()
    ]  # fmt: skip
    examples = prepare_examples([jsonl(tmp_path / "a.jsonl", opened)], tmp_path / "data", share=0.5)
    assert examples.train.num_questions == 3 * 3
    assert examples.held_out.num_questions == 3 * 2


def test_prepared_examples_that_were_damaged_are_prepared_again(tmp_path: Path) -> None:
    path, folder = jsonl(tmp_path / "q.jsonl", squad_rows()), tmp_path / "data"
    before = dict(prepare_examples([path], folder).train.columns)
    kept = {name: column.copy() for name, column in before.items()}
    questions = np.load(folder / "train" / "examples" / "questions.npy", mmap_mode="r+")
    questions[:2] = questions[1::-1].copy()
    questions.flush()
    after = prepare_examples([path], folder).train.columns
    assert all(np.array_equal(kept[name], after[name]) for name in kept)


def test_a_name_of_any_bytes_and_text_of_half_surrogates(tmp_path: Path) -> None:
    rows = [row | {"context": f"\ud800 {row['context']}", "question": "Where?\udfff"} for row in squad_rows()]
    folder = tmp_path / "made"
    folder.mkdir()
    path = jsonl(folder / "\udcff\udcfe.jsonl", rows)
    examples = prepare_examples([path], tmp_path / "data")
    assert examples.num_questions == 24
    said = [{"messages": [{**m, "content": f"{m['content']}\ud800"} for m in row["messages"]]} for row in talks()]
    assert prepare_examples([jsonl(tmp_path / "c.jsonl", said)], tmp_path / "chat").num_questions == 12
