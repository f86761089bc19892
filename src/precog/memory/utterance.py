"""What one person said at one time: an utterance."""

import datetime
import unicodedata
from dataclasses import dataclass

from precog.errors import InputError

_UNSEEN = "\u115f\u1160\u3164\uffa0"  # letters of the Korean script that fill a gap


@dataclass(frozen=True)
class Utterance:
    """One turn of a conversation.

    Text and names are cleaned as they come in: no NUL, no half surrogate pair, no white space at either end, and names
    on one line. An empty name is no name.

    Attributes:
        text: what was said, over several lines if it was; never without a letter or digit.
        time: when, with its zone; None if nobody knows.
        speaker: who.
        place: where.
        reference: its id in the source ("D3:5" in LoCoMo), by which evidence names it.

    Raises:
        InputError: there is no letter and no digit in it, or its time has no zone.
    """

    text: str
    time: datetime.datetime | None
    speaker: str | None = None
    place: str | None = None
    reference: str | None = None

    def __post_init__(self) -> None:
        text = clean(self.text).strip()
        if not has_words(text):
            raise InputError("a turn has no words", expected="at least one letter or digit that can be seen")
        if self.time is not None and self.time.utcoffset() is None:
            raise InputError("a turn's time has no zone", given=self.time.isoformat(), expected="2023-05-08T13:56:00Z")
        object.__setattr__(self, "text", text)
        for name in ("speaker", "place", "reference"):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else " ".join(clean(value).split()) or None)


def has_words(text: str) -> bool:
    """Whether there is a letter or a digit that can be seen; signs alone say nothing that could be found again."""
    return any(unicodedata.category(char)[0] in "LN" and char not in _UNSEEN for char in text)


def has_half_pairs(text: str) -> bool:
    """Whether there is half a surrogate pair in it, which no encoding can carry."""
    return clean(text).count("\ufffd") > text.count("\ufffd")


def refuse_broken(**said: str | None) -> None:
    """Refuses what a command line names and is not valid Unicode, as bytes that are no UTF-8 come in there.

    Raises:
        InputError: one of them is not; it is named.
    """
    for name, text in said.items():
        if text is not None and has_half_pairs(text):
            at = next(place for place, char in enumerate(text) if "\ud800" <= char <= "\udfff")
            raise InputError(f"the {name} is not valid Unicode", given=f"character {at}", expected="UTF-8")


def clean(text: str) -> str:
    """The same text in valid Unicode and without NUL."""
    text = text.replace("\x00", " ")
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
