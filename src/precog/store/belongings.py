"""What stands in the folder of a corpus or memory: the files that the program put there, links, and what is foreign."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from precog.errors import CorpusError
from precog.store.failure import looking
from precog.store.folder import LOCK
from precog.store.kind import FolderKind
from precog.store.numbered import CATALOGUE, SEGMENT_NAME, SEGMENTS, is_known_name
from precog.store.summary import summary_of
from precog.writing import MARKER

_NUMBER = re.compile("[0-9]{6}")
_TOP = (MARKER, MARKER + ".tmp", LOCK)


@dataclass(frozen=True)
class Belongings:
    """What stands below a folder; links are never followed.

    Attributes:
        files: regular files of names that the program gives, the catalogues after everything else.
        folders: the folders they stand in, inner ones first, the folder itself left out.
        links: links that stand where the program puts a file or folder.
        foreign: whatever else is there, relative to the folder.
    """

    files: tuple[Path, ...]
    folders: tuple[Path, ...]
    links: tuple[Path, ...]
    foreign: tuple[str, ...]


def belongings_of(folder: Path) -> Belongings:
    """Looks through a folder.

    Raises:
        OSError: it cannot be read.
    """
    files: list[Path] = []
    folders: list[Path] = []
    links: list[Path] = []
    foreign: list[str] = []
    pending = [(folder, 0)]
    while pending:
        inside, depth = pending.pop()
        for path in sorted(inside.iterdir()):
            is_folder = path.is_dir() and not path.is_symlink()
            if not _is_known(path.name, inside.name, depth):
                foreign.append(str(path.relative_to(folder)))
            elif path.is_symlink():
                links.append(path)
            elif is_folder and _is_folder_name(path.name, depth):
                folders.insert(0, path)
                pending.append((path, depth + 1))
            elif path.is_file() and not _is_folder_name(path.name, depth):
                files.append(path)
            else:
                foreign.append(str(path.relative_to(folder)))
    files.sort(key=lambda path: (path.name.startswith(CATALOGUE), path.name == CATALOGUE, path.name == MARKER, path))
    return Belongings(tuple(files), tuple(folders), tuple(links), tuple(sorted(foreign)))


def refuse_links(folder: Path, what: str) -> None:
    """Refuses a folder in which the place of a file or folder of the program is taken by a link to somewhere else.

    What is behind a link can be read. It is neither written nor searched, since nobody may say of such a folder that
    nothing of something is left in it: what was erased here may have another place, and other links to it.

    Raises:
        CorpusError: it is taken by one, which is named; or the folder cannot be read.
    """
    with looking(folder, what):
        links = belongings_of(folder).links if folder.is_dir() else ()
        given = f"{links[0]} → {os.readlink(links[0])}" if links else ""
    if links:
        hint = "put what it leads to in its place, then run the same command again: nothing was touched"
        message = f"a {what} is not written, and nothing in it proved forgotten, through a link"
        raise CorpusError(message, given=given, expected="a file or folder of its own", hint=hint)


def holds_catalogue(folder: Path, kind: FolderKind) -> bool:
    """Whether a numbered folder in it has a catalogue of this kind, whatever became of the marker."""
    return any(
        _NUMBER.fullmatch(path.name) and not path.is_symlink() and summary_of(path / CATALOGUE, kind) is not None
        for path in folder.iterdir()
    )


def has_other_names(path: Path) -> bool:
    """Whether the bytes of a file have another name somewhere (a hard link), and stay when this one goes."""
    return os.lstat(path).st_nlink > 1


def _is_folder_name(name: str, depth: int) -> bool:
    return bool(_NUMBER.fullmatch(name)) if depth == 0 else depth == 1 and name == SEGMENTS


def _is_known(name: str, parent: str, depth: int) -> bool:
    if depth == 0:
        return name in _TOP or _is_folder_name(name, depth)
    if depth == 1:
        return name == SEGMENTS or is_known_name(name)
    return parent == SEGMENTS and bool(SEGMENT_NAME.fullmatch(name))
