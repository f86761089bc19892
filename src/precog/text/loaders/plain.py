"""Plain text ▸ paragraphs, which blank lines part."""

from collections.abc import Iterable, Iterator

from precog.text.document import MAX_BLOCK_CHARS, Draft


def paragraphs(lines: Iterable[str]) -> Iterator[Draft]:
    """Groups lines into paragraphs; every line is kept, a blank one with the paragraph before it."""
    parts: list[str] = []
    num_chars = 0
    has_words = blank = False
    for line in lines:
        is_blank = line.isspace()
        if num_chars >= MAX_BLOCK_CHARS or (has_words and blank and not is_blank):
            yield Draft("".join(parts))
            parts, num_chars, has_words = [], 0, False
        blank = is_blank and line.endswith("\n")
        has_words = has_words or not is_blank
        parts.append(line)
        num_chars += len(line)
    if parts:
        yield Draft("".join(parts))
