"""A forget that is interrupted after its commit says so, and the command that it names finishes it, with a proof."""

import contextlib
import resource
import signal
import sqlite3

import pytest
from test_damage import TEXTS, fill, reopened

from precog.errors import BusyError, CorpusError, InputError, StorageError
from precog.memory import forget as forget_room
from precog.memory.damage import damage_of
from precog.memory.forget import forget
from precog.memory.recall import Recaller
from precog.memory.selection import Selection
from precog.store import Needles, search_folder
from precog.store.database import Database
from precog.store.memory import MemoryStore

GONE = TEXTS[2]


class Killed(BaseException):
    """Stands for a signal."""


@pytest.fixture
def folder(tmp_path, backbone):
    return fill(tmp_path / "m", backbone, TEXTS)


def run(folder, backbone, selection=None, *, proof=True):
    """As the command does it."""
    selection = selection or Selection(ids=(3,))
    with reopened(folder, backbone) as memory:
        found = selection.find(memory.store, Recaller(memory.store, memory.encoder))
        return forget(memory, found, damaged=selection.damaged(memory.store), proof=proof)


def raising(error):
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def marks_of(folder):
    with MemoryStore.open(folder) as store:
        hashes = [store.read_state(3, position).content_hash for position in store.states_of(3)]
        return [store.deposit(3).info.uid, *hashes]


POINTS = [(Database, "scrub"), (forget_room, "_without_index"), (forget_room, "search_folder")]


@pytest.mark.parametrize(("where", "point"), POINTS, ids=["scrub", "index", "search"])
@pytest.mark.parametrize(
    "error", [StorageError("the disk is full"), BusyError("a reader holds it"), Killed()], ids=repr
)
@pytest.mark.parametrize("again", [Selection(ids=(3,)), Selection(everything=True)], ids=["by its id", "all"])
def test_interrupted_anywhere_it_is_finished_and_proved_by_the_next(
    folder, backbone, monkeypatch, where, point, error, again
):
    marks = marks_of(folder)
    with monkeypatch.context() as patch:
        patch.setattr(where, point, raising(error))
        with pytest.raises(type(error)) as caught:
            run(folder, backbone)
    if not isinstance(error, Killed):
        assert str(caught.value).startswith("forgotten")
        assert "but not yet " + ("searched for" if point == "search_folder" else "overwritten") in str(caught.value)
        assert "precog memory forget --id 3 --proof" in caught.value.hint
    with MemoryStore.open(folder) as store:
        assert store.deposit(3) is None
        (line,) = damage_of(store).lines
        assert "not known to be overwritten: deposit 3; run `precog memory forget --id 3 --proof" in line
        assert store.damaged_ids() == []
    report = run(folder, backbone, again)
    assert (report.hits, report.is_complete, report.damage.lines) == (0, True, ())
    assert 3 in report.ids
    assert report.searched_for >= len(marks)
    assert any("what deposit 3 said" in name for name in report.not_searched)
    assert search_folder(folder, Needles([GONE.encode(), *marks, *(mark.hex().encode() for mark in marks)])).hits == 0
    with pytest.raises(InputError, match="no such deposit"):
        run(folder, backbone)


def test_the_search_that_is_done_again_finds_what_is_left(folder, backbone, monkeypatch):
    marks = marks_of(folder)
    with monkeypatch.context() as patch:
        patch.setattr(forget_room, "search_folder", raising(StorageError("the disk is gone")))
        with pytest.raises(StorageError):
            run(folder, backbone)
    for mark in marks:
        (folder / "stray").write_bytes(b"odd" + mark)
        report = run(folder, backbone)
        assert (report.hits, report.is_complete) == (1, False)
        assert report.hit_files == [str(folder / "stray")]
        assert "not known to be overwritten" in " ".join(report.damage.lines)  # it may be searched for once more
    (folder / "stray").unlink()
    assert run(folder, backbone).is_complete


def test_the_next_forget_of_another_finishes_it_with_or_without_a_proof(folder, backbone, monkeypatch):
    for number, proof in ((3, True), (4, False)):
        with monkeypatch.context() as patch:
            patch.setattr(Database, "scrub", raising(StorageError("the disk is full")))
            with pytest.raises(StorageError):
                run(folder, backbone, Selection(ids=(number,)))
        assert run(folder, backbone, Selection(ids=(number - 2,)), proof=proof).is_complete
        with MemoryStore.open(folder) as store:
            assert store.unfinished() == {}


def test_a_disk_that_fills_while_it_is_overwritten(folder, backbone, monkeypatch):
    """As a quota does it: no file may grow beyond a size, first by less than the catalogue needs."""
    size = (folder / "000001/catalogue.sqlite").stat().st_size
    refused: list[str] = []
    first: list[str] = []  # what the run said that forgot it
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        for limit in range(size // 4, 4 * size, size // 4):
            with MemoryStore.open(folder) as store:
                was_there = store.deposit(3) is not None
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
            try:
                report = run(folder, backbone)
            except (StorageError, CorpusError) as error:
                refused.append(str(error))
                continue
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, before)
                with MemoryStore.open(folder) as store:
                    is_gone_now = was_there and store.deposit(3) is None
                first += refused[-1:] if is_gone_now else []
            break
    finally:
        signal.signal(signal.SIGXFSZ, handler)
    assert refused
    assert all(line.startswith("forgotten") for line in first)
    assert len(first) == 1
    if report.index_left or "index is made anew" in " ".join(report.damage.lines):
        report = run(folder, backbone, Selection(ids=(1,)))
    assert (report.hits, report.is_complete) == (0, True)
    assert search_folder(folder, Needles([GONE.encode()])).hits == 0


def test_what_is_noted_says_nothing_and_damage_to_it_is_told(folder, backbone, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(forget_room, "search_folder", raising(StorageError("the disk is gone")))
        with pytest.raises(StorageError):
            run(folder, backbone)
    assert search_folder(folder, Needles([GONE.encode(), GONE[:16].encode()])).hits == 0
    with contextlib.closing(sqlite3.connect(folder / "000001/catalogue.sqlite")) as connection:
        connection.execute("UPDATE meta SET value = '{' || value WHERE key = 'forgetting'")
        connection.commit()
    with MemoryStore.open(folder) as store:
        assert "what is being forgotten cannot be read" in " ".join(damage_of(store).lines)
    with pytest.raises(CorpusError, match="what is being forgotten cannot be read"):
        run(folder, backbone)
