"""A forget that was killed or refused half-way is finished by the same command, or by any other writer."""

import contextlib
import os
import shutil
import sqlite3
from pathlib import Path

import pytest
from tiny_corpus import WordEncoder, numbered, run, write

from precog.backbones.tenns.backbone import TennsBackbone
from precog.corpus import corpus as corpus_module
from precog.corpus import forget as forget_module
from precog.corpus.corpus import refresh_index, settings_of
from precog.corpus.forget import forget_document
from precog.errors import BusyError, InputError, StorageError
from precog.store import CorpusStore
from precog.store.catalogue import Catalogue
from precog.text.tokenizer import load_mistral_tokenizer

SECRET = "The password of the vault under the old brewery is marmalade-seventeen-oyster, and only Ilse knows it."


class Killed(BaseException):
    """Stands for a signal."""


@pytest.fixture
def corpus(tmp_path: Path, backbone: TennsBackbone, encoder: WordEncoder) -> Path:
    write(tmp_path / "docs", "a.txt", numbered(0, 20))
    write(tmp_path / "docs", "secret.txt", f"{numbered(50, 8)}\n\n{SECRET}")
    run(tmp_path / "c", tmp_path / "docs", backbone, encoder)
    return tmp_path / "c"


def keys_of(corpus: Path) -> list[bytes]:
    with CorpusStore.open(corpus) as store:
        (document,) = [row for row in store.documents() if row.info.source.endswith("secret.txt")]
        ids = [chunk.id for chunk in store.chunks_of(document.id)]
        return [entry.keys.astype("<f2").tobytes() for entry in store.iter_keys(ids)]


def traces(corpus: Path, keys: list[bytes]) -> list[str]:
    """Files that still say something of the secret."""
    wanted = [b"marmalade-seventeen", b"secret.txt", *keys]
    files = {path: path.read_bytes() for path in corpus.rglob("*") if path.is_file()}
    return [path.name for path, data in files.items() if any(text in data for text in wanted)]


def die(*_: object, **__: object) -> None:
    raise Killed


@pytest.mark.parametrize("name", ["secret.txt", "whole"])
@pytest.mark.parametrize("point", ["refresh_index", "scrub", "search_folder"])
def test_killed_anywhere_it_is_finished_by_the_same_command(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, point: str, name: str
) -> None:
    name = name if name == "secret.txt" else str(corpus.parent / "docs" / "secret.txt")
    keys = keys_of(corpus)
    with monkeypatch.context() as patch:
        patch.setattr(*((Catalogue, point) if point == "scrub" else (forget_module, point)), die)
        with pytest.raises(Killed):
            forget_document(corpus, name, load_mistral_tokenizer())
    report = forget_document(corpus, name, load_mistral_tokenizer())
    assert (report.forgotten, report.hits) == ([name], 0)
    assert traces(corpus, keys) == []
    with pytest.raises(InputError, match="no such document"):
        forget_document(corpus, name, load_mistral_tokenizer())


def test_any_other_writer_removes_the_traces(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, encoder: WordEncoder
) -> None:
    keys = keys_of(corpus)
    with monkeypatch.context() as patch:
        patch.setattr(forget_module, "refresh_index", die)
        with pytest.raises(Killed):
            forget_document(corpus, "secret.txt", load_mistral_tokenizer())
    assert traces(corpus, keys)
    with CorpusStore.open(corpus, write=True) as store:
        refresh_index(store, settings_of(store).encoder_fingerprint)
    assert traces(corpus, keys) == []
    assert forget_document(corpus, "secret.txt", load_mistral_tokenizer()).hits == 0


def test_refused_because_somebody_reads_it_works_when_they_have_finished(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("precog.store.database._BUSY_TIMEOUT_SEC", 0.1)
    keys = keys_of(corpus)
    with contextlib.closing(sqlite3.connect(corpus / "000001/catalogue.sqlite", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM chunks").fetchone()
        for _ in range(2):
            with pytest.raises(BusyError, match=r"run the same command again|try again"):
                forget_document(corpus, "secret.txt", load_mistral_tokenizer())
        reader.execute("COMMIT")
    assert forget_document(corpus, "secret.txt", load_mistral_tokenizer()).hits == 0
    assert traces(corpus, keys) == []


def change(corpus: Path, statement: str) -> None:
    with contextlib.closing(sqlite3.connect(corpus / "000001/catalogue.sqlite")) as connection:
        connection.execute(statement)
        connection.commit()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE chunks SET text = 'changed' || text WHERE document_id = {}",
        "UPDATE keys SET vectors = zeroblob(length(vectors)) WHERE chunk_id IN"
        " (SELECT id FROM chunks WHERE document_id = {})",
    ],
)
@pytest.mark.parametrize("damaged", ["secret.txt", "a.txt"])
def test_damage_does_not_keep_a_document_from_being_forgotten(corpus: Path, statement: str, damaged: str) -> None:
    with CorpusStore.open(corpus) as store:
        (number,) = [row.id for row in store.documents() if row.info.source.endswith(damaged)]
    for path in corpus.rglob("*.index"):
        path.unlink()
    change(corpus, statement.format(number))
    forget_document(corpus, "secret.txt", load_mistral_tokenizer())
    assert traces(corpus, []) == []
    with CorpusStore.open(corpus) as store:
        assert [row.info.source for row in store.documents()] == [str(corpus.parent / "docs" / "a.txt")]


def test_a_damaged_chunk_is_repaired_as_its_error_says(
    tmp_path: Path, corpus: Path, backbone: TennsBackbone, encoder: WordEncoder
) -> None:
    change(corpus, "UPDATE chunks SET text = 'The password is swordfish.' WHERE id = 2")
    with CorpusStore.open(corpus) as store:
        (complaint,) = store.complaints()
    assert "precog forget" in complaint
    forget_document(corpus, "a.txt", load_mistral_tokenizer())
    run(corpus, tmp_path / "docs", backbone, encoder)
    with CorpusStore.open(corpus) as store:
        assert list(store.complaints()) == []
        assert store.size().num_documents == 2


def test_index_files_of_another_corpus_are_not_used(
    tmp_path: Path, corpus: Path, backbone: TennsBackbone, encoder: WordEncoder
) -> None:
    write(tmp_path / "others", "b.txt", numbered(300, 28))
    run(tmp_path / "other", tmp_path / "others", backbone, encoder)
    for path in corpus.rglob("*.index"):
        os.replace(tmp_path / "other/000001" / path.name, path)
    with CorpusStore.open(corpus, write=True) as store:
        source = corpus_module.index_source(store, encoder.fingerprint)
        _, problem = corpus_module.HybridIndex.open(store.folder, source)
        assert problem is not None
        assert "belongs to something else" in str(problem)


def test_index_files_of_a_copy_that_went_its_own_way_are_not_used(
    tmp_path: Path, corpus: Path, backbone: TennsBackbone, encoder: WordEncoder
) -> None:
    shutil.copytree(corpus, tmp_path / "twin")
    write(tmp_path / "one", "b.txt", numbered(300, 8))
    write(tmp_path / "two", "b.txt", numbered(400, 8))
    run(corpus, tmp_path / "one", backbone, encoder)
    run(tmp_path / "twin", tmp_path / "two", backbone, encoder)
    for path in corpus.rglob("*.index"):
        shutil.copy(tmp_path / "twin/000001" / path.name, path)
    with CorpusStore.open(corpus, write=True) as store:
        source = corpus_module.index_source(store, encoder.fingerprint)
        index, problem = corpus_module.HybridIndex.open(store.folder, source)
        assert "another state of the catalogue" in str(problem)
        (best, *_) = index.search("Paragraph 303 port 2121", None, 1, retrieval="bm25")
        assert "Paragraph 303 " in store.chunks([best.chunk_id])[best.chunk_id].info.text
        assert index.search("Paragraph 403", None, 1, retrieval="bm25")[0].lexical < best.lexical


@pytest.mark.parametrize("point", ["refresh_index", "search_folder"])
def test_a_disk_that_refuses_after_the_commit_is_told_as_that(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    def full(*_: object, **__: object) -> None:
        raise StorageError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(forget_module, point, full)
        with pytest.raises(StorageError, match=r"^it is forgotten.*, but not yet .*: the disk is full; .*again") as e:
            forget_document(corpus, "secret.txt", load_mistral_tokenizer())
    assert ("searched for" in str(e.value)) == (point == "search_folder")
    assert forget_document(corpus, "secret.txt", load_mistral_tokenizer()).hits == 0
