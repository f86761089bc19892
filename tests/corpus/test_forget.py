from pathlib import Path

import numpy as np
import pytest
from tiny_corpus import WordEncoder, numbered, run, write

from precog.backbones.tenns.backbone import TennsBackbone
from precog.corpus.forget import forget_document
from precog.corpus.sources import title_of
from precog.errors import InputError
from precog.index.words import term_hashes
from precog.questions.found_by import words_text
from precog.store import CorpusStore
from precog.store.folder import write_atomically
from precog.text.tokenizer import load_mistral_tokenizer

SECRET = "The password of the vault under the old brewery is marmalade-seventeen-oyster, and only Ilse knows it."


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


def test_no_key_and_no_word_of_a_question_is_left(
    tmp_path: Path, backbone: TennsBackbone, encoder: WordEncoder
) -> None:
    docs, corpus = tmp_path / "docs", tmp_path / "c"
    write(docs, "a.txt", numbered(0, 8))
    write(docs, "secret.txt", f"The brewery was founded in 1843 by Ilse Quill. {SECRET}")
    run(corpus, docs, backbone, encoder, keys="questions")

    def everything() -> bytes:
        return b"".join(path.read_bytes() for path in corpus.rglob("*") if path.is_file())

    with CorpusStore.open(corpus) as store:
        (row,) = store.find_documents(str(docs / "secret.txt"))
        (entry,) = store.iter_keys([chunk.id for chunk in store.chunks_of(row.id)])
        words: dict[str, set[int]] = {}
        for said in store.iter_texts():
            text = words_text("questions", said.text, title=title_of(said.source), context=said.context)
            words.setdefault(said.source, set()).update(term_hashes(text).tolist())
    secret = words.pop(row.info.source).difference(*words.values())
    assert term_hashes("secret").item() in secret  # the title, which the text does not say
    own = [entry.keys.tobytes(), entry.keys.astype("<f2").tobytes()]
    own += [np.uint64(word).tobytes() for word in secret]
    assert all(part in everything() for part in own)
    assert forget_document(corpus, "secret.txt", load_mistral_tokenizer()).hits == 0
    assert not any(part in everything() for part in own)


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
