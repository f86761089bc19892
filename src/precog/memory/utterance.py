"""What one person said at one time: an utterance."""

import datetime
from dataclasses import dataclass

from precog.errors import InputError


@dataclass(frozen=True)
class Utterance:
    """One turn of a conversation.

    Text and names are cleaned as they come in: no NUL, no half surrogate pair, no white space at either end, and names
    on one line. An empty name is no name.

    Attributes:
        text: what was said, over several lines if it was; never empty.
        time: when, with its zone; None if nobody knows.
        speaker: who.
        place: where.
        reference: its id in the source ("D3:5" in LoCoMo), by which evidence names it.

    Raises:
        InputError: there are no words in it, or its time has no zone.
    """

    text: str
    time: datetime.datetime | None
    speaker: str | None = None
    place: str | None = None
    reference: str | None = None

    def __post_init__(self) -> None:
        text = clean(self.text).strip()
        if not text:
            raise InputError("a turn has no words", expected="at least one character that is not white space")
        if self.time is not None and self.time.utcoffset() is None:
            raise InputError("a turn's time has no zone", given=self.time.isoformat(), expected="2023-05-08T13:56:00Z")
        object.__setattr__(self, "text", text)
        for name in ("speaker", "place", "reference"):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else " ".join(clean(value).split()) or None)


def clean(text: str) -> str:
    """The same text in valid Unicode and without NUL."""
    text = text.replace("\x00", " ")
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
