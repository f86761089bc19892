"""Plain text ▸ paragraphs, which blank lines part."""

from collections.abc import Iterable, Iterator

from precog.text.document import MAX_BLOCK_CHARS, Draft


def paragraphs(lines: Iterable[str]) -> Iterator[Draft]:
    """Groups lines into paragraphs; every line is kept, a blank one with the paragraph before it."""
    parts: list[str] = []
    num_chars = 0
    blank = False
    for line in lines:
        if parts and (num_chars >= MAX_BLOCK_CHARS or (blank and not line.isspace())):
            yield Draft("".join(parts))
            parts, num_chars = [], 0
        blank = line.isspace() and (blank or bool(parts)) and line.endswith("\n")
        parts.append(line)
        num_chars += len(line)
    if parts:
        yield Draft("".join(parts))
