"""Which format a source is in: by its first bytes where they tell, else by the ending of its name."""

import re
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

Family = Literal["plain", "markdown", "html", "pdf", "docx", "csv", "tsv", "json", "jsonl", "code", "foreign"]


@dataclass(frozen=True, slots=True)
class Format:
    """A family of formats (one loader) and the media type; `explanation` says why a foreign one is not read."""

    family: Family
    media_type: str
    explanation: str = ""


_PLAIN = Format("plain", "text/plain")
_PDF = Format("pdf", "application/pdf")
_DOCX = Format("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document")
_HTML = Format("html", "text/html")
_JSON = Format("json", "application/json")
_JSONL = Format("jsonl", "application/x-ndjson")

_BY_ENDING = {
    **dict.fromkeys((".txt", ".text", ".log", ".rst", ".adoc", ".org", ".srt", ".vtt"), _PLAIN),
    **dict.fromkeys((".md", ".markdown", ".mdown", ".mkd"), Format("markdown", "text/markdown")),
    **dict.fromkeys((".html", ".htm", ".xhtml"), _HTML),
    ".pdf": _PDF,
    ".docx": _DOCX,
    ".csv": Format("csv", "text/csv"),
    **dict.fromkeys((".tsv", ".tab"), Format("tsv", "text/tab-separated-values")),
    ".json": _JSON,
    **dict.fromkeys((".jsonl", ".ndjson"), _JSONL),
}
_LANGUAGES = {
    "python": ".py .pyi .pyx",
    "javascript": ".js .mjs .cjs .jsx",
    "typescript": ".ts .mts .cts .tsx",
    "c": ".c .h",
    "c++": ".cc .cpp .cxx .hh .hpp .hxx .cu .cuh",
    "csharp": ".cs",
    "java": ".java",
    "kotlin": ".kt .kts",
    "scala": ".scala",
    "go": ".go",
    "rust": ".rs",
    "swift": ".swift",
    "ruby": ".rb",
    "php": ".php",
    "perl": ".pl .pm",
    "lua": ".lua",
    "julia": ".jl",
    "r": ".r",
    "haskell": ".hs",
    "elixir": ".ex .exs",
    "shell": ".sh .bash .zsh",
    "sql": ".sql",
    "zig": ".zig",
    "dart": ".dart",
}
_BY_ENDING |= {
    ending: Format("code", f"text/x-{language}")
    for language, endings in _LANGUAGES.items()
    for ending in endings.split()
}
_JSON_START = re.compile(rb'\[?\s*\{\s*"')
_SIGNATURES = (
    (b"\x89PNG", "an image"),
    (b"\xff\xd8\xff", "an image"),
    (b"GIF8", "an image"),
    (b"\x1f\x8b", "a compressed archive"),
    (b"BZh", "a compressed archive"),
    (b"\xfd7zXZ", "a compressed archive"),
    (b"\x28\xb5\x2f\xfd", "a compressed archive"),
    (b"7z\xbc\xaf", "a compressed archive"),
    (b"PK\x03\x04", "an archive or an office file of a format that is not read"),
    (b"\x7fELF", "a program"),
    (b"MZ\x90", "a program"),
    (b"SQLite format 3", "a database"),
    (b"{\\rtf", "a rich-text file"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an encrypted or an old binary office file"),
)


def ending_of(name: str) -> str:
    """The lower-case ending of a file name, with its dot."""
    return PurePath(name).suffix.lower()


def is_known_ending(name: str) -> bool:
    """Whether files of this name are expected to be readable."""
    return ending_of(name) in _BY_ENDING


def recognise(name: str, head: bytes) -> Format:
    """The format of a source from its name and its first bytes (1 KB or more, or all of it).

    A file that carries another format's signature is read as that format, whatever its name says.
    """
    if b"%PDF-" in head[:1024]:
        return _PDF
    by_ending = _BY_ENDING.get(ending_of(name))
    if head.startswith(b"PK\x03\x04") and (by_ending is _DOCX or (b"word/" in head and b"[Content_Types]" in head)):
        return _DOCX
    if by_ending in (_DOCX, _PDF):
        return by_ending
    for signature, what in _SIGNATURES:
        if head.startswith(signature):
            return Format("foreign", "application/octet-stream", what)
    if by_ending is not None:
        return by_ending
    start = head[:1024].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith((b"<!doctype html", b"<html")):
        return _HTML
    if _JSON_START.match(start):
        first_line = head.lstrip().split(b"\n", 1)[0].strip()
        return _JSONL if first_line.startswith(b"{") and first_line.endswith(b"}") else _JSON
    return _PLAIN
