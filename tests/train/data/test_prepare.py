import gzip
import hashlib
import json
import lzma
import random
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precog.errors import InputError, StorageError, TrainingError
from precog.questions.passage import Ask, Kind, Passage
from precog.questions.spans import Span, SpanType
from precog.text.tokenizer import MistralTokenizer
from precog.train.data.counterfactual import EntityPool
from precog.train.data.documents import Document, parse_documents, read_documents
from precog.train.data.passages import chunk_document, make_passage
from precog.train.data.prepare import PrepareOptions, prepare, show
from precog.train.data.recall import make_copy, make_recall, make_table
from precog.train.data.rows import PreparedSet, merge_folders, write_columns
from precog.train.data.shards import TokenStream
from precog.train.data.squad import (
    Paragraph,
    counterfactual_passage,
    held_out_titles,
    locate,
    read_squad,
    squad_passages,
)
from precog.train.data.tokens import PROMPT, Dropped, Pieces, tokenise

PIECES = Pieces()
TOKENIZER = MistralTokenizer()
TEXT = (
    "# Cello suites\n"
    "The composer Johann Bach wrote the six cello suites in Köthen between 1717 and 1723. They were published in 1824 "
    "by Heinrich Probst in Vienna, and 3,000 copies were sold for $12 each. Pablo Casals found a copy in Barcelona in "
    "1890.\n"
    "The suites are now the most frequently performed solo works for the cello. Each has a prelude because dancers "
    'needed time to enter the hall. Critics called them "the long meditation" and 40% of them disliked the tempo.\n'
    "\n"
    "# Harbour bridge\n"
    "The bridge was opened on 19 March 1932 by Jack Lang. It is 134 m tall and carries 160,000 vehicles per day across "
    "the harbour of Sydney. The design was influenced by the Hell Gate Bridge in New York City.\n"
)


def rows_of(columns: dict[str, np.ndarray]) -> list[tuple[str, str, list[int], list[int]]]:
    out = []
    for r in range(len(columns["row_len"])):
        row, start = columns["questions"][r], int(columns["prompt_len"][r])
        stop = int(columns["row_len"][r])
        chunk, at = int(columns["chunk"][r]), int(columns["answer_start"][r])
        answer = row[start : stop - 1].tolist()
        assert row[0] == 1
        assert row[stop - 1] == 2
        assert not row[stop:].any()
        assert stop - 1 - start == columns["answer_len"][r]
        span = columns["context"][chunk, at : at + len(answer)].tolist()
        assert at + len(answer) <= columns["context_len"][chunk]
        out.append((TOKENIZER.decode(row[1:start].tolist()), TOKENIZER.decode(answer), answer, span))
    return out


def test_batch_encoding_is_the_tokenizers() -> None:
    texts = [
        "Köthen in 1717",
        "<s> </s> is text",
        "日本 🙂 é",
        "",
        " two  spaces",
        "line\nbreak",
        PROMPT.format(question="Who?"),
    ]
    assert PIECES.encode(texts) == [TOKENIZER.encode(t) for t in texts]
    assert PIECES.encode([]) == []


@given(st.text(alphabet="ab Köé日🙂.,1\n▁", min_size=1, max_size=60), st.data())
@settings(max_examples=150)
def test_answers_are_the_contexts_own_tokens(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    stop = data.draw(st.integers(start + 1, len(text)))
    columns, _, dropped = tokenise([Passage(text, (Ask("What?", start, stop, Kind.WH),))], PIECES)
    rows = rows_of(columns)
    assert len(rows) + dropped.unplaced + dropped.too_long == 1
    for prompt, decoded, answer, span in rows:
        assert prompt == "###What? ###Long Answer:"
        assert answer == span
        wanted = "".join(c for c in text[start:stop] if c.isalnum())
        assert "".join(c for c in decoded if c.isalnum()) == wanted


def test_long_texts_and_rows_are_cut_or_dropped_and_chunks_renumbered() -> None:
    long = "word " * 400 + "end"
    asks = (
        Ask("Last?", len(long) - 3, len(long), Kind.WH),
        Ask("First?", 0, 4, Kind.WH),
        Ask("x " * 80, 0, 4, Kind.WH),
    )
    passages = [Passage("gone", (Ask("q " * 90, 0, 4, Kind.WH),)), Passage(long, asks), Passage("none", ())]
    columns, questions, dropped = tokenise(passages, PIECES)
    assert questions == ["First?"]
    assert dropped == Dropped(too_long=2, unplaced=1)
    assert columns["context"].shape == (1, 256)
    assert columns["context_len"].tolist() == [256]
    assert columns["first_question"].tolist() == [0, 1]
    assert columns["chunk"].tolist() == [0]


def test_an_answer_that_is_longer_than_one_may_be_is_too_long() -> None:
    text = "word " * 30
    columns, _, dropped = tokenise([Passage(text, (Ask("What?", 0, 149, Kind.SQUAD),))], PIECES)
    assert dropped == Dropped(too_long=1, unplaced=0)
    assert not len(columns["row_len"])


def test_a_text_that_yields_nothing_gives_empty_columns() -> None:
    columns, questions, _ = tokenise([], PIECES)
    assert questions == []
    assert columns["context"].shape == (0, 256)
    assert columns["first_question"].tolist() == [0]


@pytest.mark.parametrize("counterfactual", [False, True])
def test_passages_ask_about_different_spans(counterfactual: bool) -> None:
    document = next(parse_documents(TEXT.splitlines()))
    assert document.title == "Cello suites"
    rng = random.Random(3)
    for text in chunk_document(document, rng):
        passage = make_passage(text, document.title, EntityPool(), rng, 12, counterfactual)
        answers = [passage.text[a.start : a.stop] for a in passage.asks]
        assert 4 <= len(answers) <= 12
        assert all(answer and answer not in ask.question for answer, ask in zip(answers, passage.asks, strict=True))
        if counterfactual:
            assert "1824" not in passage.text or "1890" not in passage.text


@pytest.mark.parametrize(("counterfactual", "digest"), [(False, "0a864db18c4b9ce3"), (True, "a8cac4ecd670dd6e")])
def test_passages_are_those_that_were_made_before(counterfactual: bool, digest: str) -> None:
    rng, pool, told = random.Random(3), EntityPool(), hashlib.sha256()
    with resources.files("precog.text").joinpath("data/sample.txt").open(encoding="utf-8") as lines:
        for document in parse_documents(list(lines), "Saint Helena"):
            for text in chunk_document(document, rng):
                made = make_passage(text, document.title, pool, rng, 12, counterfactual)
                told.update(repr((made.text, [(a.question, a.start, a.stop, int(a.kind)) for a in made.asks])).encode())
    assert told.hexdigest()[:16] == digest


@given(st.integers(0, 10_000))
@settings(max_examples=40)
def test_chunks_lose_no_sentence_in_the_middle(seed: int) -> None:
    sentences = [f"Sentence number {i} is about the town of Alder." for i in range(120)]
    document = Document("Alder", (" ".join(sentences[:60]), " ".join(sentences[60:])))
    text = "\n".join(chunk_document(document, random.Random(seed)))
    missing = [s for s in sentences if s not in text]
    assert len(missing) <= 6  # only a last remainder too short for a chunk
    assert missing == sentences[len(sentences) - len(missing) :]


@given(st.integers(0, 10_000), st.integers(1, 32))
@settings(max_examples=60)
def test_recall_questions_are_answered_by_their_own_fact(seed: int, num_pairs: int) -> None:
    rng = random.Random(seed)
    recall = make_recall(num_pairs, rng)
    assert 1 <= len(recall.asks) <= 12
    assert len({a.start for a in recall.asks}) == len(recall.asks)
    table = make_table(min(num_pairs, 16), rng)
    copy = make_copy(num_pairs + 4, rng)
    for passage in (recall, table, copy):
        assert all(0 <= a.start < a.stop <= len(passage.text) for a in passage.asks)
    for ask in copy.asks:
        answer = copy.text[ask.start : ask.stop]
        cue = " ".join(copy.text[: ask.start].split()[-2:])
        assert cue in ask.question
        assert copy.text.count(f"{cue} ") >= 1
        assert answer.split() == answer.split(" ")


def test_the_answers_sentence_is_the_one_most_like_the_question() -> None:
    context = "Rome was founded by Romulus. Later, Romulus was killed in a storm."
    assert locate(context, "Who was killed in a storm?", "Romulus") == context.rindex("Romulus")
    assert locate(context, "Who founded Rome?", "Romulus") == context.index("Romulus")
    assert locate(context, "Who?", "Remus") == -1
    assert locate("The art of art.", "?", "art") == 4
    assert locate("particle art", "?", "art") == 9


def test_long_paragraphs_become_windows_that_hold_every_answer() -> None:
    text = " ".join(f"Sentence {i} speaks of the number {i * 7919} at some length indeed." for i in range(60))
    asked = tuple((f"What does sentence {i} speak of?", str(i * 7919), None) for i in (2, 30, 59))
    passages = squad_passages(Paragraph("T", text, asked))
    answers = [p.text[a.start : a.stop] for p in passages for a in p.asks]
    assert answers == ["15838", "237570", "467221"]
    assert all(len(p.text) <= 1000 for p in passages)


def test_counterfactual_squad_changes_text_question_and_answer_together() -> None:
    pool = EntityPool()
    for i in range(30):
        name = f"Paul Miller{chr(97 + i % 26)}"
        pool.add(f"and {name}", [Span(4, 4 + len(name), SpanType.PERSON)])
    text = "John Stone was mayor in 1950. John Stone retired in 1960."
    paragraph = Paragraph(
        "T", text, (("Who was mayor in 1950?", "John Stone", None), ("When did John Stone retire?", "1960", None))
    )
    changed = counterfactual_passage(squad_passages(paragraph)[0], pool, random.Random(0))
    assert changed is not None
    assert "John Stone" not in changed.text
    assert "1960" not in changed.text
    who, when = changed.asks
    name = changed.text[who.start : who.stop]
    assert name.startswith("Paul Miller")
    assert when.question == f"When did {name} retire?"
    assert changed.text[when.start : when.stop].isdigit()


def test_held_out_titles_do_not_depend_on_order() -> None:
    titles = [f"Title {i}" for i in range(442)]
    held = held_out_titles(titles)
    assert len(held) == 40
    assert held == held_out_titles(titles[::-1])
    assert held == frozenset(random.Random(0).sample(sorted(titles), 40))


@pytest.fixture
def inputs(tmp_path: Path) -> tuple[Path, Path]:
    text, squad = tmp_path / "town-000.txt.xz", tmp_path / "squad.jsonl.gz"
    blocks = [TEXT.replace("Cello suites", f"Cello suites {i}").replace("1824", str(1500 + i)) for i in range(60)]
    text.write_bytes(lzma.compress("\n".join(blocks).encode()))
    context = "Anna Hall opened the Alder Bridge in 1901. It is 120 m long and leads to the northern harbour."
    rows = [
        {
            "id": f"{i}",
            "title": f"T{i}",
            "context": f"{context} Item {i}.",
            "question": "Who opened it?",
            "answers": ["Anna Hall"],
        }
        for i in range(90)
    ]
    squad.write_bytes(gzip.compress("".join(json.dumps(r) + "\n" for r in rows).encode()))
    return text, squad


def prepared(inputs: tuple[Path, Path], out: Path, workers: int) -> None:
    text, squad = inputs
    prepare(
        PrepareOptions(
            out=out,
            texts=(text,),
            squad=(squad,),
            squad_copies=2,
            recall=30,
            table=20,
            copy=20,
            workers=workers,
            slices=2,
            seed=5,
            stream=True,
        )
    )


def test_preparation_end_to_end_does_not_depend_on_workers(inputs: tuple[Path, Path], tmp_path: Path) -> None:
    prepared(inputs, tmp_path / "a", 1)
    prepared(inputs, tmp_path / "b", 2)
    sources = {p.name for p in (tmp_path / "a" / "train").iterdir()}
    assert {"town", "squad", "squad_remix", "recall", "table", "copy"} <= sources
    for folder in (tmp_path / "a" / "train").iterdir():
        first, second = (
            PreparedSet(folder, verify=True),
            PreparedSet(tmp_path / "b" / "train" / folder.name, verify=True),
        )
        for name, column in first.columns.items():
            assert np.array_equal(column, second.columns[name]), (folder.name, name)
        for _, _, answer, span in rows_of(dict(first.columns)):
            assert answer == span
        offsets = first.columns["first_question"]
        assert np.array_equal(first.columns["chunk"], np.repeat(np.arange(len(first)), np.diff(offsets)))
        assert first.questions_of(0) == range(int(offsets[1]))
        assert len(list(show(folder, 2, 0))) == 2
    train, val = (PreparedSet(tmp_path / "a" / split / "squad") for split in ("train", "val"))
    assert (len(train), len(val)) == (50, 40)
    stats = json.loads((tmp_path / "a" / "stats.json").read_text())
    assert stats["sources"]["squad"]["kind_squad"] == 90
    stream = TokenStream(tmp_path / "a" / "stream" / "train" / "town")
    again = TokenStream(tmp_path / "b" / "stream" / "train" / "town")
    assert all(
        np.array_equal(x.tokens, y.tokens) and np.array_equal(x.documents, y.documents)
        for x, y in zip(stream.shards, again.shards, strict=True)
    )
    assert (stream.shards[0].tokens[stream.shards[0].documents] == 1).all()
    assert stats["sources"]["town"]["train_stream_tokens"] == stream.num_tokens
    assert not list((tmp_path / "a").glob(".*"))
    assert (tmp_path / "a" / "train" / "town" / "context.npy").stat().st_mode & 0o077 == 0


def test_merging_keeps_every_row(tmp_path: Path) -> None:
    parts = []
    for i in range(3):
        columns, _, _ = tokenise([make_recall(3 + i, random.Random(i)) for _ in range(4)], PIECES)
        write_columns(tmp_path / f"p{i}", columns, {})
        parts.append(tmp_path / f"p{i}")
    rows = [row for part in parts for row in rows_of(dict(PreparedSet(part).columns))]
    merge_folders(parts, tmp_path / "all", {"seed": 1})
    merged = PreparedSet(tmp_path / "all", verify=True)
    assert rows_of(dict(merged.columns)) == rows
    assert merged.notes == {"seed": 1}
    assert not any(part.exists() for part in parts)


def test_damaged_and_foreign_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="not a folder of prepared"):
        PreparedSet(tmp_path)
    columns, _, _ = tokenise([make_recall(3, random.Random(0))], PIECES)
    write_columns(tmp_path / "set", columns, {})
    path = tmp_path / "set" / "questions.npy"
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
    PreparedSet(tmp_path / "set")
    with pytest.raises(TrainingError, match="damaged"):
        PreparedSet(tmp_path / "set", verify=True)
    path.write_bytes(raw[:-10])
    with pytest.raises(TrainingError, match="cannot be read"):
        PreparedSet(tmp_path / "set")
    meta = tmp_path / "set" / "meta.json"
    meta.write_text(meta.read_text().replace('"format": 2', '"format": 9'))
    with pytest.raises(TrainingError, match="another format"):
        PreparedSet(tmp_path / "set")
    empty, _, _ = tokenise([], PIECES)
    write_columns(tmp_path / "empty", empty, {})
    with pytest.raises(TrainingError, match="no chunk"):
        PreparedSet(tmp_path / "empty")


def test_text_inputs_are_read_in_every_form_and_bad_ones_refused(tmp_path: Path) -> None:
    plain, lines = tmp_path / "a.txt", tmp_path / "a.jsonl.gz"
    plain.write_text(TEXT, encoding="utf-8")
    rows = [{"title": d.title, "text": "\n".join(d.paragraphs)} for d in parse_documents(TEXT.splitlines())]
    lines.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    assert list(read_documents(plain)) == list(read_documents(lines)) == list(parse_documents(TEXT.splitlines()))
    for name, content in (
        ("b.txt.xz", b"junk"),
        ("b.txt", b"\xff\xfe\xfd"),
        ("b.jsonl", b"{}\n"),
        ("c.jsonl", b"[1]\n"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match="cannot be read"):
            list(read_documents(tmp_path / name))
    (tmp_path / "s.json").write_text("{}")
    with pytest.raises(InputError, match="SQuAD"):
        read_squad(tmp_path / "s.json")


def test_bad_input_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="an input file is missing"):
        prepare(PrepareOptions(out=tmp_path / "o", texts=(tmp_path / "absent.txt",)))
    with pytest.raises(InputError, match="nothing to prepare"):
        prepare(PrepareOptions(out=tmp_path / "o"))
    (tmp_path / "blank.txt").write_text("\n\n")
    with pytest.raises(InputError, match="no text to train on"):
        prepare(PrepareOptions(out=tmp_path / "o", texts=(tmp_path / "blank.txt",), stream=True))
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="cannot be written"):
        prepare(PrepareOptions(out=tmp_path / "file" / "o", recall=3))
    with pytest.raises(TrainingError, match="--row-tokens is out of range"):
        PrepareOptions(out=tmp_path, row_tokens=2)


def test_documents_without_a_title_are_not_all_held_out(tmp_path: Path) -> None:
    from precog.train.data.documents import Document
    from precog.train.data.jobs import _is_held_out

    held_out = [_is_held_out(Document("", (f"Text number {n} of a collection.",))) for n in range(2000)]
    assert 2 <= sum(held_out) <= 30
    assert _is_held_out(Document("Title", ("one",))) == _is_held_out(Document("Title", ("another",)))


def squad_file(path: Path, titles: range, note: str = "") -> Path:
    context = "Anna Hall opened the Alder Bridge in 1901. It leads to the northern harbour."
    rows = [
        {"title": f"T{i}", "context": f"{context} Item {i}.{note}", "question": "Who opened it?",
         "answers": ["Anna Hall"]}
        for i in titles
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def contexts(folder: Path) -> set[bytes]:
    return {row.tobytes() for row in PreparedSet(folder).columns["context"]}


def test_several_squad_files_are_sources_of_their_own_and_hold_out_the_same(tmp_path: Path) -> None:
    first, second = (
        squad_file(tmp_path / "first.jsonl", range(90)),
        squad_file(tmp_path / "second.jsonl", range(50, 140)),
    )
    for name, files in (("one", (first,)), ("both", (first, second))):
        prepare(PrepareOptions(out=tmp_path / name, squad=files, squad_copies=1))
    assert {p.name for p in (tmp_path / "one" / "train").iterdir()} == {"squad", "squad_remix"}
    names = {"first", "first_remix", "second", "second_remix"}
    assert {p.name for p in (tmp_path / "both" / "train").iterdir()} == names
    for split in ("train", "val"):
        alone, beside = (PreparedSet(tmp_path / at / split / s) for at, s in (("one", "squad"), ("both", "first")))
        assert all(np.array_equal(alone.columns[name], beside.columns[name]) for name in alone.columns)
    train, val = ([contexts(tmp_path / "both" / split / s) for s in ("first", "second")] for split in ("train", "val"))
    assert not (train[0] | train[1]) & (val[0] | val[1])
    assert len(train[1] | val[1]) == 90


def test_sources_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "recall.txt").write_text(TEXT)
    first = squad_file(tmp_path / "a.jsonl", range(3))
    for other in ("deep/a.jsonl", "a_remix.jsonl", "recall.jsonl"):
        second = squad_file(tmp_path / other, range(3))
        options = PrepareOptions(out=tmp_path / "o", squad=(first, second), texts=(tmp_path / "recall.txt",))
        with pytest.raises(InputError, match="have one name"):
            prepare(options)
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("name", ["...txt", "..txt", ".parts.txt", "\udcff\udcfe.txt"])
def test_files_of_odd_names_make_sets_that_are_seen(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(TEXT)
    prepare(PrepareOptions(out=tmp_path / "out", texts=(tmp_path / name,), stream=True))
    found = [path.name for path in (tmp_path / "out" / "train").iterdir()]
    assert len(found) == 1
    assert not found[0].startswith(".")
    assert PreparedSet(tmp_path / "out" / "train" / found[0], verify=True).num_questions
    assert TokenStream(tmp_path / "out" / "stream" / "train" / found[0]).num_tokens


@pytest.mark.parametrize(
    "name", ["recall", "table", "copy", "context_tokens", "row_tokens", "workers", "slices", "squad_copies",
             "max_questions_per_chunk"]
)  # fmt: skip
def test_sizes_beyond_any_machine_are_refused_at_once(tmp_path: Path, name: str) -> None:
    with pytest.raises(TrainingError, match=f"--{name.replace('_', '-')} is out of range"):
        PrepareOptions(out=tmp_path, **{name: 10**14})
