"""Everything that a server keeps, in one file, taken while it serves: corpora, memories, responses, keys.

Each folder and each file is as it was at one moment after the start; what was acknowledged before the start is in it,
and what was forgotten before the start is not.
"""

import datetime
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from precog.errors import MissingError, StorageError, UsageError
from precog.memory.place import memory_folder
from precog.server import data_folder
from precog.server.archive import ArchiveWriter
from precog.server.tenant import folder_name
from precog.store.database_copy import copy_database, is_database, is_log_of_database
from precog.store.failure import guarded
from precog.store.folder import LOCK
from precog.store.folder_copy import FolderCopy
from precog.writing import output_file, output_target

_LEFT_OUT = (".tmp", ".lock", ".restore")
_BEING_REMOVED = "removed"
_JOBS = "jobs"
_GZIP = (".tar.gz", ".tgz")
_ZSTANDARD = (".tar.zst", ".tzst")


@dataclass
class Backup:
    """What went into a backup.

    Attributes:
        file: the backup.
        num_corpora: corpora in it.
        num_memories: memories in it.
        num_files: other files in it.
        num_bytes: bytes of all that, before compression.
        damaged: records that are not what was written, and were left out; a line each.
        skipped: what is not a file of the program, such as links.
    """

    file: Path
    num_corpora: int = 0
    num_memories: int = 0
    num_files: int = 0
    num_bytes: int = 0
    damaged: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, object]:
        """As the command line prints it."""
        return {
            "file": str(self.file),
            "corpora": self.num_corpora,
            "memories": self.num_memories,
            "files": self.num_files,
            "bytes": self.num_bytes,
            "file_bytes": self.file.stat().st_size,
            "damaged": self.damaged,
            "skipped": self.skipped,
        }


def back_up(
    out: Path,
    *,
    data: Path,
    home: Path,
    user: str | None = None,
    on_bytes: Callable[[int, int], None] = lambda done, total: None,
) -> Backup:
    """Writes a backup, which stands under its name when it is complete.

    Args:
        out: the file; compressed with gzip where its name ends in .tar.gz or .tgz, with Zstandard where in .tar.zst.
        data: data folder of the server; there or not.
        home: home folder of the program, below which memories are.
        user: whose things alone are wanted, keys left out; None for everything.
        on_bytes: told how much is done, and of about how much.

    Raises:
        MissingError: there is nothing to back up.
        UsageError: the name ends in something else, or there is such a file.
        StorageError: the disk refuses, or the file would stand in what is backed up.
        CorpusError: something was made by a newer version.
        DamagedCorpusError: a catalogue is damaged.
    """
    target = output_target(out, "backup")
    if not target.name.endswith((*_GZIP, *_ZSTANDARD)):
        raise UsageError("which kind of file?", given=out, expected="a name that ends in .tar.zst or .tar.gz")
    if target.exists():
        raise UsageError("there is such a file already", given=out, hint="name another, or remove it first")
    memories = home / "memory"
    for folder in (data, memories):
        if target.is_relative_to(os.path.realpath(folder)):
            raise StorageError("a backup cannot stand in what it is of", given=out, hint="name a file elsewhere")
    places = [("data", data, data), ("home", home, memories)]
    if user is not None:
        places = [("data", data, data / "users" / folder_name(user)), ("home", home, memory_folder(home, user))]
    if not any(folder.is_dir() for _, _, folder in places):
        raise MissingError("there is nothing to back up", given=" and ".join(str(folder) for _, _, folder in places))
    report = Backup(out)
    with (
        output_file(target, "backup") as file,
        tempfile.TemporaryDirectory(prefix=f".{target.name[:100]}.", dir=target.parent) as stage,
        ArchiveWriter(file, is_gzip=target.name.endswith(_GZIP)) as archive,
    ):
        total = sum(_size_of(folder) for _, _, folder in places)
        run = _Run(archive, Path(stage), report, lambda done: on_bytes(min(done, total), total))
        for root, base, folder in places:
            if folder.is_dir():
                run.walk(root, base, folder)
        archive.close(
            {
                "made_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
                "made_by": version("precog-ssm"),
                "is_whole": user is None,
                "data_format": data_folder.format_of(data) if data.is_dir() else None,
                "folders": run.folders,
                "files": run.files,
            }
        )
    return report


def _size_of(folder: Path) -> int:
    found = 0
    for inside, _, names in os.walk(folder):
        for name in names:
            try:
                found += os.lstat(os.path.join(inside, name)).st_size
            except OSError:  # gone again
                continue
    return found


class _Run:
    def __init__(self, archive: ArchiveWriter, stage: Path, report: Backup, on_bytes: Callable[[int], None]) -> None:
        self._archive, self._stage, self._report, self._on_bytes = archive, stage, report, on_bytes
        self._number = 0
        self.folders: list[dict[str, object]] = []
        self.files: list[dict[str, object]] = []

    def walk(self, root: str, base: Path, folder: Path) -> None:
        """Adds everything below a folder: folders with a marker by their own rules, files as they are."""
        copying = FolderCopy.of(folder)
        while copying is not None:
            if self._add_folder(copying, root, folder.relative_to(base)):
                return
            copying = FolderCopy.of(folder)
        if folder.parent.name in ("corpora", "memory"):
            return  # being made, or being removed
        for path in _listed(folder):
            if path.is_symlink() or not (path.is_dir() or path.is_file()):
                if os.path.lexists(path):
                    self._report.skipped.append(str(path.relative_to(base)))
            elif path.name == LOCK or path.name.endswith(_LEFT_OUT) or is_log_of_database(path):
                continue
            elif path.is_dir() and path.name != _BEING_REMOVED:
                self.walk(root, base, path)
            elif path.is_file():
                self._add_file(path, root, path.relative_to(base))

    def _add_folder(self, copying: FolderCopy, root: str, path: Path) -> bool:
        name, staged = self._next(root)
        for piece in copying.pieces(staged):
            self._archive.add(f"{name}/segments/{piece.segment:06d}.seg@{piece.offset}", piece.data)
            self._count(len(piece.data))
        if copying.is_lost:
            return False
        self._count(self._archive.add_file(f"{name}/catalogue.sqlite", staged))
        staged.unlink()
        self.folders.append(
            {
                "entry": name,
                "path": list(path.parts),
                "kind": copying.kind,
                "current": copying.current,
                "segments": {f"{number:06d}.seg": size for number, size in copying.segment_bytes.items()},
                "dropped": {f"{number:06d}.seg": places for number, places in copying.dropped.items()},
            }
        )
        self._report.num_corpora += copying.kind == "corpus"
        self._report.num_memories += copying.kind == "memory"
        self._report.damaged += [f"{path}: {line}" for line in copying.damaged]
        return True

    def _add_file(self, path: Path, root: str, relative: Path) -> None:
        name, staged = self._next(root)
        with guarded(path):
            try:
                if is_database(path):
                    copy_database(path, staged)
                else:
                    shutil.copyfile(path, staged, follow_symlinks=False)
            except FileNotFoundError:  # removed since it was listed
                return
            except StorageError:
                if path.exists():
                    raise
                return
        self._count(self._archive.add_file(name, staged))
        staged.unlink()
        self.files.append({"entry": name, "path": list(relative.parts)})
        self._report.num_files += 1

    def _next(self, root: str) -> tuple[str, Path]:
        self._number += 1
        return f"{root}/{self._number:04d}", self._stage / f"{self._number:04d}"

    def _count(self, num_bytes: int) -> None:
        self._report.num_bytes += num_bytes
        self._on_bytes(self._report.num_bytes)


def _listed(folder: Path) -> Iterator[Path]:
    """Jobs come first: what is ingested meanwhile is then among their uploads, or in the corpus, or both."""
    with guarded(folder):
        try:
            yield from sorted(folder.iterdir(), key=lambda path: (path.name != _JOBS, path.name))
        except FileNotFoundError:
            return
