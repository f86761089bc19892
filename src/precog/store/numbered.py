"""A numbered folder of a corpus or memory: which of its files are ours, what its catalogue says, and deleting it.

Only what is provably ours is ever deleted: files of known names, in a folder whose catalogue says that it is a copy of
the one beside it, or which holds nothing at all.
"""

import os
import re
import stat
from functools import cached_property
from pathlib import Path

from precog.store.kind import CORPUS, FolderKind
from precog.store.summary import CatalogueSummary, summary_of

CATALOGUE = "catalogue.sqlite"
SEGMENTS = "segments"
INDEX_FILES = ("dense.index", "lexical.index")
_TEMPORARY = tuple(f"{name}.tmp" for name in INDEX_FILES)
_LOGS = tuple(CATALOGUE + suffix for suffix in ("-wal", "-shm", "-journal"))
_FILES = {*INDEX_FILES, *_TEMPORARY, *_LOGS, CATALOGUE}
SEGMENT_NAME = re.compile(r"[0-9]{6,}\.seg")


def is_known_name(name: str) -> bool:
    """Whether the program gives a file of a numbered folder this name."""
    return name in _FILES


def is_regular(path: Path) -> bool:
    """Whether it is a file and not a link to one."""
    return stat.S_ISREG(path.lstat().st_mode)


def is_regular_or_gone(path: Path) -> bool:
    """The same, but somebody who is making the folder may have removed it since it was listed."""
    try:
        return is_regular(path)
    except FileNotFoundError:
        return True


def remove_file(path: Path) -> None:
    """Deletes a file; a folder or a link of that name is nobody's business."""
    if os.path.lexists(path) and is_regular(path):
        path.unlink()


class NumberedFolder:
    """One numbered folder; what is read of it is read once."""

    def __init__(self, path: Path, kind: FolderKind = CORPUS) -> None:
        self.path = path
        self._kind = kind

    @cached_property
    def _summary(self) -> CatalogueSummary | None:
        return summary_of(self.path / CATALOGUE, self._kind)

    def strangers(self) -> list[str]:
        """Names of what PRECOG has not put there."""
        found = []
        for path in sorted(self.path.iterdir()):
            if path.name == SEGMENTS and path.is_dir() and not path.is_symlink():
                inside = sorted(path.iterdir())
                found += [f"{SEGMENTS}/{p.name}" for p in inside if not _is_segment(p)]
            elif path.name not in _FILES or not is_regular_or_gone(path):
                found.append(path.name)
        return found

    @property
    def holds_nothing(self) -> bool:
        """Whether creating it was interrupted: no content in its catalogue and no segment, or no file at all."""
        if not (self.path / CATALOGUE).exists():
            return all(path.is_dir() for path in self.path.rglob("*"))
        return self._summary is not None and self._summary.num_rows == 0 and not self._segments()

    def is_unfinished_copy_of(self, other: "NumberedFolder") -> bool:
        """Whether it was made to take the other one's place, or has not got as far as to say so."""
        if self._summary is None or other._summary is None:
            return not self.strangers() and self.holds_nothing
        if not self._summary.replaces:
            return not self._summary.folder_id and not self.strangers() and self.holds_nothing
        return self._summary.replaces == other._summary.folder_id

    def remove(self) -> None:
        """Deletes our files, the catalogue last, and the folder when nothing else is in it."""
        segments = self.path / SEGMENTS
        for path in self._segments():
            path.unlink()
        for name in (*INDEX_FILES, *_TEMPORARY, *_LOGS, CATALOGUE):
            remove_file(self.path / name)
        for folder in (segments, self.path):
            if folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir()):
                folder.rmdir()

    def remove_index(self, *, only_temporary: bool = False) -> None:
        """Deletes the index files, which can be made anew, or only what a killed writer left of them."""
        for name in _TEMPORARY if only_temporary else (*_TEMPORARY, *INDEX_FILES):
            remove_file(self.path / name)

    def _segments(self) -> list[Path]:
        folder = self.path / SEGMENTS
        if not folder.is_dir() or folder.is_symlink():
            return []
        return [path for path in folder.iterdir() if _is_segment(path)]


def _is_segment(path: Path) -> bool:
    return bool(SEGMENT_NAME.fullmatch(path.name)) and is_regular(path)
