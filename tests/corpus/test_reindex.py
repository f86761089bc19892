import contextlib
import shlex
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from jaxtyping import Float32
from tiny_corpus import WordEncoder, checksum, numbered, run, write

from precog.backbones.tenns.backbone import TennsBackbone
from precog.backbones.tenns.checkpoint import save_model
from precog.corpus import corpus as corpus_module
from precog.corpus import reindex as reindex_module
from precog.corpus import unit
from precog.corpus.corpus import open_encoder, settings_of
from precog.corpus.model import state_reader
from precog.corpus.reindex import ReindexRequest, reindex
from precog.corpus.unit import Unit
from precog.corpus.writer import UnitWriter
from precog.errors import (
    DamagedCorpusError,
    DamagedStateError,
    EncoderError,
    ForeignStateError,
    PrecogError,
    StorageError,
    UsageError,
)
from precog.records import ModelChoice
from precog.store import CorpusStore, DocumentInfo


class OtherEncoder(WordEncoder):
    dim = 32
    fingerprint = "0" * 64
    name = "other words"

    def encode_passages(self, texts: list[str]) -> list[Float32[np.ndarray, "_ E"]]:
        return [np.repeat(self.encode_query(text)[None], 2, axis=0) for text in texts]


@pytest.fixture(autouse=True)
def _word_keys_and_small_units(monkeypatch: pytest.MonkeyPatch, encoder: WordEncoder) -> None:
    monkeypatch.setattr(unit, "UNIT_CHUNKS", 8)

    def load(spec: str | None) -> WordEncoder:
        return OtherEncoder() if spec == "other" else encoder

    monkeypatch.setattr(corpus_module, "load_encoder", load)
    monkeypatch.setattr(reindex_module, "load_encoder", load)


def save(folder: Path, backbone: TennsBackbone) -> ModelChoice:
    save_model(folder, backbone.model, name="tiny", tokenizer_sha256=backbone.tokenizer.sha256)
    return ModelChoice(str(folder), "cpu")


@pytest.fixture
def corpus(tmp_path: Path, backbone: TennsBackbone, encoder: WordEncoder) -> Path:
    write(tmp_path / "docs", "a.txt", numbered(0, 60))
    write(tmp_path / "docs", "b.txt", numbered(40, 50))
    write(tmp_path / "docs", "c.txt", "")
    run(tmp_path / "c", tmp_path / "docs", backbone, encoder)
    return tmp_path / "c"


def states(corpus: Path) -> dict[str, bytes]:
    with CorpusStore.open(corpus) as store:
        chunks = [chunk for document in store.documents() for chunk in store.chunks_of(document.id)]
        return {f"{chunk.source} {chunk.info.ordinal}": store.read_state(chunk).state.tobytes() for chunk in chunks}


def test_a_new_model_reads_the_stored_text_as_if_the_files_were_there(
    tmp_path: Path, corpus: Path, backbone: TennsBackbone, encoder: WordEncoder
) -> None:
    other = TennsBackbone.random("tiny-outer", backbone.tokenizer, seed=7)
    run(tmp_path / "direct", tmp_path / "docs", other, encoder)
    for path in (tmp_path / "docs").iterdir():
        path.unlink()
    report = reindex(ReindexRequest(corpus, save(tmp_path / "m", other)))
    assert (report.changed, report.failed) == (2, 1)
    assert checksum(corpus) == checksum(tmp_path / "direct")
    with CorpusStore.open(corpus) as store:
        assert store.fingerprint.hex() == other.fingerprint
        assert settings_of(store).model == str((tmp_path / "m").resolve())


def test_a_new_encoder_makes_keys_and_keeps_states(corpus: Path) -> None:
    before = states(corpus)
    report = reindex(ReindexRequest(corpus, encoder="other"))  # no model is loaded: there is none to load
    assert report.states > 0
    assert states(corpus) == before
    with CorpusStore.open(corpus) as store:
        assert store.key_dim == 32
        assert settings_of(store).encoder_fingerprint == OtherEncoder.fingerprint
        assert all(entry.keys.shape == (2, 32) for entry in store.iter_keys())


@pytest.mark.parametrize("kind", ["title", "questions"])
def test_other_keys_are_those_of_a_corpus_made_with_them_and_states_stay(
    tmp_path: Path, corpus: Path, backbone: TennsBackbone, encoder: WordEncoder, kind: str
) -> None:
    before, plain = states(corpus), checksum(corpus)
    run(tmp_path / "direct", tmp_path / "docs", backbone, encoder, keys=kind)
    reindex(ReindexRequest(corpus, wanted={"keys": kind}))  # no model is loaded: there is none to load
    assert states(corpus) == before
    assert checksum(corpus) == checksum(tmp_path / "direct") != plain
    with CorpusStore.open(corpus) as store:
        assert settings_of(store).keys == kind
    reindex(ReindexRequest(corpus, encoder="words"))
    with CorpusStore.open(corpus) as store:
        assert settings_of(store).keys == kind  # another encoder leaves them as they are
    reindex(ReindexRequest(corpus, wanted={"keys": "text"}))
    assert checksum(corpus) == plain


def test_other_keys_go_on_where_they_were_interrupted(
    tmp_path: Path, corpus: Path, backbone: TennsBackbone, encoder: WordEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, commit, done = checksum(corpus), UnitWriter.commit, 0

    def fill_up(self: UnitWriter, made: Unit) -> None:
        nonlocal done
        if done == 1:
            raise StorageError("the disk is full")
        done += 1
        commit(self, made)

    request = ReindexRequest(corpus, wanted={"keys": "questions"})
    with monkeypatch.context() as patched:
        patched.setattr(UnitWriter, "commit", fill_up)
        with pytest.raises(StorageError):
            reindex(request)
    assert checksum(corpus) == before
    report = reindex(request)
    assert report.states < len(states(corpus))
    run(tmp_path / "direct", tmp_path / "docs", backbone, encoder, keys="questions")
    assert checksum(corpus) == checksum(tmp_path / "direct")


def test_keys_that_there_are_not_and_keys_of_another_kind_are_one_line(corpus: Path) -> None:
    before = checksum(corpus)
    with pytest.raises(UsageError, match="--keys: no such choice; given: answers; expected: text, title, questions"):
        reindex(ReindexRequest(corpus, wanted={"keys": "answers"}))
    assert checksum(corpus) == before
    with CorpusStore.open(corpus) as store, pytest.raises(UsageError, match="made with another --keys") as told:
        settings_of(store, {"keys": "questions"})
    assert (told.value.given, told.value.expected) == ("questions", "text")
    assert command_of(told.value) == ["precog", "reindex", "--corpus", str(corpus), "--keys", "questions"]


def test_with_nothing_new_it_repairs_a_damaged_state(tmp_path: Path, corpus: Path, backbone: TennsBackbone) -> None:
    before = states(corpus)
    segment = next(corpus.rglob("*.seg"))
    data = bytearray(segment.read_bytes())
    data[4096 + 200] ^= 4
    segment.write_bytes(data)
    with pytest.raises(DamagedStateError):
        states(corpus)
    reindex(ReindexRequest(corpus, save(tmp_path / "m", backbone)))
    assert states(corpus) == before


def command_of(error: PrecogError) -> list[str]:
    """The command that a hint ends in, as a shell would read it."""
    return shlex.split((error.hint or "").partition(": ")[2])


def test_refusals_name_both_sides_and_a_command_that_can_be_pasted(
    tmp_path: Path, corpus: Path, backbone: TennsBackbone, encoder: WordEncoder
) -> None:
    spaced = corpus.rename(tmp_path / "my corpus")
    anew = ["precog", "reindex", "--corpus", str(spaced)]
    other = TennsBackbone.random("tiny-outer", backbone.tokenizer, seed=7)
    with CorpusStore.open(spaced) as store:
        settings = settings_of(store)
        with pytest.raises(ForeignStateError) as model:
            state_reader(store, settings, other, named="new model")
        with pytest.raises(ForeignStateError) as unnamed:
            state_reader(store, settings, other)
        with pytest.raises(EncoderError) as keys:
            open_encoder(store, settings, "other")
        with pytest.raises(UsageError) as read:
            settings_of(store, {"encode_mode": "twice", "codec": "fp32", "layers": "all"})
        with pytest.raises(UsageError) as parted:
            settings_of(store, {"encode_mode": "twice", "chunk_tokens": 99})
    assert model.value.given == f"tiny-outer (fingerprint {other.fingerprint[:12]})"
    assert model.value.expected == f"fingerprint {backbone.fingerprint[:12]}"  # this corpus says no name
    assert command_of(model.value) == [*anew, "--model", "new model"]
    assert command_of(unnamed.value) == anew
    assert keys.value.given == "other words (fingerprint 000000000000)"
    assert keys.value.expected == f"the default encoder (fingerprint {encoder.fingerprint[:12]})"
    assert command_of(keys.value) == [*anew, "--encoder", "other"]
    assert command_of(read.value) == [*anew, "--encode", "twice", "--codec", "fp32"]
    assert parted.value.hint == "use another folder"


def test_it_makes_every_state_anew_when_the_segments_are_gone(
    tmp_path: Path, corpus: Path, backbone: TennsBackbone
) -> None:
    before = states(corpus)
    for path in (corpus / "000001/segments").iterdir():
        path.unlink()
    (corpus / "000001/segments").rmdir()
    with pytest.raises(DamagedStateError, match=f"precog reindex --corpus {corpus}$"):
        states(corpus)
    with pytest.raises(DamagedCorpusError, match=f"precog reindex --corpus {corpus}$"):
        CorpusStore.open(corpus, write=True)
    reindex(ReindexRequest(corpus, save(tmp_path / "m", backbone)))
    assert states(corpus) == before
    assert [path.name for path in corpus.iterdir() if path.is_dir()] == ["000002"]


def test_it_makes_damaged_keys_anew_as_their_error_says(tmp_path: Path, corpus: Path, backbone: TennsBackbone) -> None:
    with contextlib.closing(sqlite3.connect(corpus / "000001/catalogue.sqlite")) as connection:
        connection.execute("UPDATE keys SET vectors = zeroblob(length(vectors)) WHERE chunk_id = 2")
        connection.commit()
    with CorpusStore.open(corpus) as store:
        (complaint,) = store.complaints()
    assert complaint.endswith(f"precog reindex --corpus {corpus}")
    reindex(ReindexRequest(corpus, save(tmp_path / "m", backbone)))
    with CorpusStore.open(corpus) as store:
        assert list(store.complaints()) == []


def test_interrupted_it_shows_the_old_corpus_and_then_goes_on(
    tmp_path: Path, corpus: Path, backbone: TennsBackbone, encoder: WordEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = TennsBackbone.random("tiny-outer", backbone.tokenizer, seed=7)
    request = ReindexRequest(corpus, save(tmp_path / "m", other))
    before = checksum(corpus)
    commit, done = UnitWriter.commit, 0

    def fill_up(self: UnitWriter, made: Unit) -> None:
        nonlocal done
        if done == 1:
            raise StorageError("the disk is full")
        done += 1
        commit(self, made)

    monkeypatch.setattr(UnitWriter, "commit", fill_up)
    with pytest.raises(StorageError):
        reindex(request)
    assert checksum(corpus) == before
    monkeypatch.setattr(UnitWriter, "commit", commit)
    report = reindex(request)
    run(tmp_path / "direct", tmp_path / "docs", other, encoder)
    assert checksum(corpus) == checksum(tmp_path / "direct")
    assert report.states < len(states(corpus))  # what had been committed was not read again
    assert [path.name for path in corpus.iterdir() if path.is_dir()] == ["000002"]


def test_what_became_of_a_document_since_an_interruption_is_taken_over(
    tmp_path: Path, corpus: Path, backbone: TennsBackbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = DocumentInfo("/gone.pdf", "application/pdf", bytes(32), 1, 1)
    with CorpusStore.open(corpus, write=True) as store, store.batch() as batch:
        batch.fail_document(info, "a password is needed")
    other = TennsBackbone.random("tiny-outer", backbone.tokenizer, seed=7)
    request = ReindexRequest(corpus, save(tmp_path / "m", other))

    def stop(store: CorpusStore, fingerprint: str) -> None:
        raise StorageError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr("precog.corpus.reindex.refresh_index", stop)
        with pytest.raises(StorageError):
            reindex(request)
    with CorpusStore.open(corpus, write=True) as store, store.batch() as batch:
        batch.fail_document(info, "no text in it")
    reindex(request)
    with CorpusStore.open(corpus) as store:
        assert [row.reason for row in store.find_documents("/gone.pdf")] == ["no text in it"]


def test_reading_twice_is_another_fingerprint(tmp_path: Path, corpus: Path, backbone: TennsBackbone) -> None:
    reindex(ReindexRequest(corpus, save(tmp_path / "m", backbone), wanted={"encode_mode": "twice", "codec": "fp32"}))
    with CorpusStore.open(corpus) as store:
        settings = settings_of(store)
        assert (settings.encode_mode, settings.codec) == ("twice", "fp32")
        assert store.fingerprint.hex() != backbone.fingerprint
