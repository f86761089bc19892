"""The World vocabulary: the package's ids for every text, and what our protocol asks beyond them."""

import random
import shutil

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from precog.backbones.rwkv7.library import VOCABULARY, package_folder
from precog.backbones.rwkv7.tokenizer import NUM_TOKENS, WorldTokenizer, load_world_tokenizer
from precog.errors import InputError, ModelError
from precog.text.tokenizer import StreamDecoder, Tokenizer

pytest.importorskip("rwkv", reason="the extra rwkv is not installed")
PATH = package_folder() / VOCABULARY
TOKENIZER = load_world_tokenizer(PATH)
characters = st.characters(exclude_categories=["Cs"])
texts = st.text(characters, max_size=60) | st.text(st.sampled_from(" \n\t=-_#aeinst.,0123é中😀"), max_size=200)


@pytest.fixture(scope="module")
def package():
    from rwkv.rwkv_tokenizer import TRIE_TOKENIZER

    return TRIE_TOKENIZER(str(PATH))


@given(text=texts)
@example(text="The lighthouse of Marrow.\n\nUser: who?\n\nAssistant:")
@example(text=" " * 300)
@example(text="\u2028\u0085\x00\x1f\r\n")
def test_ids_are_the_package_s_and_lose_nothing(package, text):
    ids = TOKENIZER.encode(text)
    assert ids == package.encode(text)
    assert TOKENIZER.decode(ids) == text
    assert b"".join(map(TOKENIZER.token_bytes, ids)) == text.encode()


def test_every_token_is_the_package_s(package):
    assert all(TOKENIZER.token_bytes(token_id) == piece for token_id, piece in package.idx2token.items())
    assert len(package.idx2token) == NUM_TOKENS - 1
    pieces = [TOKENIZER.token_bytes(token_id) for token_id in range(1, NUM_TOKENS)]
    order = random.Random(0)
    text = "".join(piece.decode(errors="ignore") for piece in order.sample(pieces, 5_000))
    assert TOKENIZER.encode(text) == package.encode(text)


def test_what_the_protocol_asks():
    assert isinstance(TOKENIZER, Tokenizer)
    assert (TOKENIZER.boundary_id, TOKENIZER.eos_id, TOKENIZER.vocab_size) == (0, 0, 65_530)
    assert TOKENIZER.token_bytes(0) == b""
    assert TOKENIZER.encode("") == []
    assert TOKENIZER.encode_with_offsets("") == ([], [])
    assert TOKENIZER.decode([0, *TOKENIZER.encode("a b"), 0]) == "a b"
    [space] = [token_id for token_id in TOKENIZER.encode(" house") if TOKENIZER.starts_word(token_id)]
    assert TOKENIZER.token_bytes(space) == b" house"
    assert not TOKENIZER.starts_word(TOKENIZER.encode("house")[0])


@given(text=texts)
def test_spans_cover_the_text(text):
    ids, spans = TOKENIZER.encode_with_offsets(text)
    assert ids == TOKENIZER.encode(text)
    assert len(ids) == len(spans)
    before = (0, 0)
    for token_id, (start, end) in zip(ids, spans, strict=True):
        assert start < end
        assert before[0] <= start <= before[1] <= end  # no gap, and nothing goes back
        assert TOKENIZER.token_bytes(token_id) in text[start:end].encode()
        before = (start, end)
    assert before[1] == len(text)


@given(text=texts)
def test_a_stream_never_cuts_a_character(text):
    decoder = StreamDecoder(TOKENIZER, opens_segment=False)
    parts = [decoder.push(token_id) for token_id in TOKENIZER.encode(text)]
    assert "".join(parts) + decoder.finish() == text
    assert not any("\ufffd" in part for part in parts) or "\ufffd" in text


def test_bytes_that_are_no_text():
    part = TOKENIZER.encode("\U0001f9ff")[:1]
    assert TOKENIZER.decode(part) == "\ufffd" or len(TOKENIZER.encode("\U0001f9ff")) == 1
    with pytest.raises(InputError, match="character 2"):
        TOKENIZER.encode("ab\ud800")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"\n65529 ", b"\n65530 "),
        (b"\n300 ", b"\n301 "),
        (b"1 '\\x00' 1\r\n", b""),
        (b"1 '\\x00' 1\r\n", b"1 '\\x00' 2\r\n"),
        (b"1 '\\x00' 1\r\n", b"1 print('x') 1\r\n"),
        (b"1 '\\x00' 1\r\n", b"nonsense\r\n"),
        (b"1 '\\x00' 1\r\n", b"-1 '\\x00' 1\r\n"),
        (b"1 '\\x00' 1\r\n", b"1 '\\x01' 1\r\n"),
    ],
)
def test_a_damaged_vocabulary(tmp_path, before, after):
    raw = PATH.read_bytes()
    assert raw.count(before) >= 1
    (tmp_path / "v.txt").write_bytes(raw.replace(before, after, 1))
    with pytest.raises(ModelError, match="damaged"):
        WorldTokenizer(tmp_path / "v.txt")


def test_a_missing_vocabulary_and_a_copy(tmp_path):
    with pytest.raises(ModelError, match="cannot be read"):
        WorldTokenizer(tmp_path / "v.txt")
    copy = shutil.copy(PATH, tmp_path / "v.txt")
    assert WorldTokenizer(copy).sha256 == TOKENIZER.sha256
