"""The format of a data folder, and upgrades that a kill may interrupt anywhere."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from precog.errors import BusyError, CorpusError, StorageError
from precog.server import data_folder
from precog.server.data_folder import MIGRATIONS, format_of
from precog.store import CorpusStore

NEWEST = len(MIGRATIONS)


@pytest.fixture
def old(tmp_path: Path, repository: Path) -> Path:
    """A folder of the time before there were formats."""
    shutil.copytree(repository / "tests" / "server" / "golden" / "data-v0", tmp_path / "data")
    return tmp_path / "data"


def corpus_of(folder: Path) -> Path:
    (found,) = folder.glob("users/*/corpora/*")
    return found


def checksum(folder: Path) -> str:
    with CorpusStore.open(corpus_of(folder)) as store:
        return store.checksum()


def backups(folder: Path) -> list[Path]:
    return sorted(folder.parent.glob("data.backup-*"))


def test_a_new_folder_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    with data_folder.data_folder(tmp_path / "far" / "data"):
        assert format_of(tmp_path / "far" / "data") == NEWEST
        for path in (tmp_path / "far" / "data").rglob("*"):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "far" / "data").stat().st_mode) == 0o700
    with data_folder.data_folder(tmp_path / "far" / "data"):  # and again
        pass
    assert [path.name for path in (tmp_path / "far").iterdir()] == ["data"]


def test_one_server_at_a_time(tmp_path: Path) -> None:
    with (
        data_folder.data_folder(tmp_path / "data"),
        pytest.raises(BusyError, match="another server uses this data folder"),
    ):
        data_folder.data_folder(tmp_path / "data").__enter__()
    with data_folder.data_folder(tmp_path / "data"):
        pass


def test_an_old_folder_is_upgraded_and_kept_beside(old: Path) -> None:
    wanted, said = checksum(old), []
    with data_folder.data_folder(old, say=said.append):
        assert format_of(old) == NEWEST
        assert checksum(old) == wanted
        with pytest.raises(BusyError):
            data_folder.data_folder(old).__enter__()
    (backup,) = backups(old)
    assert backup.name.startswith("data.backup-0-")
    assert checksum(backup) == wanted
    assert format_of(backup) == 0
    assert str(backup) in said[-1]
    with CorpusStore.open(corpus_of(old), write=True):
        pass
    with data_folder.data_folder(old, say=said.append):
        assert len(backups(old)) == 1


def test_migrations_run_in_order_on_a_copy(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = []

    def step(number: int) -> data_folder.Migration:
        def migrate(folder: Path) -> None:
            assert folder != old
            assert folder.name == "data.upgraded"
            steps.append(number)
            (folder / f"step{number}").touch()

        return migrate

    with data_folder.data_folder(old):
        pass
    monkeypatch.setattr(data_folder, "MIGRATIONS", (*MIGRATIONS, step(NEWEST), step(NEWEST + 1)))
    with data_folder.data_folder(old):
        assert format_of(old) == NEWEST + 2
    assert steps == [NEWEST, NEWEST + 1]
    assert (old / f"step{NEWEST}").exists()
    assert not (backups(old)[-1] / f"step{NEWEST}").exists()


def test_a_migration_that_fails_changes_nothing(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(folder: Path) -> None:
        (corpus_of(folder) / "precog.json").unlink()
        raise OSError(28, "No space left on device")

    wanted = checksum(old)
    monkeypatch.setattr(data_folder, "MIGRATIONS", (fail,))
    with pytest.raises(StorageError, match="full"):
        data_folder.data_folder(old).__enter__()
    assert checksum(old) == wanted
    assert [path.name for path in old.parent.iterdir()] == ["data"]


def test_no_room_is_said_before_anything_is_done(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(old)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=10))
    with pytest.raises(StorageError, match="no room to upgrade"):
        data_folder.data_folder(old).__enter__()
    assert [path.name for path in old.parent.iterdir()] == ["data"]


_KILLED = """
import os, sys
from pathlib import Path
from precog.server import data_folder

left = int(sys.argv[2])

def watch(event, arguments):
    global left
    names_it = event == "os.rename" or ".upgraded" in str(arguments)
    if event in ("open", "os.rename", "os.mkdir", "os.chmod") and names_it:
        left -= 1
        if left == 0:
            os._exit(9)

sys.addaudithook(watch)
with data_folder.data_folder(Path(sys.argv[1])):
    pass
"""


@pytest.mark.slow
def test_a_kill_at_any_moment_leaves_the_old_or_the_new(old: Path) -> None:
    wanted, point, states = checksum(old), 0, set()
    while True:
        point += 1
        for path in old.parent.iterdir():
            if path != old:
                shutil.rmtree(path)
        shutil.rmtree(old)
        shutil.copytree(Path(__file__).parent / "golden" / "data-v0", old)
        run = subprocess.run([sys.executable, "-c", _KILLED, str(old), str(point)], check=False, env=os.environ)
        states.add((old.exists(), bool(backups(old)), run.returncode))
        with data_folder.data_folder(old):
            assert format_of(old) == NEWEST
            assert checksum(old) == wanted
        assert len(backups(old)) == 1
        assert sorted(path.name for path in old.parent.iterdir()) == ["data", backups(old)[0].name]
        if run.returncode == 0:
            break
        assert run.returncode == 9
    assert point > 10
    assert {(True, False, 9), (False, True, 9), (True, True, 0)} <= states


def test_a_newer_folder_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "format.json").write_text('{"data": "precog", "format": 99}')
    with pytest.raises(CorpusError) as refused:
        data_folder.data_folder(tmp_path / "data").__enter__()
    assert str(refused.value) == (
        f"the data folder has a newer format; given: 99; expected: ≤ {NEWEST}; install a newer version of PRECOG"
    )


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"data": "precog", "format": "x"}', '{"data": 1, "format": 1}'])
def test_a_format_that_cannot_be_read_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "format.json").write_text(text)
    with pytest.raises(CorpusError, match="cannot be read"):
        data_folder.data_folder(tmp_path / "data").__enter__()


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "holiday.jpg").touch()
    with pytest.raises(CorpusError, match=r"no data folder of a server; given: .*holiday\.jpg"):
        data_folder.data_folder(tmp_path / "data").__enter__()
