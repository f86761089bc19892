"""The data folder of a server: its format, the one server that uses it, and bringing an older one forward.

An upgrade works on a copy beside the folder. Only when that is complete and on the disk are two names changed: the
folder becomes ``NAME.backup-FORMAT-TIME``, and the copy takes its place. A kill before the first leaves the old folder;
one between the two leaves both beside an empty place, and the next start puts the new one there.
"""

import datetime
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from precog.errors import CorpusError, StorageError
from precog.server.keys import KEYS_FILE
from precog.server.lock import locked
from precog.store.failure import guarded, looking
from precog.store.folder import make_folder, write_atomically
from precog.writing import sync_folder

FORMAT_FILE = "format.json"
LOCK_FILE = "server.lock"
_BUSY = "another server uses this data folder"
_OURS = (".lock", ".tmp", KEYS_FILE)  # what may be there before the first start
Migration = Callable[[Path], None]


def _to_1(folder: Path) -> None:
    """Folders had no format number before; nothing else differs."""


MIGRATIONS: tuple[Migration, ...] = (_to_1,)
"""Number n makes a folder of format n one of format n + 1, in place, in a copy that nobody uses yet."""


@contextmanager
def data_folder(path: Path, *, say: Callable[[str], None] = lambda line: None) -> Iterator[None]:
    """Inside, this process alone serves the folder, which is there and of the present format.

    Args:
        path: the folder; made, mode 0700, where there is none.
        say: told, in a line each, what is upgraded and where the backup is.

    Raises:
        CorpusError: of a newer format, or no data folder.
        BusyError: another server uses it.
        StorageError: the disk refuses; the folder is as it was.
    """
    _finish_upgrade(path, say)
    with guarded(path):
        make_folder(path)
    with ExitStack() as held:
        held.enter_context(locked(path / LOCK_FILE, _BUSY))
        found = format_of(path)
        if found is None:
            mark(path)
        elif found < len(MIGRATIONS):
            _upgrade(path, found, say)
            held.enter_context(locked(path / LOCK_FILE, _BUSY))  # of the folder that is there now
        yield


def format_of(path: Path) -> int | None:
    """The format of a data folder; None where it holds nothing yet, 0 where it was made before there were formats.

    Raises:
        CorpusError: it is newer than this program, or no data folder.
    """
    file = path / FORMAT_FILE
    with looking(path, "data"):
        if not file.is_file():
            names = {entry.name for entry in path.iterdir()}
            if "users" in names:
                return 0
            if strangers := [name for name in names if not name.endswith(_OURS)]:
                expected, hint = "an empty folder, or one of a server", "name another with --data"
                given = f"{path} holds {min(strangers)}"
                raise CorpusError("this is no data folder of a server", given=given, expected=expected, hint=hint)
            return None
        try:
            found = json.loads(file.read_bytes())
            version = int(found["format"])
            is_ours = found["data"] == "precog" and version >= 0
        except (ValueError, KeyError, TypeError, RecursionError):
            is_ours = False
    if not is_ours:
        hint = f"write {_marker(len(MIGRATIONS))} into it if this version made it"
        raise CorpusError("the format of the data folder cannot be read", given=file, hint=hint)
    if version > len(MIGRATIONS):
        hint = "install a newer version of PRECOG"
        raise CorpusError(
            "the data folder has a newer format", given=version, expected=f"≤ {len(MIGRATIONS)}", hint=hint
        )
    return version


def mark(path: Path) -> None:
    """Writes down that a folder has the present format."""
    write_atomically(path / FORMAT_FILE, (_marker(len(MIGRATIONS)) + "\n").encode())


def _marker(version: int) -> str:
    return json.dumps({"data": "precog", "format": version})


def _new(path: Path) -> Path:
    return path.with_name(path.name + ".upgraded")


def _upgrade(path: Path, found: int, say: Callable[[str], None]) -> None:
    time = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
    new, backup = _new(path), path.with_name(f"{path.name}.backup-{found}-{time}")
    say(f"upgrading {path} from format {found} to {len(MIGRATIONS)}")
    with guarded(path):
        size = sum(file.stat().st_blocks * 512 for file in path.rglob("*") if file.is_file())
        if shutil.disk_usage(path.parent).free < size:
            hint = f"free {size:,} bytes: a backup stays beside the folder; nothing was changed"
            raise StorageError("there is no room to upgrade the data folder", given=path, hint=hint)
        if new.exists():
            shutil.rmtree(new)  # of an upgrade that did not come to its end
        try:
            shutil.copytree(path, new, symlinks=True, ignore=lambda inside, names: {LOCK_FILE} & set(names))
            for migrate in MIGRATIONS[found:]:
                migrate(new)
            new.chmod(0o700)
            _sync(new)
            mark(new)  # now it is complete
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        path.rename(backup)
        new.rename(path)
        sync_folder(path.parent)
    say(f"upgraded {path}; as it was before: {backup}")


def _finish_upgrade(path: Path, say: Callable[[str], None]) -> None:
    """Puts an upgraded copy in its place where a kill came between the two renamings."""
    new = _new(path)
    with guarded(path):
        if not path.exists() and (new / FORMAT_FILE).is_file():
            new.rename(path)
            sync_folder(path.parent)
            say(f"finished the upgrade of {path}, which was interrupted")


def _sync(folder: Path) -> None:
    for inside, _, names in os.walk(folder):
        for name in names:
            file = Path(inside, name)
            if file.is_symlink():
                continue
            descriptor = os.open(file, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        sync_folder(Path(inside))
