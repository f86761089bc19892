"""Nothing that is not ours is deleted, cut or given another mode."""

import contextlib
import os
import shutil
import sqlite3

import corpora
import pytest

from precog.errors import CorpusError, DamagedCorpusError, PrecogError
from precog.store import CorpusStore
from precog.store.catalogue import Catalogue

WANTED = {"settings": {}, "layout": corpora.LAYOUT, "fingerprint": b"n" * 32, "key_dim": corpora.DIM}


def put(path, data=b"precious"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def modes(folder):
    return {path: path.stat().st_mode for path in (folder, *folder.rglob("*"))}


@pytest.mark.parametrize(
    "name",
    [
        "000001/precious.jpg",
        "000001/segments/precious.jpg",
        "000001/segments/000000.seg",
        "000001/dense.index/precious.jpg",
        "000001/catalogue.sqlite",
        "000001",
        "lock",
        "lock/precious.jpg",
        "000001/dense.index",
        "000002/precious.jpg",
        "precog.json.tmp/precious.jpg",
        "photo.jpg",
    ],
)
def test_a_folder_that_holds_something_else_is_refused_and_left_as_it_was(tmp_path, name):
    folder = tmp_path / "scans"
    path = put(folder / name)
    folder.chmod(0o755)
    before = modes(folder)
    with pytest.raises(CorpusError, match=r"not empty and not a corpus|marker is missing"):
        corpora.create(folder)
    assert path.read_bytes() == b"precious"
    after = modes(folder)
    after.pop(folder / "lock", None)
    before.pop(folder / "lock", None)
    assert after == before


def test_a_database_of_somebody_else_is_not_touched(tmp_path):
    path = tmp_path / "corpus/000001/catalogue.sqlite"
    path.parent.mkdir(parents=True)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute("CREATE TABLE photos (name)")
        connection.execute("INSERT INTO photos VALUES ('me')")
        connection.commit()
        before = {file.name: file.read_bytes() for file in path.parent.iterdir() if not file.name.endswith("-shm")}
        with pytest.raises(CorpusError, match="marker is missing"):
            corpora.create(tmp_path / "corpus")
        assert len(before) == 2
        assert before == {name: (path.parent / name).read_bytes() for name in before}


def test_folders_in_the_place_of_temporary_files_stop_nobody(tmp_path):
    path = tmp_path / "corpus"
    corpora.create(path).close()
    kept = [put(path / name / "own.txt") for name in ("precog.json.tmp", "000001/dense.index.tmp")]
    with CorpusStore.open(path, write=True) as store:
        corpora.fill(store, 1)
        store.drop_index()
        store.scrub()
    assert all(file.exists() for file in kept)


def test_a_path_that_is_a_file_or_leads_through_one_is_refused(tmp_path):
    path = put(tmp_path / "file")
    for folder in (path, path / "deeper"):
        with pytest.raises(PrecogError):
            corpora.create(folder)
    assert path.read_bytes() == b"precious"


def test_a_corpus_without_its_marker_is_not_taken_for_a_leftover(tmp_path):
    path = tmp_path / "corpus"
    with corpora.create(path) as store:
        corpora.fill(store, 2)
        before = store.checksum()
    marker = (path / "precog.json").read_text()
    (path / "precog.json").unlink()
    with pytest.raises(CorpusError, match="complete corpus whose marker is missing") as caught:
        corpora.create(path)
    assert marker.strip() in caught.value.hint
    (path / "precog.json").write_text(marker)
    with CorpusStore.open(path) as store:
        assert store.checksum() == before


@pytest.mark.parametrize("point", ["add_nothing", "no_catalogue", "empty_catalogue", "no_tables"])
def test_whatever_an_interrupted_creation_leaves_is_taken_up(tmp_path, point):
    path = tmp_path / "corpus"
    corpora.create(path).close()
    (path / "precog.json").unlink()
    catalogue = path / "000001/catalogue.sqlite"
    if point != "add_nothing":
        catalogue.unlink()
    if point == "empty_catalogue":
        catalogue.touch()
    elif point == "no_tables":
        Catalogue.create(catalogue).close()
    with corpora.create(path) as store:
        corpora.fill(store, 1)


def test_numbered_folders_of_others_are_stepped_over(tmp_path):
    path = tmp_path / "corpus"
    with corpora.create(path) as store:
        corpora.fill(store, 2)
    other = tmp_path / "other"
    with corpora.create(other) as store:
        corpora.fill(store, 1)
    shutil.copytree(other / "000001", path / "000003")
    kept = [put(path / name) for name in ("2024/a.jpg", "000002/photo.jpg", "notes.tmp", "000001/own.tmp")]
    kept += [path / "000003/catalogue.sqlite"]
    with CorpusStore.open(path, write=True) as store:
        store.scrub()
        with store.start_replacement(**WANTED) as replacement:
            assert replacement.folder.name == "000004"
            corpora.fill(replacement, 1)
        store.scrub()
        assert not (path / "000004").exists()
        replacement = store.start_replacement(**WANTED)
        corpora.fill(replacement, 1)
        store.publish_replacement(replacement)
    assert all(file.exists() for file in kept)
    assert [file.name for file in (path / "000001").iterdir()] == ["own.tmp"]
    with CorpusStore.open(path, write=True) as store:
        assert store.folder.name == "000004"
        assert store.size().num_documents == 1


def test_an_old_folder_that_outlived_its_replacement_goes_with_the_next_scrub(tmp_path, monkeypatch):
    path = tmp_path / "corpus"
    with corpora.create(path) as store:
        corpora.fill(store, 1)
        replacement = store.start_replacement(**WANTED)
        corpora.fill(replacement, 1)
        with monkeypatch.context() as patch:
            patch.setattr("precog.store.folder.CorpusFolder.remove_others", lambda self, keep=None: None)
            store.publish_replacement(replacement)
    assert (path / "000001").exists()
    with CorpusStore.open(path, write=True) as store:
        store.scrub()
    assert not (path / "000001").exists()


@pytest.mark.parametrize("write", [False, True])
def test_segments_that_are_gone_are_one_line_with_a_way_out(tmp_path, write):
    path = tmp_path / "corpus"
    with corpora.create(path) as store:
        corpora.fill(store, 2)
    shutil.rmtree(path / "000001/segments")

    def use():
        with CorpusStore.open(path, write=write) as opened:
            opened.read_state(1)

    with pytest.raises(Exception, match="precog reindex") as caught:
        use()
    assert "\n" not in str(caught.value)
    with CorpusStore.open(path, write=True, allow_damaged=True) as opened:
        assert len(list(opened.chunks_of(1))) == 3


def test_the_segments_folder_of_an_empty_corpus_is_made_again(tmp_path):
    corpora.create(tmp_path / "corpus").close()
    (tmp_path / "corpus/000001/segments").rmdir()
    with CorpusStore.open(tmp_path / "corpus", write=True) as store:
        corpora.fill(store, 1)


def test_a_folder_that_may_not_be_entered_is_one_line(tmp_path):
    path = tmp_path / "locked/corpus"
    corpora.create(path).close()
    path.parent.chmod(0)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)  # root may enter everything
    try:
        for attempt in (
            lambda: CorpusStore.open(path),
            lambda: CorpusStore.open(path, write=True),
            lambda: corpora.create(path),
        ):
            with pytest.raises(CorpusError, match=r"cannot be read.*Permission denied") as caught:
                attempt()
            assert "\n" not in str(caught.value)
            assert not isinstance(caught.value, DamagedCorpusError)
    finally:
        os.seteuid(user)
        path.parent.chmod(0o700)


def change(path, *statements):
    with contextlib.closing(sqlite3.connect(path / "000001/catalogue.sqlite")) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def add_one_and_delete_one(store):
    with store.batch() as batch:
        corpora.add_document(batch, "other.txt", range(3))
        batch.delete_document(1)


@pytest.mark.parametrize("event", ["INSERT", "UPDATE", "DELETE"])
def test_a_trigger_of_somebody_else_that_refuses_is_told_with_what_to_do(tmp_path, event):
    path = tmp_path / "corpus"
    with corpora.create(path) as store:
        corpora.fill(store, 1)
    change(path, f"CREATE TRIGGER mine BEFORE {event} ON documents BEGIN SELECT RAISE(ABORT, 'not so'); END")
    with CorpusStore.open(path, write=True) as store:
        before = store.checksum()
        match = r"refuses what is to be written.*not so"
        with pytest.raises(CorpusError, match=match) as caught:
            add_one_and_delete_one(store)
        assert "rule or trigger" in caught.value.hint
        assert "\n" not in str(caught.value)
        assert store.checksum() == before


def test_a_database_of_somebody_else_in_the_place_of_the_catalogue_is_told_with_what_to_do(tmp_path):
    path = tmp_path / "corpus"
    corpora.create(path).close()
    (path / "000001/catalogue.sqlite").unlink()
    change(path, "CREATE TABLE photos (name)")
    for write in (False, True):
        with pytest.raises(DamagedCorpusError, match="is not a catalogue of PRECOG") as caught:
            CorpusStore.open(path, write=write)
        assert caught.value.expected == "the catalogue of a corpus"
        assert "backup" in caught.value.hint
