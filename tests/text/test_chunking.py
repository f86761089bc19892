import time
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from precog.errors import DocumentError, UsageError
from precog.text.chunking.chunk import Chunk
from precog.text.chunking.strategy import Strategy, chunk_document
from precog.text.document import Block, Document, Draft, document_text
from precog.text.loaders.code import code
from precog.text.loaders.markdown import markdown
from precog.text.loaders.plain import paragraphs
from precog.text.loaders.table import table
from precog.text.tokenizer import load_mistral_tokenizer

TOKENIZER = load_mistral_tokenizer()

SCRIPTS = [
    "The quick brown fox jumps over the lazy dog. It was J. Smith who saw it. ",
    "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。",
    "ภาษาไทยเป็นภาษาที่มีระดับเสียงของคำแน่นอนหรือวรรณยุกต์",
    "اللغة العربية هي أكثر اللغات السامية تحدثا. وإحدى أكثر اللغات انتشارا! ",
    "👩‍👩‍👧‍👦🏳️‍🌈🎉",
    "e\u0301\u0302\u0303",
    "x" * 97,
    "▁▁ ",
    " \t\n",
    "\n\n",
    "0123456789",
]


def document(drafts: list[Draft]) -> Document:
    return Document("/doc", "text/plain", "0" * 64, lambda _warn: iter(drafts))


def lines_of(text: str) -> Iterator[str]:
    yield from text.splitlines(keepends=True)


def chunks_of(drafts: list[Draft], strategy: Strategy = Strategy.DOCUMENT, **options: int) -> list[Chunk]:
    return list(chunk_document(document(drafts), TOKENIZER, strategy=strategy, **options))


TEXTS = st.lists(
    st.tuples(st.sampled_from(SCRIPTS), st.integers(1, 12)).map(lambda pair: pair[0] * pair[1])
    | st.text(min_size=1, max_size=80),
    min_size=1,
    max_size=4,
).map("".join)
DRAFTS = st.lists(
    st.builds(
        Draft,
        text=TEXTS.map(lambda text: text + "\n\n") | TEXTS,
        kind=st.sampled_from(["paragraph", "heading", "table", "code", "turn"]),
        page=st.sampled_from([None, 1, 2]),
        level=st.integers(1, 3),
        title=st.sampled_from(["Title", "タイトル", "T" * 300]),
        lead=st.sampled_from(["", "name | year", "alice:", "long header " * 40]),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=60, deadline=None)
@given(DRAFTS, st.sampled_from(Strategy), st.sampled_from([16, 17, 32, 64]), st.floats(0, 0.5))
@example([Draft("👩‍👩‍👧‍👦" * 60)], Strategy.WINDOW, 16, 0.5)
@example([Draft("x" * 5000)], Strategy.DOCUMENT, 16, 0.0)
@example([Draft("ก" * 500)], Strategy.SENTENCE, 16, 0.25)
def test_no_chunk_exceeds_the_cap_and_no_character_is_lost(
    drafts: list[Draft], strategy: Strategy, max_tokens: int, overlap_share: float
) -> None:
    drafts = [*drafts, Draft("end")]
    overlap = int(overlap_share * max_tokens)
    text = document_text(document(drafts))
    chunks = chunks_of(drafts, strategy, max_tokens=max_tokens, overlap=overlap)
    covered = 0
    for index, chunk in enumerate(chunks):
        start, end = chunk.span
        assert chunk.index == index
        assert chunk.text == text[start:end]
        assert chunk.text.strip()
        assert list(chunk.token_ids) == TOKENIZER.encode(chunk.full_text)
        assert len(chunk.token_ids) <= max_tokens
        assert not chunk.context or chunk.context.endswith("\n")
        if overlap:
            assert index == 0 or start > chunks[index - 1].span[0]
            assert end > covered
        else:
            assert start >= covered
        assert not text[covered : max(covered, start)].strip()
        covered = max(covered, end)
    assert not text[covered:].strip()
    assert chunks == chunks_of(drafts, strategy, max_tokens=max_tokens, overlap=overlap)


PROSE = "Sentence number {} says something plain about the harbour and its old stone pier. "
LONG = "".join(PROSE.format(number) for number in range(60))


@pytest.mark.parametrize("strategy", list(Strategy))
def test_chunks_of_prose_are_well_filled(strategy: Strategy) -> None:
    chunks = chunks_of([Draft(LONG)], strategy, max_tokens=64)
    filled = [len(chunk.token_ids) for chunk in chunks[:-1]]
    assert min(filled) >= (60 if strategy is Strategy.WINDOW else 40)


@pytest.mark.parametrize("strategy", list(Strategy))
def test_an_overlap_repeats_the_end_of_the_chunk_before(strategy: Strategy) -> None:
    chunks = chunks_of([Draft(LONG)], strategy, max_tokens=64, overlap=20)
    for before, after in pairwise(chunks):
        shared = LONG[after.span[0] : before.span[1]]
        assert 10 <= len(TOKENIZER.encode(shared)) <= 21


def test_no_overlap_crosses_a_page() -> None:
    chunks = chunks_of([Draft(LONG, page=1), Draft(LONG, page=2)], Strategy.WINDOW, max_tokens=64, overlap=16)
    page_2 = [chunk for chunk in chunks if chunk.page == 2]
    assert page_2[0].span[0] == len(LONG)
    assert {chunk.page for chunk in chunks} == {1, 2}


def test_sentences_stay_whole_where_they_fit() -> None:
    for chunk in chunks_of([Draft(LONG)], Strategy.SENTENCE, max_tokens=64):
        assert chunk.text.startswith("Sentence number")
        assert chunk.text.endswith("pier.")


def test_one_paragraph_is_one_chunk_with_its_heading() -> None:
    drafts = list(markdown(lines_of("# A\n\nOne.\n\nTwo.\n\n## B\n\nThree.\n")))
    assert [chunk.text for chunk in chunks_of(drafts, Strategy.PARAGRAPH)] == ["# A\n\nOne.", "Two.", "## B\n\nThree."]


def test_every_part_of_a_section_carries_its_heading_path() -> None:
    body = "".join(PROSE.format(number) + "\n\n" for number in range(20))
    drafts = list(markdown(lines_of(f"# Guide\n\nIntro.\n\n## Setup *fast*\n\n{body}### Deep\n\n{body}")))
    chunks = chunks_of(drafts, max_tokens=96)
    assert {chunk.context for chunk in chunks} == {
        "",
        "Guide > Setup fast\n",
        "Guide > Setup fast > Deep\n",
    }
    deep = next(chunk for chunk in chunks if "### Deep" in chunk.text)
    assert deep.text.startswith("### Deep\n\nSentence number 0")
    assert deep.context == "Guide > Setup fast\n"


def test_a_heading_is_never_left_behind_at_the_end_of_a_chunk() -> None:
    body = "".join(PROSE.format(number) for number in range(3)) + "\n\n"
    drafts = list(markdown(lines_of("".join(f"## Part {number}\n\n{body}" for number in range(12)))))
    for chunk in chunks_of(drafts, max_tokens=80):
        assert not chunk.text.splitlines()[-1].startswith("#")


def test_every_part_of_a_table_carries_the_header_row() -> None:
    rows = [["city", "people"], *([f"City {number}", str(1000 + number)] for number in range(300))]
    chunks = chunks_of(list(table(rows)), max_tokens=64)
    assert chunks[0].context == ""
    assert chunks[0].text.startswith("city | people\n")
    assert len(chunks) > 10
    for chunk in chunks[1:]:
        assert chunk.context == "city | people\n"
        assert chunk.text.startswith("City ")
        assert chunk.text.splitlines()[-1].count("|") == 1  # rows are whole
    assert sum(chunk.text.count("City ") for chunk in chunks) == 300


def test_a_header_row_wider_than_the_cap_is_cut_short() -> None:
    wide = [f"column {number}" for number in range(100)]
    chunks = chunks_of(list(table([wide, *[["value"] * 100] * 3])), max_tokens=64)
    assert all(len(chunk.token_ids) <= 64 for chunk in chunks)
    assert chunks[-1].context.startswith("column 0 | column 1")


def test_code_is_cut_at_definitions_and_methods_name_their_class() -> None:
    body = "".join(f"        total += value_{number} * 3\n" for number in range(6))
    methods = "".join(f"    def method_{number}(self):\n{body}\n" for number in range(6))
    source = (
        f"import os\n\n\nclass Account:\n    '''Money.'''\n\n{methods}\n# Adds.\ndef add(a, b):\n    return a + b\n"
    )
    chunks = chunks_of(list(code(lines_of(source))), max_tokens=160)
    starts = [chunk.text.lstrip().splitlines()[0] for chunk in chunks]
    assert all(start.startswith(("import", "def method", "# Adds")) for start in starts)
    inner = next(chunk for chunk in chunks if "method_5" in chunk.text)
    assert inner.context == "class Account:\n"
    assert inner.text.startswith("    def")


def test_turns_stay_whole_and_a_long_turn_repeats_its_speaker() -> None:
    drafts = [Draft(f"bob: Short turn {number}.\n\n", kind="turn", lead="bob:") for number in range(8)]
    drafts.append(Draft(f"alice: {LONG}\n\n", kind="turn", lead="alice:"))
    chunks = chunks_of(drafts, Strategy.TURNS, max_tokens=64)
    assert chunks[0].text.startswith("bob: Short turn 0.")
    later = [chunk for chunk in chunks if "alice:" not in chunk.text and "bob" not in chunk.text]
    assert later
    assert {chunk.context for chunk in later} == {"alice:\n"}


def test_an_answer_in_a_chunk_is_found_in_the_document() -> None:
    drafts = list(markdown(lines_of("# Trees\n\n" + "Ash. " * 120 + "The oak is older.\n")))
    text = document_text(document(drafts))
    chunk = chunks_of(drafts, max_tokens=64)[-1]
    assert chunk.context == "Trees\n"
    start = chunk.full_text.index("oak")
    _, spans = TOKENIZER.encode_with_offsets(chunk.full_text)
    assert (start - 1, start + 3) in spans  # the piece " oak"
    span = chunk.span_in_document(start, start + 3)
    assert span is not None
    assert text[slice(*span)] == "oak"
    assert chunk.span_in_document(0, 5) is None


def test_text_without_blank_lines_streams_in_bounded_blocks() -> None:
    blocks = list(document(list(paragraphs(["word " * 4_000] * 20))).blocks())
    assert max(len(block.text) for block in blocks) <= 16_384
    assert "".join(block.text for block in blocks) == "word " * 80_000


def test_chunking_reads_no_further_than_it_must() -> None:
    read = 0

    def drafts(_warn: object) -> Iterator[Draft]:
        nonlocal read
        while True:
            read += 1
            yield Draft(PROSE.format(read) + "\n\n")

    endless = Document("/endless", "text/plain", "0" * 64, drafts)
    chunks = chunk_document(endless, TOKENIZER, max_tokens=64)
    for _ in range(10):
        next(chunks)
    assert read < 50


@pytest.mark.parametrize("run", [".", "\n", " ", "\n ", "#", "a.", "[", "|", "-", '"', "。", "1,", "\u200d", "f ("])
def test_long_runs_of_one_thing_take_no_long_time(run: str) -> None:
    def chunked_sec(length: int) -> float:
        text = run * (length // len(run)) + "x\n"
        started = time.process_time()
        for read in (paragraphs, markdown, code):
            for strategy in (Strategy.DOCUMENT, Strategy.SENTENCE):
                chunks_of([*read(lines_of(text)), Draft("end")], strategy)
        return time.process_time() - started

    short, long = (min(chunked_sec(length) for _ in range(2)) for length in (2_500, 10_000))
    # four times the text; comparing everything with everything would take sixteen times as long
    assert long < 9 * short + 0.1


def test_impossible_sizes_are_refused() -> None:
    with pytest.raises(UsageError, match="chunk size"):
        chunks_of([Draft("a")], max_tokens=15)
    with pytest.raises(UsageError, match="overlap"):
        chunks_of([Draft("a")], max_tokens=16, overlap=9)


def test_a_document_of_white_space_is_refused() -> None:
    with pytest.raises(DocumentError, match="no text"):
        chunks_of([Draft(" \n \t\n")])


def test_blocks_know_where_they_stand() -> None:
    blocks = list(document(list(markdown(lines_of("# A\n\n## B\n\ntext\n\n# C\n\nmore\n")))).blocks())
    assert [(block.kind, block.headings) for block in blocks] == [
        ("heading", ()),
        ("heading", ("A",)),
        ("paragraph", ("A", "B")),
        ("heading", ()),
        ("paragraph", ("C",)),
    ]
    assert blocks[2] == Block("text\n\n", 11, "paragraph", None, ("A", "B"), "")
    assert blocks[2].end == blocks[3].start


def test_half_a_surrogate_and_nul_are_mended() -> None:
    assert document_text(document([Draft("a\ud800b\x00c")])) == "a\ufffdb c"
    assert document_text(document([Draft("\ud83d\ude00")])) == "😀"
