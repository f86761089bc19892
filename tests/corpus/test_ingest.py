from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from reportlab.pdfgen.canvas import Canvas
from tiny_corpus import WordEncoder, checksum, make_store, numbered, run, write

from precog.backbones.tenns.backbone import TennsBackbone
from precog.corpus import ingest as ingest_module
from precog.corpus import unit
from precog.corpus.corpus import settings_of
from precog.corpus.ingest import Ingest
from precog.corpus.model import state_reader
from precog.corpus.sources import has_vanished, path_of
from precog.errors import ForeignStateError, StorageError
from precog.state import codec_named
from precog.store import Batch, CorpusStore
from precog.text.chunking.chunk import Chunk
from precog.text.document import Document
from precog.text.sources import printable_path
from precog.text.tokenizer import load_mistral_tokenizer


def corpus_bytes(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in ("lock", "catalogue.sqlite-wal", "catalogue.sqlite-shm")
    }


def test_indexing_again_changes_no_byte(tmp_path: Path, backbone: TennsBackbone, encoder: WordEncoder) -> None:
    write(tmp_path / "docs", "a.txt", numbered(0, 30))
    write(tmp_path / "docs", "empty.txt", "")
    first = run(tmp_path / "c", tmp_path / "docs", backbone, encoder)
    before = corpus_bytes(tmp_path / "c")
    second = run(tmp_path / "c", tmp_path / "docs", backbone, encoder)
    assert (first.new, first.failed, second.unchanged, second.failed) == (1, 1, 1, 1)
    assert second.chunks == second.tokens == 0
    assert [failure.reason for failure in second.failures] == ["the file is empty"]
    assert corpus_bytes(tmp_path / "c") == before


def test_states_are_those_of_chunks_read_alone(tmp_path: Path, backbone: TennsBackbone, encoder: WordEncoder) -> None:
    write(tmp_path / "docs", "a.txt", "\n\n".join(["Short.", numbered(0, 40), "The end of it all, at last."]))
    run(tmp_path / "c", tmp_path / "docs", backbone, encoder)
    codec = codec_named("fp16")
    with CorpusStore.open(tmp_path / "c") as store:
        chunks = [chunk for document in store.documents() for chunk in store.chunks_of(document.id)]
        assert len({chunk.num_tokens for chunk in chunks}) > 2
        for chunk in chunks:
            record = store.read_state(chunk.id)
            assert record.token_ids.tolist() == backbone.tokenizer.encode(chunk.info.context + chunk.info.text)
            alone = backbone.encode_chunks([record.token_ids.tolist()])[0]
            stored = codec.decode(record.state, backbone.spec, num_tokens=1)
            assert (stored.recurrent - alone.recurrent).abs().max() <= codec.bound(alone, backbone.spec).max() + 1e-5
            assert (alone.decay_time.flatten().numpy() - record.tau).max() <= 1e-5
            suffixes = [record.token_ids[start:].tolist() for start in record.suffix_array]
            assert suffixes == sorted(suffixes)


def test_equal_chunks_share_one_state(tmp_path: Path, backbone: TennsBackbone, encoder: WordEncoder) -> None:
    write(tmp_path / "docs", "a.txt", numbered(0, 20))
    write(tmp_path / "docs", "b.txt", numbered(0, 20))
    report = run(tmp_path / "c", tmp_path / "docs", backbone, encoder)
    with CorpusStore.open(tmp_path / "c") as store:
        size = store.size()
    assert report.states == size.num_states == size.num_chunks // 2


def test_a_changed_file_is_read_again_and_its_old_words_are_gone(
    tmp_path: Path, backbone: TennsBackbone, encoder: WordEncoder
) -> None:
    write(tmp_path / "docs", "a.txt", numbered(0, 20))
    write(tmp_path / "docs", "b.txt", numbered(100, 20))
    run(tmp_path / "c", tmp_path / "docs", backbone, encoder)
    write(tmp_path / "docs", "a.txt", "Nothing of that is true. " + numbered(50, 5))
    report = run(tmp_path / "c", tmp_path / "docs", backbone, encoder)
    assert (report.changed, report.unchanged, report.new) == (1, 1, 0)
    with CorpusStore.open(tmp_path / "c") as store:
        texts = "".join(entry.text for entry in store.iter_texts())
        assert "Paragraph 7 tells" not in texts
        assert "Paragraph 52 tells" in texts
        assert "Paragraph 107 tells" in texts


def test_a_file_that_turns_unreadable_is_forgotten_and_named(
    tmp_path: Path, backbone: TennsBackbone, encoder: WordEncoder
) -> None:
    path = write(tmp_path / "docs", "a.txt", numbered(0, 20))
    run(tmp_path / "c", tmp_path / "docs", backbone, encoder)
    path.write_bytes(b"\x00\x01\x02" * 500)
    report = run(tmp_path / "c", tmp_path / "docs", backbone, encoder)
    assert report.failed == 1
    assert not report.anything
    assert "binary" in report.failures[0].reason
    with CorpusStore.open(tmp_path / "c") as store:
        assert store.size().num_chunks == 0


def test_vanished_files_are_reported_and_pruned(tmp_path: Path, backbone: TennsBackbone, encoder: WordEncoder) -> None:
    write(tmp_path / "docs", "a.txt", numbered(0, 5))
    gone = write(tmp_path / "docs", "b.txt", numbered(10, 5))
    run(tmp_path / "c", tmp_path / "docs", backbone, encoder)
    gone.unlink()
    report = run(tmp_path / "c", tmp_path / "docs", backbone, encoder)
    assert report.missing == [printable_path(gone)]
    assert report.pruned == 0
    report = run(tmp_path / "c", tmp_path / "docs", backbone, encoder, prune=True)
    assert report.pruned == 1
    with CorpusStore.open(tmp_path / "c") as store:
        assert [row.info.source for row in store.documents()] == [printable_path(tmp_path / "docs" / "a.txt")]


@pytest.mark.parametrize(
    "name", [b"plain.txt", b"back\\slash.txt", b"line\nfeed.txt", b"latin\xe9.txt", "ünï.txt".encode(), b"\\x41.txt"]
)
def test_a_printable_name_leads_back_to_its_file(tmp_path: Path, name: bytes) -> None:
    path = bytes(tmp_path) + b"/" + name
    source = printable_path(Path(path.decode("utf-8", "surrogateescape")))
    assert path_of(source) == path
    assert has_vanished(source)
    assert not has_vanished("stdin")
    assert not has_vanished("report.txt")  # came under a name of its own, from no file


def test_a_corpus_of_another_model_is_refused(tmp_path: Path, backbone: TennsBackbone, encoder: WordEncoder) -> None:
    other = TennsBackbone.random("tiny-outer", load_mistral_tokenizer(), seed=1)
    with make_store(tmp_path / "c", backbone, encoder) as store, pytest.raises(ForeignStateError, match="reindex"):
        Ingest(store, other, encoder)


def test_a_full_disk_loses_nothing_that_was_committed(
    tmp_path: Path, backbone: TennsBackbone, encoder: WordEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unit, "UNIT_CHUNKS", 8)
    write(tmp_path / "docs", "a.txt", numbered(0, 80))
    run(tmp_path / "whole", tmp_path / "docs", backbone, encoder)
    added, limit = 0, 8 * 2 + 3
    add_state = Batch.add_state

    def fill_up(self: Batch, *args: object, **kwargs: object) -> int:
        nonlocal added
        added += 1
        if added == limit:
            raise StorageError("the disk is full")
        return add_state(self, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(Batch, "add_state", fill_up)
    with pytest.raises(StorageError):
        run(tmp_path / "c", tmp_path / "docs", backbone, encoder)
    with CorpusStore.open(tmp_path / "c") as store:
        assert store.size().num_chunks == 2 * 8
        assert list(store.iter_keys()) == []  # not visible before its document is whole
    run(tmp_path / "c", tmp_path / "docs", backbone, encoder)
    assert checksum(tmp_path / "c") == checksum(tmp_path / "whole")


@pytest.mark.parametrize("codec", ["fp16", "fp32"])
def test_layers_that_are_left_out_take_no_room_and_come_back_as_zero(
    tmp_path: Path, backbone: TennsBackbone, encoder: WordEncoder, codec: str
) -> None:
    write(tmp_path / "docs", "a.txt", numbered(0, 3))
    run(tmp_path / "c", tmp_path / "docs", backbone, encoder, layers="bottom:2", codec=codec)
    with CorpusStore.open(tmp_path / "c") as store:
        assert store.layout.note["layers"] == [0, 1]
        reader = state_reader(store, settings_of(store), backbone)
        chunk_id = next(iter(store.visible_chunk_ids()))
        record = store.read_state(chunk_id)
        state = reader.state(record)
        alone = backbone.encode_chunks([record.token_ids.tolist()])[0]
    assert state.num_tokens == alone.num_tokens
    assert not state.recurrent[2].any()
    assert (state.recurrent[:2] - alone.recurrent[:2]).abs().max() <= 2e-3 * alone.recurrent.abs().max()


def test_pages_without_text_are_told_on_every_run(
    tmp_path: Path, backbone: TennsBackbone, encoder: WordEncoder
) -> None:
    (tmp_path / "docs").mkdir()
    canvas = Canvas(str(tmp_path / "docs" / "a.pdf"))
    canvas.drawString(72, 700, "The harbour has three cranes.")
    canvas.showPage()
    canvas.rect(72, 72, 300, 300, fill=1)
    canvas.showPage()
    canvas.drawString(72, 700, "The tallest of them is painted red.")
    canvas.save()
    first = run(tmp_path / "c", tmp_path / "docs", backbone, encoder)
    again = run(tmp_path / "c", tmp_path / "docs", backbone, encoder)
    assert first.new == again.unchanged == 1
    assert len(first.warnings) == 1
    assert "page" in first.warnings[0].reason
    assert again.warnings == first.warnings
    with CorpusStore.open(tmp_path / "c") as store:
        pages = [chunk.info.page for document in store.documents() for chunk in store.chunks_of(document.id)]
    assert pages == [1, 3]


def test_a_reader_that_breaks_stops_one_document_only(
    tmp_path: Path, backbone: TennsBackbone, encoder: WordEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "docs", "a.txt", numbered(0, 3))
    write(tmp_path / "docs", "b.txt", numbered(10, 3))
    chunk_document = ingest_module.chunk_document

    def broken(document: Document, *args: Any, **kwargs: Any) -> Iterator[Chunk]:
        chunks = chunk_document(document, *args, **kwargs)
        yield next(chunks)
        if document.source.endswith("a.txt"):
            raise IndexError("list index\nout of range")
        yield from chunks

    monkeypatch.setattr(ingest_module, "chunk_document", broken)
    report = run(tmp_path / "c", tmp_path / "docs", backbone, encoder)
    assert (report.new, report.failed) == (1, 1)
    assert "IndexError: list index out of range" in report.failures[0].reason
    with CorpusStore.open(tmp_path / "c") as store:
        assert {chunk.source for row in store.documents() for chunk in store.chunks_of(row.id)} == {
            str(tmp_path / "docs" / "b.txt")
        }
