"""Documents from text files, line by line in bounded memory: ``.txt``, ``.md`` and ``.jsonl``, plain, .gz, .xz or .zst.

A text file holds paragraphs, one a line or separated by blank lines. A line ``# Title`` at the head of the file or
after a blank line opens a document; a file without one is one document. A JSONL file holds a document a line, in
``text`` (and ``title``).
"""

import gzip
import io
import json
import lzma
import os
import re
import zlib
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from precog.errors import InputError

__all__ = [
    "Document",
    "check_form",
    "data_files",
    "endings",
    "open_lines",
    "parse_documents",
    "passed_over",
    "read_documents",
    "source_name",
    "stem",
    "valid",
]

_COMPRESSIONS = (".gz", ".xz", ".zst")
_FORMS = (".txt", ".md", ".jsonl", ".json")
_MAX_DOCUMENT_CHARS = 1 << 20
_MAX_LINE_CHARS = 1 << 26
_READ = f"files ending in {', '.join(_FORMS)}, also with {', '.join(_COMPRESSIONS)}"
_TO_TEXT = "turn documents of other formats into text first"
_MOST_ENDINGS = 8


@dataclass(frozen=True, slots=True)
class Document:
    """A title and paragraphs, each one line."""

    title: str
    paragraphs: tuple[str, ...]


def stem(path: Path) -> str:
    """A file's name without the endings that say its form."""
    name = path.name
    for ending in (*_COMPRESSIONS, *_FORMS):
        name = name.removesuffix(ending)
    return name


def source_name(path: Path) -> str:
    """What the source made from a file is called: its stem without a number, a name that no folder hides.

    Bytes of the file's name that are no UTF-8 become "_".
    """
    name = re.sub(r"-\d+$", "", stem(path)).lstrip(".")
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace").replace("\ufffd", "_") or "text"


def valid(text: str) -> str:
    """A text as long as before in which halves of surrogate pairs, which JSON can spell, are U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def form(path: Path) -> str:
    """The ending that says a file's form, without its compression: ``.txt`` of ``a.txt.xz``."""
    suffixes = [s.lower() for s in path.suffixes]
    if suffixes and suffixes[-1] in _COMPRESSIONS:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def check_form(path: Path) -> None:
    """Whether a file that somebody named may hold text: by its ending, where it has one.

    Raises:
        InputError: it is of another format.
    """
    if form(path) not in ("", *_FORMS):
        raise InputError(
            "a file of a format that is not read",
            given=path,
            expected=_READ,
            hint=f"{_TO_TEXT}; a plain text of another ending needs only the name",
        )


def endings(paths: Iterable[Path]) -> dict[str, int]:
    """How many files have which ending, the most frequent first; "" stands for none, or none that says a format."""
    found = Counter("".join(_ending(path)) for path in paths)
    return dict(sorted(found.items(), key=lambda pair: (-pair[1], pair[0])))


def _ending(path: Path) -> tuple[str, str]:
    """The form and the compression of a file, each of which may be empty."""
    last = path.suffix.lower()
    says = re.fullmatch(r"\.\w{1,10}", form(path))
    return form(path) if says else "", last if last in _COMPRESSIONS else ""


def passed_over(folder: Path, foreign: Sequence[Path]) -> str:
    """A line about the files of a folder that are not read, and what to do about them."""
    files = "1 file" if len(foreign) == 1 else f"{len(foreign):,} files"
    return f"passed over {files} of other formats in {folder}: {_told(foreign)}; {_TO_TEXT}"


def _told(foreign: Sequence[Path]) -> str:
    counts = endings(foreign)
    told = [f"{count:,} {name or 'without an ending'}" for name, count in list(counts.items())[:_MOST_ENDINGS]]
    more = sum(list(counts.values())[_MOST_ENDINGS:])
    return ", ".join([*told, f"{more:,} others"] if more else told)


def data_files(folder: Path) -> tuple[list[Path], list[Path]]:
    """Every file below a folder that is read, in the order of their names, and those of other formats.

    Hidden files and folders are in neither.

    Raises:
        InputError: there is none that is read, or a folder cannot be read.
    """

    def refuse(error: OSError) -> None:
        if isinstance(error, FileNotFoundError):
            return
        raise InputError("a folder cannot be read", given=f"{error.filename}: {error.strerror}") from error

    found: list[Path] = []
    foreign: list[Path] = []
    for parent, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for path in (Path(parent, name) for name in names if not name.startswith(".")):
            if path.is_file():
                (found if form(path) in _FORMS else foreign).append(path)
    if not found:
        raise InputError(
            "the folder holds no text to train on",
            given=f"{folder}: {_told(foreign)}" if foreign else folder,
            expected=_READ,
            hint=_TO_TEXT if foreign else None,
        )
    return sorted(found), sorted(foreign)


@contextmanager
def open_lines(path: Path) -> Iterator[Iterator[str]]:
    """The lines of a UTF-8 file, decompressed as they are read.

    Raises:
        InputError: the file is missing, damaged or no UTF-8.
    """
    try:
        with path.open("rb") as raw, closing(_lines(raw, path)) as lines:
            yield lines
    except (OSError, EOFError, UnicodeError, lzma.LZMAError, zlib.error) as error:
        raise InputError(
            "a text file cannot be read",
            given=f"{path}: {str(error) or type(error).__name__}",
            expected="UTF-8 text, plain, .gz, .xz or .zst",
        ) from error


def _lines(raw: io.BufferedReader, path: Path) -> Generator[str, None, None]:
    ending = path.suffix.lower()
    stream: IO[bytes] = raw
    if ending == ".gz":
        stream = cast("IO[bytes]", gzip.GzipFile(fileobj=raw))
    elif ending == ".xz":
        stream = lzma.open(raw)  # noqa: SIM115  # closed with the file below it
    elif ending == ".zst":
        from precog.train.data.zstd import ZstdFile  # the one form that needs a package of its own

        stream = io.BufferedReader(ZstdFile(raw))
    with io.TextIOWrapper(io.BufferedReader(stream, 1 << 20), encoding="utf-8-sig") as text:  # type: ignore[type-var]
        while line := text.readline(_MAX_LINE_CHARS):
            yield line


def parse_documents(lines: Iterator[str] | Sequence[str], title: str = "") -> Iterator[Document]:
    """Documents of a text's lines; ``title`` names what stands before the first ``# Title``.

    A document of more than a million characters comes in several parts of the same title.
    """
    paragraphs: list[str] = []
    size, after_blank = 0, True
    for line in lines:
        text = line.strip()
        heads = after_blank and text.startswith("# ")
        if paragraphs and (heads or size > _MAX_DOCUMENT_CHARS):
            yield Document(title, tuple(paragraphs))
            paragraphs, size = [], 0
        if heads:
            title = text[2:].strip()
        elif text:
            paragraphs.append(text)
            size += len(text)
        after_blank = not text
    if paragraphs:
        yield Document(title, tuple(paragraphs))


def read_documents(path: Path, index: int = 0, count: int = 1) -> Iterator[Document]:
    """Every ``count``-th document of a file, beginning with the ``index``-th.

    Raises:
        InputError: the file cannot be read, or a JSON line holds no text.
    """
    with open_lines(path) as lines:
        if form(path) in (".jsonl", ".json"):
            rows = (line for line in lines if line.strip())
            for number, line in enumerate(rows):
                if number % count == index:
                    yield from _from_json(line, path)
        else:
            for number, document in enumerate(parse_documents(lines)):
                if number % count == index:
                    yield document


def _from_json(line: str, path: Path) -> Iterator[Document]:
    try:
        row = json.loads(line)
        text, title = row["text"], row.get("title", "")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(
            "a text file cannot be read",
            given=f"{path}: a line without text: {line[:60].strip()!r}",
            expected='{"text": "…", "title": "…"} on every line',
        ) from error
    if not isinstance(text, str):
        raise InputError("a text file cannot be read", given=f"{path}: text is {type(text).__name__}", expected="text")
    paragraphs = tuple(p.strip() for p in valid(text).split("\n") if p.strip())
    if paragraphs:
        yield Document(valid(str(title or "")), paragraphs)
