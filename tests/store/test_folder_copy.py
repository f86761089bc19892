"""Copies of folders that others write to."""

import shutil

import corpora
import memories
import pytest

from precog.errors import DamagedStateError
from precog.store import CorpusStore
from precog.store.database_copy import copy_database, is_database
from precog.store.folder_copy import FolderCopy
from precog.store.memory import MemoryStore
from precog.store.numbered import CATALOGUE, SEGMENTS


def put(target, piece):
    path = target / "000001" / SEGMENTS / f"{piece.segment:06d}.seg"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("r+b" if path.exists() else "wb") as file:
        file.seek(piece.offset)
        file.write(piece.data)


def settle(copying, target, catalogue):
    """A folder of what was copied."""
    target.mkdir(exist_ok=True)
    (target / "precog.json").write_text(f'{{"{copying.kind}": "precog", "format": 1, "current": "000001"}}')
    shutil.copy(catalogue, target / "000001" / CATALOGUE)
    for number, size in copying.segment_bytes.items():
        with (target / "000001" / SEGMENTS / f"{number:06d}.seg").open("r+b") as file:
            for offset, num_bytes in copying.dropped.get(number, []):
                file.seek(offset)
                file.write(bytes(num_bytes))
            file.truncate(size)
    for path in (target / "000001" / SEGMENTS).iterdir():
        if int(path.stem) not in copying.segment_bytes:
            path.unlink()


def copy(source, target, between=lambda number: None):
    copying, catalogue = FolderCopy.of(source), target.with_name("staged")
    for number, piece in enumerate(copying.pieces(catalogue)):
        put(target, piece)
        between(number)
    if not copying.is_lost:
        settle(copying, target, catalogue)
    return copying


def checksum(path, kind=CorpusStore):
    with kind.open(path) as store:
        return store.checksum()


def test_a_copy_holds_the_same(tmp_path):
    with corpora.create(tmp_path / "a") as store:
        corpora.fill(store)
        corpora.fill_with_parts(store)
        wanted = store.checksum()
        copying = copy(tmp_path / "a", tmp_path / "b")
    assert copying.damaged == []
    assert checksum(tmp_path / "b") == wanted
    with CorpusStore.open(tmp_path / "b", write=True) as store:
        assert list(store.complaints()) == []
        corpora.fill(store, 1)


def test_a_memory_too(tmp_path):
    with memories.create(tmp_path / "a") as store:
        memories.fill(store, range(6))
        copy(tmp_path / "a", tmp_path / "b")
        with MemoryStore.open(tmp_path / "b", write=True) as copied:
            assert [entry.info.text for entry in copied.deposits()] == [memories.text_of(seed) for seed in range(6)]
            for entry in copied.deposits():
                for position in copied.states_of(entry.id):
                    assert copied.read_state(entry.id, position).state.tobytes() == (
                        memories.parts_of(entry.id - 1, position)["state"].tobytes()
                    )


def said(seed):
    return [corpora.text_of("doc1.txt", seed).encode(), corpora.parts_of(seed)["state"].tobytes()[:64]]


def all_bytes(folder):
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def delete(store, source):
    (document,) = store.find_documents(source)
    with store.batch() as batch:
        batch.note_forgetting([source])
        batch.delete_document(document.id)
    store.scrub()


def test_what_is_forgotten_while_it_is_copied_is_not_in_the_copy(tmp_path):
    with corpora.create(tmp_path / "a") as store:
        corpora.fill(store)

        def between(number):
            if number == 3:
                delete(store, "doc1.txt")  # two of its three records have been copied already

        copying = copy(tmp_path / "a", tmp_path / "b", between)
        assert copying.dropped
        wanted = store.checksum()
    assert checksum(tmp_path / "b") == wanted
    found = all_bytes(tmp_path / "b")
    assert not [piece for seed in range(3, 6) for piece in said(seed) if piece in found]
    assert said(0)[1] in found


def test_a_compaction_meanwhile_moves_everything(tmp_path):
    with corpora.create(tmp_path / "a") as store:
        corpora.fill(store)
        delete(store, "doc0.txt")
        copy(tmp_path / "a", tmp_path / "b", lambda number: store.compact() if number == 4 else None)
        wanted = store.checksum()
    assert checksum(tmp_path / "b") == wanted


def test_what_is_written_meanwhile_harms_nothing(tmp_path):
    with corpora.create(tmp_path / "a") as store:
        corpora.fill(store, 2)
        wanted = store.checksum()

        def between(number):
            with store.batch() as batch:
                corpora.add_document(batch, f"more{number}.txt", [100 + number])

        copy(tmp_path / "a", tmp_path / "b", between)
    assert checksum(tmp_path / "b") == wanted


def test_a_folder_that_is_replaced_or_removed_meanwhile_is_lost(tmp_path):
    store = corpora.create(tmp_path / "a")
    corpora.fill(store)

    def replace(number):
        if number == 4:
            wanted = {"settings": store.settings, "layout": store.layout, "key_dim": store.key_dim}
            replacement = store.start_replacement(**wanted, fingerprint=store.fingerprint)
            store.publish_replacement(replacement)

    assert copy(tmp_path / "a", tmp_path / "b", replace).is_lost
    with CorpusStore.open(tmp_path / "a", write=True) as store:
        corpora.fill(store)

    def remove(number):
        if number == 4:
            shutil.rmtree(tmp_path / "a")

    assert copy(tmp_path / "a", tmp_path / "b", remove).is_lost


def test_a_damaged_record_is_told_and_the_others_are_copied(tmp_path):
    with corpora.create(tmp_path / "a") as store:
        corpora.fill(store)
        path = tmp_path / "a" / "000001" / SEGMENTS / "000000.seg"
        with path.open("r+b") as file:
            file.seek(store.layout.offset(1) + 200)
            file.write(b"\xff\x00\xff")
    copying = copy(tmp_path / "a", tmp_path / "b")
    assert copying.damaged == ["segment 000000, record 1"]
    with CorpusStore.open(tmp_path / "b", write=True) as store:
        found = dict(store.iter_records())
    assert [place.slot for place, record in found.items() if isinstance(record, DamagedStateError)] == [1]
    assert len(found) == 12


@pytest.mark.parametrize("version", ["v1", "v2", "v3"])
def test_old_formats_are_copied_as_they_are(tmp_path, repository, version):
    source = shutil.copytree(repository / "tests" / "store" / "golden" / version, tmp_path / "a")
    copy(source, tmp_path / "b")
    assert checksum(tmp_path / "b") == checksum(source)


def test_an_open_database_is_copied_without_its_log_and_what_was_deleted(tmp_path):
    import sqlite3

    connection = sqlite3.connect(tmp_path / "a.sqlite", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    connection.execute("CREATE TABLE said (text)")
    connection.executemany("INSERT INTO said VALUES (?)", [(f"secret {n}" * 50,) for n in range(200)])
    connection.execute("DELETE FROM said WHERE rowid > 1")
    copy_database(tmp_path / "a.sqlite", tmp_path / "b.sqlite")
    connection.close()
    assert is_database(tmp_path / "b.sqlite")
    assert b"secret 7" not in (tmp_path / "b.sqlite").read_bytes()
    copied = sqlite3.connect(tmp_path / "b.sqlite")
    assert copied.execute("SELECT count(*) FROM said").fetchone() == (1,)
    copied.close()
