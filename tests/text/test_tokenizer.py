from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from precog.errors import InputError, ModelError
from precog.text.tokenizer import MISTRAL_FILE, MistralTokenizer, StreamDecoder, Tokenizer, load_mistral_tokenizer

TOKENIZER = load_mistral_tokenizer()
TEXTS = st.text(max_size=60) | st.text(alphabet="ab \n\t▁é👩‍日", max_size=30)
AWKWARD = [
    "",
    " ",
    "   ",
    "\n",
    "a  b",
    " lead and trail ",
    "a\r\nb\tc",
    "▁",
    "▁▁a ▁ b▁",
    "e\u0301",
    "👩‍👩‍👧 family",
    "日本語のテキスト",
    "ภาษาไทย",
    "العربية",
    "\x00",
    "\ufeffbom",
    "<s> </s> <unk> <0x0A>",
]


def awkward(function):
    for text in AWKWARD:
        function = example(text)(function)
    return function


@awkward
@given(TEXTS)
def test_decode_inverts_encode_and_no_control_id_appears(text: str) -> None:
    ids = TOKENIZER.encode(text)
    assert TOKENIZER.decode(ids) == text
    assert not {0, TOKENIZER.boundary_id, TOKENIZER.eos_id} & set(ids)


@awkward
@given(TEXTS)
def test_spans_are_monotone_cover_the_text_and_hold_their_pieces(text: str) -> None:
    ids, spans = TOKENIZER.encode_with_offsets(text)
    assert ids == TOKENIZER.encode(text)
    assert len(spans) == len(ids)
    position = 0
    for token_id, (start, end) in zip(ids, spans, strict=True):
        assert start <= position <= end
        position = end
        piece = TOKENIZER.token_bytes(token_id)
        inside = text[start:end].encode()
        assert piece in (inside, b" " + inside) or (len(piece) == 1 and end - start == 1 and piece in inside)
    assert position == len(text)
    starts = [start for start, _ in spans]
    assert starts == sorted(starts)


@awkward
@given(TEXTS)
def test_a_stream_of_single_ids_gives_the_same_text(text: str) -> None:
    ids = TOKENIZER.encode(text)
    stream = StreamDecoder(TOKENIZER)
    parts = [stream.push(token_id) for token_id in ids]
    assert "".join(parts) + stream.finish() == text
    assert "\ufffd" not in "".join(parts) or "\ufffd" in text


@given(st.lists(st.integers(0, 31_999), max_size=20))
def test_any_ids_decode_and_the_stream_agrees(ids: list[int]) -> None:
    stream = StreamDecoder(TOKENIZER)
    assert stream.push(iter(ids)) + stream.finish() == TOKENIZER.decode(ids)


def test_known_ids() -> None:
    # "Hello world" in Mistral-7B-v0.1.
    assert TOKENIZER.encode("Hello world") == [22557, 1526]
    assert TOKENIZER.vocab_size == 32_000
    assert (TOKENIZER.boundary_id, TOKENIZER.eos_id) == (1, 2)


def test_a_control_symbol_in_the_text_is_ordinary_text() -> None:
    ids = TOKENIZER.encode("<s>")
    assert [TOKENIZER.token_bytes(token_id) for token_id in ids] == [b" <", b"s", b">"]


def test_word_starts() -> None:
    hello, world = TOKENIZER.encode("Hello world")
    assert TOKENIZER.word_starts[world]
    assert TOKENIZER.word_starts[hello]
    assert not TOKENIZER.word_starts[TOKENIZER.encode("a\nb")[-1]]
    assert not TOKENIZER.word_starts[TOKENIZER.boundary_id]


def test_a_continuation_keeps_its_space() -> None:
    (world,) = TOKENIZER.encode("world")
    assert StreamDecoder(TOKENIZER, opens_segment=False).push(world) == " world"
    assert StreamDecoder(TOKENIZER).push(world) == "world"


def test_an_unfinished_character_is_shown_at_the_end() -> None:
    stream = StreamDecoder(TOKENIZER)
    assert stream.push(TOKENIZER.encode("👩")[:-1]) == ""
    assert stream.finish() == "\ufffd"


def test_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(InputError, match="at character 1"):
        TOKENIZER.encode("a\ud800b")
    with pytest.raises(InputError):
        TOKENIZER.encode("▁\udfff")


def test_a_damaged_or_missing_file_is_refused(tmp_path) -> None:
    with pytest.raises(ModelError, match="cannot be read"):
        MistralTokenizer(tmp_path / "missing.model")
    damaged = bytearray(MISTRAL_FILE.read_bytes())
    damaged[1000] ^= 1
    (tmp_path / "damaged.model").write_bytes(damaged)
    with pytest.raises(ModelError, match="sha256"):
        MistralTokenizer(tmp_path / "damaged.model")


def test_the_protocol_is_met() -> None:
    def names(tokenizer: Tokenizer) -> Iterator[object]:
        yield tokenizer.boundary_id
        yield tokenizer.sha256

    assert list(names(TOKENIZER)) == [1, MistralTokenizer.sha256]
