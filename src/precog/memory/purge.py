"""Everything of a user goes, and nothing of anybody else."""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from precog.errors import CorpusError, StorageError
from precog.store.belongings import Belongings, belongings_of, has_other_names, holds_catalogue
from precog.store.failure import guarded, looking
from precog.store.folder import WriterLock
from precog.store.memory import MemoryFolder
from precog.writing import MARKER, sync_folder

_BLOCK_BYTES = 1 << 20
_GONE = ".purged-"
_LEFTOVER = re.compile(rf"{re.escape(_GONE)}[0-9a-f]{{32}}(\.[0-9]+)?")
UNREACHABLE = (
    "archives that were exported",
    "backups and file-system snapshots",
    "blocks that the drive itself keeps of overwritten data",
)
"""What neither purging nor forgetting comes near."""


@dataclass(frozen=True)
class Purged:
    """What was removed.

    Attributes:
        num_files: that were removed.
        num_bytes: of them.
        num_linked: files whose bytes stay, because they have another name (a hard link) outside the memory.
        kept: what stood in the folder and is not the memory's: it stays where it was.
        leftovers: of earlier purges, what cannot be removed, and why, a line each.
    """

    num_files: int
    num_bytes: int
    num_linked: int = 0
    kept: list[str] = field(default_factory=list)
    leftovers: list[str] = field(default_factory=list)

    @property
    def outside(self) -> list[str]:
        """What stays out of reach."""
        linked = f"{self.num_linked} of the files under another name (a hard link): only this name was removed"
        return [*([linked] if self.num_linked else []), *UNREACHABLE]

    def to_json(self) -> dict[str, object]:
        """As the command line prints it."""
        told = {"files": self.num_files, "bytes": self.num_bytes, "outside": self.outside}
        return {"purged": True, **told, "kept": self.kept, "leftovers": self.leftovers}


def purge(folder: Path, *, wait_sec: float = 5.0) -> Purged:
    """Overwrite and remove a memory's folder; readers that are open keep what they have open.

    The folder loses its name first, so that a purge that was interrupted leaves no half of a memory behind; the next
    purge of any user ends it. Files that are not the memory's stay, and so do the bytes of those with another name.

    Raises:
        CorpusError: the folder is no memory, or it, or a part of it, is a link to somewhere else.
        BusyError: another process is writing to it.
        StorageError: a file cannot be removed; the memory is out of reach all the same.
    """
    _refuse_what_is_none(folder)
    lock = WriterLock(folder, wait_sec, "memory")
    try:
        with guarded(folder):
            gone = _free_name(folder)
            folder.rename(gone)
            sync_folder(folder.parent)
    finally:
        lock.release()
    done = _remove(gone)
    leftovers = []
    for left in sorted(folder.parent.iterdir()):
        if left != gone and _LEFTOVER.fullmatch(left.name):
            try:
                _remove(left)
            except StorageError as error:
                leftovers.append(str(error))
    with guarded(folder.parent):
        sync_folder(folder.parent)
    return Purged(done.num_files, done.num_bytes, done.num_linked, done.kept, leftovers)


def _refuse_what_is_none(folder: Path) -> None:
    with looking(folder, "memory"):
        if folder.is_symlink():
            raise _linked(folder)
        if not folder.is_dir():
            raise CorpusError("there is no memory here", given=folder, expected="a folder")
        found = belongings_of(folder)
        is_one = (folder / MARKER).is_file() or holds_catalogue(folder, MemoryFolder.KIND)
    if found.links:
        raise _linked(found.links[0])
    if (other := MemoryFolder(folder).other_kind) is not None:
        raise CorpusError(f"this folder is a {other}, not a memory", given=folder, expected="a memory")
    if found.foreign and not is_one:
        given = f"{folder} holds {found.foreign[0]}" + (" and more" if len(found.foreign) > 1 else "")
        hint = "remove it yourself if it is not needed: nothing was touched"
        raise CorpusError("this folder is not a memory", given=given, expected=f"a folder with {MARKER}", hint=hint)


def _linked(path: Path) -> CorpusError:
    given = f"{path} → {os.readlink(path)}"
    hint = "put the folder itself in the place of the link, then run the same command again: nothing was touched"
    return CorpusError("a memory is not purged through a link", given=given, expected="a folder", hint=hint)


def _free_name(folder: Path) -> Path:
    """The name that a memory takes on its way out; an earlier purge of the same user may not have got to its end."""
    gone, number = folder.with_name(_GONE + folder.name), 0
    while os.path.lexists(gone):
        number += 1
        gone = folder.with_name(f"{_GONE}{folder.name}.{number}")
    return gone


def _remove(folder: Path) -> Purged:
    """Overwrites and deletes what is the memory's; what is not gets the folder's own name back, if that is free.

    Raises:
        StorageError: something cannot be removed; everything else is.
    """
    try:
        if folder.is_symlink() or not folder.is_dir():
            raise StorageError(f"this is not what a purge leaves: {folder}", hint="remove it yourself")
        found = belongings_of(folder)
    except OSError as error:
        raise _unremoved(folder, error) from error
    failure: StorageError | None = None
    count = size = linked = 0
    for path in found.files:
        try:
            is_linked = has_other_names(path)
            size += path.stat().st_size if is_linked else _blank(path)
            path.unlink()
        except OSError as error:
            failure = failure or _unremoved(path, error)
            continue
        linked += is_linked
        count += 1
    if failure is not None:
        raise failure
    try:
        kept = _remove_folders(folder, found)
    except OSError as error:
        raise _unremoved(folder, error) from error
    return Purged(count, size, linked, kept)


def _remove_folders(folder: Path, found: Belongings) -> list[str]:
    for link in found.links:  # nobody's data: it was not there when the purge began
        link.unlink()
    for inner in found.folders:
        if not any(inner.iterdir()):
            inner.rmdir()
    if not any(folder.iterdir()):
        folder.rmdir()
        return []
    before = folder.with_name(folder.name.removeprefix(_GONE).split(".")[0])
    if not os.path.lexists(before):
        folder.rename(before)
        folder = before
    return [str(folder / name) for name in found.foreign]


def _unremoved(path: Path, error: OSError) -> StorageError:
    return StorageError(f"a purged memory cannot be removed: {path} ({error.strerror or error})")


def _blank(path: Path) -> int:
    size = path.stat().st_size
    with path.open("r+b", buffering=0) as file:
        for start in range(0, size, _BLOCK_BYTES):
            file.write(b"\0" * min(_BLOCK_BYTES, size - start))
        os.fsync(file.fileno())
    return size
