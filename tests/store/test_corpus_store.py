"""A corpus as its users see it: documents in commit units, shared states, forgetting, compaction, replacement."""

import json
import os
import shutil
import threading

import corpora
import numpy as np
import pytest
from scan import scan

from precog.errors import BusyError, CorpusError, DamagedCorpusError, DamagedStateError, EncoderError, StateError
from precog.store import ChunkInfo, CorpusStore, Location, RecordLayout
from precog.store.segment import segment_path


@pytest.fixture
def store(tmp_path):
    with corpora.create(tmp_path / "corpus") as made:
        yield made


def chunk_ids(store):
    return list(store.visible_chunk_ids())


def test_what_was_added_is_what_is_read(store):
    corpora.fill(store, 3, 4)
    with CorpusStore.open(store.path) as reader:
        assert [d.info for d in reader.documents()] == [corpora.info_of(f"doc{n}.txt") for n in range(3)]
        assert {d.status for d in reader.documents()} == {"indexed"}
        assert reader.settings == {"chunk_tokens": corpora.MAX_TOKENS}
        assert (reader.layout, reader.fingerprint, reader.key_dim) == (corpora.LAYOUT, corpora.FINGERPRINT, 4)
        for seed, (chunk_id, chunk) in enumerate(sorted(reader.chunks(chunk_ids(reader)).items())):
            record = reader.read_state(chunk_id)
            parts = corpora.parts_of(seed)
            np.testing.assert_array_equal(record.state, parts["state"])
            np.testing.assert_array_equal(record.tau, parts["tau"])
            np.testing.assert_array_equal(record.token_ids, corpora.tokens_of(seed))
            np.testing.assert_array_equal(record.suffix_array, parts["suffix_array"])
            assert chunk.info.text == corpora.text_of(chunk.source, seed)
            assert (chunk.info.ordinal, chunk.info.page, chunk.info.span) == (
                seed % 4,
                1 + seed % 4,
                (seed % 4 * 10, seed % 4 * 10 + 10),
            )
            assert chunk.num_tokens == record.num_tokens
            np.testing.assert_array_equal(reader.read_state(chunk).state, record.state)
        for seed, entry in enumerate(reader.iter_keys()):
            np.testing.assert_array_equal(entry.keys, corpora.key_of(seed, 1 + seed % 2))
        wanted = chunk_ids(reader)[3:5]
        assert [entry.chunk_id for entry in reader.iter_keys([*wanted, 999])] == wanted
        assert [entry.chunk_id for entry in reader.iter_texts(wanted)] == wanted
        assert next(iter(reader.iter_texts())).context == "a heading"
        size = reader.size()
        assert (size.num_documents, size.num_chunks, size.num_states) == (3, 12, 12)
        assert size.state_bytes == 12 * corpora.LAYOUT.record_bytes


def test_folders_and_files_are_for_their_owner_only(store):
    corpora.fill(store)
    previous = os.umask(0)
    try:
        corpora.create(store.path.parent / "wide open").close()
    finally:
        os.umask(previous)
    for root in (store.path, store.path.parent / "wide open"):
        assert root.stat().st_mode & 0o777 == 0o700
        for path in root.rglob("*"):
            assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


def test_equal_tokens_share_one_state_until_the_last_chunk_is_gone(store):
    with store.batch() as batch:
        first = corpora.add_document(batch, "a", [1, 2, 1])
        second = corpora.add_document(batch, "b", [2, 3])
        assert batch.find_state(corpora.tokens_of(3)) is not None
        assert batch.find_state(corpora.tokens_of(4)) is None
    assert (store.size().num_states, store.size().num_chunks) == (3, 5)
    with store.batch() as batch:
        batch.delete_document(first)
    assert store.size().num_states == 2
    assert [store.read_state(c).num_tokens for c in chunk_ids(store)] == [len(corpora.tokens_of(s)) for s in (2, 3)]
    with store.batch() as batch:
        batch.delete_document(second)
    assert store.size().num_states == 0
    for data in corpora.segment_bytes(store.path).values():
        assert data[4096:] == bytes(len(data) - 4096)


def test_a_state_that_no_chunk_names_is_not_kept(store):
    with store.batch() as batch:
        batch.add_state(corpora.tokens_of(1), **corpora.parts_of(1))
    assert store.size().num_states == 0


def test_an_exception_undoes_the_whole_unit(store):
    corpora.fill(store, 1)
    before, files, generation = store.checksum(), corpora.segment_bytes(store.path), store.generation

    def interrupted():
        with store.batch() as batch:
            corpora.add_document(batch, "new", range(50, 60))
            batch.delete_document(1)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert store.checksum() == before
    assert corpora.segment_bytes(store.path) == files
    assert store.generation == generation
    corpora.fill(store, 2)
    assert store.size().num_documents == 2


def test_an_unfinished_document_is_not_visible_and_is_taken_up_again(store):
    with store.batch() as batch:
        corpora.add_document(batch, "long", [1, 2], finish=False)
    assert chunk_ids(store) == []
    assert [d.status for d in store.find_documents("long")] == ["indexing"]
    with store.batch() as batch:
        assert batch.begin_document(corpora.info_of("long")).num_chunks == 2
        corpora.add_document(batch, "long", [1, 2, 3])
    assert len(chunk_ids(store)) == 3
    with store.batch() as batch:
        corpora.add_document(batch, "long", [4, 5], finish=False, content=b"y")
        assert batch.begin_document(corpora.info_of("long", b"z")).num_chunks == 0
    assert len(chunk_ids(store)) == 3


def test_a_changed_document_answers_with_its_old_version_until_the_new_one_is_complete(store):
    corpora.fill(store, 1, 3)
    old = chunk_ids(store)
    with store.batch() as batch:
        corpora.add_document(batch, "doc0.txt", [1, 40], finish=False, content=b"y")
    assert chunk_ids(store) == old
    with store.batch() as batch:
        corpora.add_document(batch, "doc0.txt", [1, 40, 41], content=b"y")
    chunks = store.chunks(chunk_ids(store))
    assert not set(old) & set(chunks)
    assert [c.info.text for c in chunks.values()] == [corpora.text_of("doc0.txt", s) for s in (1, 40, 41)]
    assert store.size().num_states == 3
    assert store.chunks(old) == {}
    with pytest.raises(CorpusError, match="no longer in the corpus"):
        store.read_state(old[0])


def test_a_failed_document_is_remembered_with_its_reason(store):
    corpora.fill(store, 1, 3)
    with store.batch() as batch:
        batch.fail_document(corpora.info_of("doc0.txt", b"q"), "cut short")
    (document,) = store.documents("failed")
    assert (document.reason, document.num_chunks, document.info.source) == ("cut short", 0, "doc0.txt")
    assert chunk_ids(store) == []
    with store.batch() as batch:
        corpora.add_document(batch, "doc0.txt", [7])
    assert [d.status for d in store.documents()] == ["indexed"]


def test_what_is_not_there_cannot_be_deleted(store):
    with pytest.raises(CorpusError, match="no such document"), store.batch() as batch:
        batch.delete_document(99)


@pytest.mark.parametrize("text", ["plain", "\ud83d lone \udcff surrogates", "nul \0 inside", "", "日本語 🎉"])
def test_names_and_texts_need_not_be_valid_unicode(store, text):
    info = corpora.info_of(f"file {text}")
    with store.batch() as batch:
        document = batch.begin_document(info)
        state_id = batch.add_state([1], **{**corpora.parts_of(0), "suffix_array": None})
        batch.add_chunk(document.id, ChunkInfo(0, None, (0, 1), text), state_id=state_id, keys=corpora.key_of(0))
        batch.finish_document(document.id)
    (found,) = store.find_documents(info.source)
    assert found.info == info
    assert next(iter(store.chunks_of(found.id))).info.text == text
    assert len(store.checksum()) == 64


def test_parts_of_another_corpus_are_refused_and_undone(store):
    with pytest.raises(StateError, match="another size"), store.batch() as batch:
        batch.add_state([1, 2], state=b"x")

    def with_other_keys():
        with store.batch() as batch:
            document = batch.begin_document(corpora.info_of("a"))
            state_id = batch.add_state([1], **{**corpora.parts_of(0), "suffix_array": None})
            info, keys = ChunkInfo(0, None, (0, 1), "t"), np.ones((1, 3), np.float32)
            batch.add_chunk(document.id, info, state_id=state_id, keys=keys)

    with pytest.raises(EncoderError, match="another encoder"):
        with_other_keys()
    with pytest.raises(CorpusError, match="open already"), store.batch(), store.batch():
        pass
    assert list(store.documents()) == []
    assert corpora.segment_bytes(store.path) == {}


def test_a_reader_cannot_write(store):
    with CorpusStore.open(store.path) as reader:
        for act in (reader.scrub, reader.compact, lambda: reader.batch().__enter__()):
            with pytest.raises(CorpusError, match="read only"):
                act()


def test_forgetting_leaves_no_trace(store):
    corpora.fill(store, 4, 30)
    (gone,) = store.find_documents("doc1.txt")
    seeds = range(30, 60)
    needles = [corpora.text_of("doc1.txt", s).encode() for s in seeds] + [b"doc1.txt"]
    needles += [corpora.parts_of(s)["state"].tobytes() for s in seeds]
    needles += [corpora.tokens_of(s).astype("<u2").tobytes() for s in seeds] + [
        corpora.key_of(s)[0].tobytes() for s in seeds
    ]
    assert len(scan(store.path, needles).hits) >= len(needles)
    with store.batch() as batch:
        batch.delete_document(gone.id)
    store.scrub()
    report = scan(store.path, needles)
    assert report.hits == []
    paths = [p for p in store.path.rglob("*") if p.is_file()]
    assert (report.files_searched, report.bytes_searched) == (len(paths), sum(p.stat().st_size for p in paths))
    assert len(scan(store.path, [b"doc0.txt", corpora.parts_of(0)["state"].tobytes()]).hits) == 2
    assert {d.info.source for d in store.documents()} == {"doc0.txt", "doc2.txt", "doc3.txt"}


def test_scrubbing_insists_when_a_reader_holds_the_log(store, monkeypatch):
    corpora.fill(store, 2)
    monkeypatch.setattr(type(store._catalogue), "scrub", lambda self: False)
    with pytest.raises(BusyError, match="close the other programs"):
        store.scrub()


def test_erasing_interrupted_before_it_began_is_finished_by_the_next_writer(store, monkeypatch):
    corpora.fill(store, 2)
    with monkeypatch.context() as patch:
        patch.setattr(type(store), "_erase_tombstones", lambda self: None)
        with store.batch() as batch:
            batch.delete_document(1)
    needle = corpora.parts_of(0)["state"].tobytes()
    assert len(scan(store.path, [needle]).hits) == 1
    store.close()
    with CorpusStore.open(store.path, write=True):
        assert scan(store.path, [needle]).hits == []


def test_compaction_gives_bytes_back_and_changes_nothing_else(store):
    corpora.fill(store, 4, 6)
    with CorpusStore.open(store.path) as reader:
        first, *_, last = chunk_ids(reader)
        held = reader.chunks([first, last])
        reader.read_state(held[last])
        with store.batch() as batch:
            batch.delete_document(1)
            batch.delete_document(3)
        before = store.checksum()
        freed = store.compact()
        assert freed >= 10 * corpora.LAYOUT.record_bytes
        assert store.checksum() == before
        assert reader.checksum() == before
        assert reader.read_state(held[last]).content_hash == held[last].content_hash
        with pytest.raises(CorpusError, match="no longer in the corpus"):
            reader.read_state(held[first])
        assert store.compact() == 0
    names = sorted(corpora.segment_bytes(store.path))
    assert len(names) == 3
    assert names[0] > "000004"
    corpora.fill(store, 5, 6)
    store.close()
    with CorpusStore.open(store.path, write=True) as again:
        assert all(not isinstance(r, DamagedStateError) for _, r in again.iter_records())
        assert again.size().num_documents == 5


def test_compaction_that_meets_damage_changes_nothing(store):
    corpora.fill(store, 2)
    path = segment_path(store.folder / "segments", 0)
    data = bytearray(path.read_bytes())
    data[4096 + 300] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedStateError, match="segment 000000, record 0"):
        store.compact()
    assert sorted(corpora.segment_bytes(store.path)) == ["000000.seg", "000001.seg"]
    damaged = [place for place, found in store.iter_records() if isinstance(found, DamagedStateError)]
    assert damaged == [Location(0, 0)]


def test_a_segment_of_another_time_is_noticed(store):
    with store.batch() as batch:
        corpora.add_document(batch, "a", [1])
    store.close()
    backup = store.path.parent / "backup"
    shutil.copytree(store.path, backup)
    for folder, seed in ((store.path, 2), (backup, 3)):
        with CorpusStore.open(folder, write=True) as writer, writer.batch() as batch:
            corpora.add_document(batch, "b", [seed])
    shutil.copy(segment_path(backup / "000001/segments", 0), segment_path(store.path / "000001/segments", 0))
    with CorpusStore.open(store.path) as reader:
        first, second = chunk_ids(reader)
        reader.read_state(first)
        with pytest.raises(DamagedStateError, match="holds another state"):
            reader.read_state(second)


def test_a_replacement_is_seen_at_once_and_as_a_whole(store):
    corpora.fill(store, 2)
    old_folder = store.folder
    layout = RecordLayout(16, 0, corpora.MAX_TOKENS)
    wanted = {"settings": {"model": "better"}, "layout": layout, "fingerprint": b"n" * 32, "key_dim": 2}

    def build(count):
        replacement = store.start_replacement(**wanted)
        with replacement.batch() as batch:
            for number in range(count):
                document = batch.begin_document(corpora.info_of(f"new{number}"))
                if document.num_chunks == 0:
                    state_id = batch.add_state([number], state=bytes(16))
                    info = ChunkInfo(0, None, (0, 1), "t")
                    batch.add_chunk(document.id, info, state_id=state_id, keys=np.ones((1, 2), np.float32))
        return replacement

    build(1).close()
    assert len(list(store.documents())) == 2
    replacement = build(2)
    with replacement.batch() as batch:
        for document in list(replacement.documents()):
            batch.finish_document(document.id)
    with CorpusStore.open(store.path) as reader:
        ids = chunk_ids(reader)
        store.publish_replacement(replacement)
        assert not reader.is_current
        with pytest.raises(CorpusError, match="replaced by a new one"):
            reader.read_state(ids[0])
    assert not old_folder.exists()
    with CorpusStore.open(store.path, write=True) as fresh:
        assert fresh.settings == {"model": "better"}
        assert [d.info.source for d in fresh.documents()] == ["new0", "new1"]
        assert (fresh.fingerprint, fresh.layout, fresh.key_dim) == (b"n" * 32, layout, 2)


def test_a_replacement_of_other_settings_starts_again_and_scrubbing_drops_it(store):
    corpora.fill(store, 1)
    wanted = {"settings": {}, "layout": corpora.LAYOUT, "fingerprint": b"n" * 32, "key_dim": 4}
    with store.start_replacement(**wanted) as replacement:
        corpora.fill(replacement, 1)
    with store.start_replacement(**{**wanted, "fingerprint": b"m" * 32}) as replacement:
        assert list(replacement.documents()) == []
        folder = replacement.folder
    store.scrub()
    assert not folder.exists()


def test_threads_read_the_same_states(store):
    corpora.fill(store, 4, 6)
    failures = []

    def read(start):
        for step in range(60):
            seed = (start + step) % 24
            state = store.read_state(seed + 1).state
            if not np.array_equal(state, corpora.parts_of(seed)["state"]):
                failures.append(seed)

    threads = [threading.Thread(target=read, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_folders_that_are_no_corpus_are_refused(store, tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/me.jpg").write_bytes(b"jpeg")
    for write in (False, True):
        with pytest.raises(CorpusError, match="there is no corpus here"):
            CorpusStore.open(tmp_path / "nowhere", write=write)
        with pytest.raises(CorpusError, match="not a corpus"):
            CorpusStore.open(tmp_path / "photos", write=write)
    with pytest.raises(CorpusError, match=r"not empty and not a corpus.*me\.jpg"):
        corpora.create(tmp_path / "photos")
    assert sorted(p.name for p in (tmp_path / "photos").iterdir()) == ["me.jpg"]
    with pytest.raises(CorpusError, match="a corpus here already"):
        corpora.create(store.path)


def test_an_interrupted_creation_is_taken_up(tmp_path):
    path = tmp_path / "corpus"
    corpora.create(path).close()
    (path / "precog.json").unlink()
    with pytest.raises(CorpusError, match="not a corpus"):
        CorpusStore.open(path)
    with corpora.create(path) as store:
        corpora.fill(store, 1)


@pytest.mark.parametrize(
    ("marker", "error", "message"),
    [
        ('{"corpus": "precog", "format": 2, "current": "000001"}', CorpusError, "newer format"),
        ('{"corpus": "other", "format": 1, "current": "000001"}', CorpusError, "not a corpus"),
        ('{"corpus": "precog", "format": 1, "current": "000007"}', DamagedCorpusError, "incomplete"),
        ('{"corpus": "precog", "format": 1, "current": "../x"}', DamagedCorpusError, "incomplete"),
        ('{"corpus": "pre', DamagedCorpusError, "marker of the corpus is damaged"),
        ("[]", DamagedCorpusError, "marker of the corpus is damaged"),
        ("", DamagedCorpusError, "marker of the corpus is damaged"),
    ],
)
def test_markers_that_cannot_be_followed(store, marker, error, message):
    (store.path / "precog.json").write_text(marker)
    with pytest.raises(error, match=message):
        CorpusStore.open(store.path)


@pytest.mark.parametrize("damage", ["missing", "empty", "garbage", "truncated", "header", "newer"])
@pytest.mark.parametrize("write", [False, True])
def test_a_damaged_catalogue_is_one_clear_line(tmp_path, damage, write):
    with corpora.create(tmp_path / "corpus") as store:
        corpora.fill(store, 4, 6)
    path = store.folder / "catalogue.sqlite"
    data = bytearray(path.read_bytes())
    if damage == "missing":
        path.unlink()
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "garbage":
        path.write_bytes(b"\x5a" * len(data))
    elif damage == "truncated":
        path.write_bytes(data[: len(data) // 2])
    elif damage == "header":
        path.write_bytes(b"not SQLite at all" + data[17:])
    else:
        data[60:64] = (99).to_bytes(4, "big")
        path.write_bytes(data)
    with pytest.raises(CorpusError) as caught:
        CorpusStore.open(store.path, write=write, wait_sec=0.0)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, DamagedCorpusError) == (damage != "newer")
    assert ("newer format" in str(caught.value)) == (damage == "newer")


def test_settings_that_are_gone_are_damage(store):
    store._catalogue.delete_meta("seal")  # as in a folder that was made before there was one
    store._catalogue.set_meta("layout", json.dumps({"unknown": 1}))
    with pytest.raises(DamagedCorpusError, match="lacks the corpus settings"):
        CorpusStore.open(store.path)


def test_leftovers_of_a_killed_writer_are_removed(store):
    corpora.fill(store, 1)
    store.close()
    for leftover in (store.path / "precog.json.tmp", store.folder / "dense.index.tmp"):
        leftover.write_bytes(b"half")
    CorpusStore.open(store.path, write=True).close()
    assert list(store.path.rglob("*.tmp")) == []


def test_scan_finds_what_lies_across_blocks(tmp_path):
    data = bytearray((1 << 20) + 1000)
    data[(1 << 20) - 4 : (1 << 20) + 6] = b"0123456789"
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/.hidden").write_bytes(data)
    (tmp_path / "empty").write_bytes(b"")
    report = scan(tmp_path, [b"0123456789", b"absent, surely"])
    assert [(h.path.name, h.offset, h.needle) for h in report.hits] == [(".hidden", (1 << 20) - 4, 0)]
    assert (report.files_searched, report.bytes_searched) == (2, len(data))
    with pytest.raises(CorpusError, match="empty byte string"):
        scan(tmp_path, [b""])
