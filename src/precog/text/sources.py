"""What the user named ▸ the files to read: folders are walked, globs expanded, standard input kept for rereading.

Nothing is read here but names, links and `.gitignore` files. What is passed over is counted by reason.
"""

import errno
import glob
import os
import stat
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from precog.config import expanded
from precog.errors import DocumentError, InputError
from precog.text.encoding import is_binary
from precog.text.formats import is_known_ending, recognise
from precog.text.ignored import IgnoreRules
from precog.text.spool import Spool, spool_of_pipe, spool_of_stdin

_HEAD_BYTES = 1 << 13
_MOST_NAMED = 1_000
_ENVIRONMENTS = frozenset({"node_modules", "bower_components", "site-packages", "__pycache__", "__pypackages__"})
_ENVIRONMENT_MARKS = ("pyvenv.cfg", "conda-meta")
_KEY_NAMES = frozenset(
    {"id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", ".netrc", "_netrc", ".pgpass", ".htpasswd", ".git-credentials"}
    | {".npmrc", ".pypirc", "credentials.json", "service-account.json", "secrets.json", "secrets.yaml", "secrets.yml"}
)
_KEY_ENDINGS = (".pem", ".key", ".p12", ".pfx", ".p8", ".jks", ".keystore", ".kdbx", ".ppk", ".gpg", ".env")


@dataclass(frozen=True, slots=True)
class Source:
    r"""One thing to read.

    Attributes:
        name: printable identity: the absolute path with undecodable and control characters as ``\xNN``, or "stdin".
        path: where it is; None for a spooled stream.
        spool: the copy of a stream.
    """

    name: str
    path: Path | None = None
    spool: Spool | None = None

    def open(self) -> BinaryIO:
        """Its bytes from the beginning.

        Raises:
            DocumentError: it cannot be opened.
        """
        if self.spool is not None:
            return self.spool.open()
        assert self.path is not None
        try:
            return self.path.open("rb")
        except OSError as error:
            raise DocumentError("it cannot be opened", given=self.name, hint=error.strerror) from error

    def version(self, stream: BinaryIO) -> tuple[int, int, int]:
        """What tells that its bytes are others now: number, size and time of the opened file; zeros for a copy."""
        if self.path is None:
            return 0, 0, 0
        facts = os.fstat(stream.fileno())
        return facts.st_ino, facts.st_size, facts.st_mtime_ns


@dataclass(frozen=True, slots=True)
class SourceList:
    """The sources in a fixed order, and what was passed over.

    Attributes:
        sources: what is to be read.
        skipped: how many files and folders were passed over, by reason.
        passed_over: printable name and reason of the first 1,000 of them.
    """

    sources: tuple[Source, ...]
    skipped: Mapping[str, int]
    passed_over: tuple[tuple[str, str], ...] = ()


class _Skipped:
    """Counts what is passed over and keeps the first names."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.names: list[tuple[str, str]] = []

    def note(self, path: Path, reason: str) -> None:
        self.counts[reason] += 1
        if len(self.names) < _MOST_NAMED:
            self.names.append((printable_path(path), reason))


def printable_path(path: Path) -> str:
    r"""The absolute path as printable text, one to one: backslashes doubled, what cannot be printed as ``\xNN``."""
    raw = os.fsencode(os.path.abspath(path)).replace(b"\\", b"\\\\")
    text = raw.decode("utf-8", "backslashreplace")
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8")) for char in text
    )


def file_source(path: Path) -> Source:
    """One file, whatever its name.

    Raises:
        InputError: it is missing, a folder or a device, or a pipe that nobody writes into.
        StorageError: there is no room for a copy of what a pipe says.
    """
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise InputError("there is no such file", given=printable_path(path), hint=error.strerror) from error
    if stat.S_ISDIR(mode):
        raise InputError("it is a folder, not a file", given=printable_path(path))
    if not stat.S_ISREG(mode):
        return Source(printable_path(path), spool=spool_of_pipe(path, mode, printable_path(path)))
    return Source(printable_path(path), path)


def find_sources(
    arguments: Sequence[str | Path], *, include_all: bool = False, stdin: BinaryIO | None = None
) -> SourceList:
    """Every file that the arguments name: files, folders (walked), globs, and "-" for standard input.

    Inside a folder these are passed over and counted: hidden files, environments (``node_modules``, a virtual
    environment …), key and password files, what ``.gitignore`` files name, links, and files of a format that is not
    read (pictures, archives, programs).

    Args:
        arguments: what the user wrote.
        include_all: read also what is hidden, ignored, an environment's or a key; links are never followed out of
            the folder that was named.
        stdin: read for "-"; default the process's own.

    Raises:
        UsageError: an argument is empty, or the home folder of nobody.
        InputError: an argument names nothing, or nothing that can be read.
        StorageError: there is no room for a copy of standard input.
    """
    found: dict[str, Source] = {}
    skipped = _Skipped()
    for argument in arguments:
        for source in _expand(argument, include_all, skipped, stdin):
            found.setdefault(source.name, source)
    return SourceList(tuple(found.values()), dict(sorted(skipped.counts.items())), tuple(skipped.names))


def _expand(argument: str | Path, include_all: bool, skipped: _Skipped, stdin: BinaryIO | None) -> Iterator[Source]:
    if argument == "-":
        yield Source("stdin", spool=spool_of_stdin(stdin))
        return
    path = expanded(argument)
    if os.path.isdir(path):
        yield from _walk(path, include_all, skipped)
    elif os.path.lexists(path):
        if _is_key(path.name) and not include_all:
            skipped.note(path, "key or password file")
        else:
            yield file_source(path)
    elif glob.has_magic(str(path)):
        yield from _expand_glob(path, include_all, skipped)
    else:
        try:
            os.lstat(path)
        except OSError as error:
            hint = None if error.errno == errno.ENOENT else error.strerror
            raise InputError("there is no such file or folder", given=printable_path(path), hint=hint) from error


def _expand_glob(pattern: Path, include_all: bool, skipped: _Skipped) -> Iterator[Source]:
    fixed = [part for part, after in zip(pattern.parts, _magic_from(pattern.parts), strict=True) if not after]
    root = Path(*fixed) if fixed else Path()
    matches = [Path(match) for match in sorted(glob.glob(str(pattern), recursive=True, include_hidden=include_all))]
    if not matches:
        raise InputError("no file matches", given=str(pattern))
    rules = IgnoreRules(root)
    folders: list[Path] = []
    for match in matches:
        if any(folder in match.parents for folder in folders) or match == root:
            continue
        if os.path.isdir(match) and not os.path.islink(match) and "**" in pattern.parts:
            continue  # its files match by themselves
        reason = _reason_along(root, match, rules, include_all)
        if reason:
            skipped.note(match, reason)
        elif os.path.isdir(match):
            folders.append(match)
            yield from _walk(match, include_all, skipped)
        else:
            yield Source(printable_path(match), match)


def _magic_from(parts: Sequence[str]) -> Iterator[bool]:
    seen = False
    for part in parts:
        seen = seen or glob.has_magic(part)
        yield seen


def _reason_along(root: Path, path: Path, rules: IgnoreRules, include_all: bool) -> str:
    """Why a file, or one of the folders between it and the root, is passed over; "" if it is not."""
    steps = path.relative_to(root).parts
    real_root = os.path.realpath(root)
    for depth in range(1, len(steps) + 1):
        reason = _reason(root.joinpath(*steps[:depth]), real_root, rules, include_all)
        if reason:
            return reason
    return ""


def _walk(root: Path, include_all: bool, skipped: _Skipped) -> Iterator[Source]:
    rules = IgnoreRules(root)
    real_root = os.path.realpath(root)
    pending = [root]
    while pending:
        folder = pending.pop()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: os.fsencode(entry.name))
        except OSError:
            skipped.note(folder, "folder that cannot be read")
            continue
        below = []
        for entry in entries:
            path = Path(entry.path)
            reason = _reason(path, real_root, rules, include_all)
            if reason:
                skipped.note(path, reason)
            elif entry.is_dir(follow_symlinks=False):
                below.append(path)
            elif unread := _unreadable(path):
                skipped.note(path, unread)
            else:
                yield Source(printable_path(path), path)
        pending.extend(reversed(below))


def _reason(path: Path, real_root: str, rules: IgnoreRules, include_all: bool) -> str:
    name = path.name
    try:
        mode = path.lstat().st_mode
    except OSError:
        return "file that cannot be read"
    if stat.S_ISLNK(mode):
        target = os.path.realpath(path)
        if not os.path.exists(target):
            return "broken link"
        inside = os.path.commonpath([real_root, target]) == real_root
        return "link inside the folder" if inside else "link leaving the folder"
    is_folder = stat.S_ISDIR(mode)
    if not is_folder and not stat.S_ISREG(mode):
        return "not a regular file"
    if include_all:
        return ""
    if not is_folder and _is_key(name):
        return "key or password file"
    if is_folder and (name in _ENVIRONMENTS or any(os.path.exists(path / mark) for mark in _ENVIRONMENT_MARKS)):
        return "environment"
    if name.startswith((".", "~$")):  # "~$" opens the lock files of office programs
        return "hidden"
    if rules.ignores(path, is_folder):
        return "named by .gitignore"
    return ""


def _unreadable(path: Path) -> str:
    """Why a file of no known ending is no document; "" if it may be one."""
    if is_known_ending(path.name):
        return ""
    try:
        with path.open("rb") as stream:
            head = stream.read(_HEAD_BYTES)
    except OSError:
        return ""  # its failure is then reported by name
    if recognise(path.name, head).family == "foreign":
        return "format that is not read"
    return "binary file" if is_binary(head) else ""


def _is_key(name: str) -> bool:
    lower = name.lower()
    return lower in _KEY_NAMES or lower.endswith(_KEY_ENDINGS) or lower.startswith(".env.")
