"""The leading words of a chunk: when, who, where (§5.1 of the paper)."""

from precog.memory.utterance import Utterance
from precog.text.tokenizer import Tokenizer

_SEPARATOR = " | "
_MARKS = str.maketrans("|[]", "/()")  # what would part or end the header
_MOST_NAME_CHARS = 80


def header_of(utterance: Utterance, *, most_name_chars: int = _MOST_NAME_CHARS) -> str:
    """The header of an utterance, such as ``[2023-05-08T13:56:00+00:00 | Caroline | Oslo] ``; "" if nothing is known.

    Header and text are one text and are encoded as one. What is unknown is left out, the zone never; names keep to one
    line, are cut after ``most_name_chars`` characters, and have ``|``, ``[`` and ``]`` replaced.
    """
    names = [name.translate(_MARKS)[:most_name_chars].strip() for name in (utterance.speaker, utterance.place) if name]
    time = [] if utterance.time is None else [utterance.time.isoformat(timespec="seconds")]
    parts = time + [name for name in names if name]
    return f"[{_SEPARATOR.join(parts)}] " if parts else ""


def fitting_header(utterance: Utterance, tokenizer: Tokenizer, max_tokens: int) -> str:
    """The header with its names cut as short as it takes to keep to ``max_tokens``; the time is never cut."""
    most = _MOST_NAME_CHARS
    while True:
        header = header_of(utterance, most_name_chars=most)
        if most == 0 or len(tokenizer.encode(header)) <= max_tokens:
            return header
        most //= 2
