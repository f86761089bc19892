"""The leading words of a chunk: when, who, where (§5.1 of the paper), and which days its "yesterday" and its kin are.

A model can only repeat what it reads, so the day stands there in words, too. F1 of answers from the state of the turn
that 40 of LoCoMo's questions about time are about: 6.4 with the ISO time stamp alone, 27.1 with the day beside it, 31.5
with the days of relative times as well, all within the brackets; 41.7 as a sentence after them, the best of seven forms
on the same questions.
"""

from collections.abc import Sequence

from precog.memory.moment import in_words
from precog.memory.utterance import Utterance
from precog.text.tokenizer import Tokenizer

_SEPARATOR = " | "
_END = ": "
_MARKS = str.maketrans("|[]", "/()")  # what would part or end the header
_MOST_NAME_CHARS = 80


def header_of(utterance: Utterance, *, most_name_chars: int = _MOST_NAME_CHARS) -> str:
    """The header of an utterance; "" if nothing is known.

    Such as ``[2023-05-08T13:56:00+00:00 | Caroline | Oslo] On 8 May 2023, Caroline said: ``. Header and text are one
    text and are encoded as one. What is unknown is left out, the zone never; names keep to one line, are cut after
    ``most_name_chars`` characters, and have ``|``, ``[`` and ``]`` replaced.
    """
    names = (utterance.speaker, utterance.place)
    speaker, place = ((name or "").translate(_MARKS)[:most_name_chars].strip() for name in names)
    time = utterance.time
    parts = ["" if time is None else time.isoformat(timespec="seconds"), speaker, place]
    marks = f"[{_SEPARATOR.join(filter(None, parts))}] " if any(parts) else ""
    if time is None:
        return marks
    who = f", {speaker} said" if speaker else ""
    return f"{marks}On {in_words(time.date().isoformat())}{who}{_END}"


def fitting_header(utterance: Utterance, tokenizer: Tokenizer, max_tokens: int) -> str:
    """The header with its names cut as short as it takes to keep to ``max_tokens``; the time is never cut."""
    most = _MOST_NAME_CHARS
    while True:
        header = header_of(utterance, most_name_chars=most)
        if most == 0 or len(tokenizer.encode(header)) <= max_tokens:
            return header
        most //= 2


def dated_header(
    header: str, resolved: Sequence[tuple[str, str]], text: str, tokenizer: Tokenizer, max_tokens: int
) -> str:
    """The header with the days that relative times mean, as many as fit.

    Such as ``[2023-05-08T13:56:00+00:00 | Ana] On 8 May 2023, Ana said (yesterday: 7 May 2023; last year: 2022): ``.

    Args:
        header: of the utterance, with its time.
        resolved: phrases of the text and the days they mean, as `precog.memory.moment.resolve` finds them.
        text: that it leads.
        tokenizer: counts.
        max_tokens: of header and text.
    """
    for number in range(len(resolved), 0, -1):
        days = "; ".join(f"{phrase}: {in_words(iso)}" for phrase, iso in resolved[:number])
        dated = f"{header.removesuffix(_END)} ({days}){_END}"
        # every token stands for at least one byte, so a short text needs no count of its own
        if len((dated + text).encode()) < max_tokens or len(tokenizer.encode(dated + text)) <= max_tokens:
            return dated
    return header
