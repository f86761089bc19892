"""Fenced blocks and code spans of the project's Markdown."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NOT_RUN = "not run:"
_BLOCK = re.compile(
    r"(?:^[ ]*<!--\s*(?P<note>[^>]*?)\s*-->\n+)?"
    r"^(?P<indent>[ ]*)```(?P<language>\w*)[^\n`]*\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
_SPAN = re.compile(r"(?<!`)`([^`\n]+(?:\n[^`\n]+)?)`(?!`)")


def pages() -> list[Path]:
    """Every page that tells how things are; the log and the changelog tell how they were."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "weights").glob("*/*.md"))]
    return [path for path in found if path.name != "LOG.md"]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@dataclass(frozen=True)
class Block:
    """One fenced block.

    Attributes:
        page: where it stands.
        line: of its fence, from 1.
        language: as its fence says; empty where it says nothing.
        text: what is between the fences.
        note: the comment right before it.
    """

    page: Path
    line: int
    language: str
    text: str
    note: str = ""

    def __str__(self) -> str:
        return f"{name_of(self.page)}:{self.line}"

    @property
    def is_run(self) -> bool:
        return not self.note.startswith(NOT_RUN)


def blocks_of(page: Path, *languages: str) -> list[Block]:
    """The blocks of a page in some languages, in order."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _BLOCK.finditer(text):
        if match["language"] not in languages:
            continue
        line = text.count("\n", 0, match.start("language")) + 1
        inner = re.sub(rf"^{match['indent']}", "", match["text"], flags=re.MULTILINE)
        found.append(Block(page, line, match["language"], inner, match["note"] or ""))
    return found


def spans_of(page: Path) -> Iterator[str]:
    """Code between single backticks outside of blocks, on one line each."""
    text = re.sub(r"^[ ]*```.*?^[ ]*```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for match in _SPAN.finditer(text):
        yield " ".join(match[1].split())
