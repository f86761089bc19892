from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_corpus import WordEncoder, numbered, run, write

from precog.backbones.tenns.backbone import TennsBackbone
from precog.corpus.forget import forget_document
from precog.errors import InputError
from precog.store import CorpusStore, Needles, write_atomically
from precog.text.tokenizer import load_mistral_tokenizer

SECRET = "The password of the vault under the old brewery is marmalade-seventeen-oyster, and only Ilse knows it."


@given(
    st.binary(max_size=300),
    st.lists(st.tuples(st.integers(0, 300), st.integers(8, 40)), max_size=8),
    st.binary(min_size=8, max_size=20),
)
def test_needles_are_found_where_they_are(data: bytes, places: list[tuple[int, int]], other: bytes) -> None:
    inside = [data[start : start + size] for start, size in places]
    strings = {text for text in [*inside, other] if len(text) >= 8 and text.strip(b"\0")}
    assert Needles([*inside, other]).found_in(data) == {text for text in strings if text in data}


def test_a_needle_across_two_blocks_of_a_file_is_found(tmp_path: Path) -> None:
    path = tmp_path / "big"
    needle = b"needle in a haystack"
    for offset in (1 << 20) - 1, (1 << 20) - 19, (1 << 20), 0:
        data = bytearray(np.random.default_rng(0).bytes((1 << 20) + 100))
        data[offset : offset + len(needle)] = needle
        path.write_bytes(data)
        found, size = Needles([needle, b"something else"]).found_in_file(path)
        assert found == {needle}
        assert size == len(data)


def test_nothing_of_a_forgotten_document_is_left(tmp_path: Path, backbone: TennsBackbone, encoder: WordEncoder) -> None:
    docs, corpus = tmp_path / "docs", tmp_path / "c"
    write(docs, "a.txt", numbered(0, 20))
    secret = write(docs, "secret.txt", f"{numbered(50, 8)}\n\n{SECRET}")
    run(corpus, docs, backbone, encoder)
    everything = b"".join(path.read_bytes() for path in corpus.rglob("*") if path.is_file())
    assert b"marmalade-seventeen" in everything
    report = forget_document(corpus, str(secret), load_mistral_tokenizer())
    everything = b"".join(path.read_bytes() for path in corpus.rglob("*") if path.is_file())
    assert b"marmalade-seventeen" not in everything
    assert b"secret.txt" not in everything
    tokens = np.array(backbone.tokenizer.encode(SECRET)[4:12], "<u2").tobytes()
    assert tokens not in everything
    assert report.hits == 0
    assert report.searched_for > 20
    assert report.outside == []
    assert report.bytes_searched >= len(everything)
    with CorpusStore.open(corpus) as store:
        assert [row.info.source for row in store.documents()] == [str(docs / "a.txt")]


def test_what_another_document_says_too_is_told_apart(
    tmp_path: Path, backbone: TennsBackbone, encoder: WordEncoder
) -> None:
    docs, corpus = tmp_path / "docs", tmp_path / "c"
    write(docs, "a.txt", numbered(0, 8))
    write(docs, "b.txt", numbered(0, 8) + "\n\n" + SECRET)
    run(corpus, docs, backbone, encoder)
    report = forget_document(corpus, "b.txt", load_mistral_tokenizer())
    assert report.hits == 0
    assert [entry["document"] for entry in report.outside] == [str(docs / "a.txt")]
    with CorpusStore.open(corpus) as store:
        assert store.size().num_chunks > 0
        assert all(store.read_state(chunk_id) for chunk_id in store.visible_chunk_ids())


def test_a_copy_that_somebody_left_in_the_folder_is_found(
    tmp_path: Path, backbone: TennsBackbone, encoder: WordEncoder
) -> None:
    docs, corpus = tmp_path / "docs", tmp_path / "c"
    write(docs, "b.txt", SECRET)
    run(corpus, docs, backbone, encoder)
    write_atomically(corpus / "notes.bak", b"xx" + SECRET.encode())
    report = forget_document(corpus, "b.txt", load_mistral_tokenizer())
    assert report.hits > 0
    assert report.hit_files == [str(corpus / "notes.bak")]


def test_an_unknown_document_is_named_with_a_likely_one(
    tmp_path: Path, backbone: TennsBackbone, encoder: WordEncoder
) -> None:
    write(tmp_path / "docs", "report.txt", numbered(0, 2))
    run(tmp_path / "c", tmp_path / "docs", backbone, encoder)
    with pytest.raises(InputError, match=r"did you mean .*report\.txt"):
        forget_document(tmp_path / "c", str(tmp_path / "docs" / "reprot.txt"), load_mistral_tokenizer())
