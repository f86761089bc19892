"""A transcript: the sessions of the conversations in one file, in its order."""

import datetime
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from precog.errors import InputError
from precog.memory.transcript.opening import Opened
from precog.memory.utterance import Utterance, clean, has_half_pairs, has_words


@dataclass(frozen=True)
class Session:
    """One sitting of a conversation.

    Attributes:
        conversation: the one it belongs to: a LoCoMo sample, a space mission, a chat; the file's name if it names none.
        name: its own, "" if the file does not part conversations into sessions.
        utterances: in order; at least one.
    """

    conversation: str
    name: str
    utterances: tuple[Utterance, ...]

    @property
    def begins(self) -> datetime.datetime | None:
        """The time of its first utterance that has one."""
        return next((utterance.time for utterance in self.utterances if utterance.time is not None), None)

    @property
    def speakers(self) -> tuple[str, ...]:
        """Who speaks in it, by first appearance."""
        return tuple(dict.fromkeys(utterance.speaker for utterance in self.utterances if utterance.speaker))


@dataclass(frozen=True)
class Transcript:
    """What a file of conversations holds; read as a whole, so that a fault is known before anything is done with it.

    Attributes:
        name: of the file.
        format: a key of `reading.FORMATS`.
        sessions: in the file's order.
        num_skipped: turns without words, which were passed over.
        num_notices: what a program says itself, such as "<Media omitted>", passed over, too.
        num_undecoded: places that the file's encoding could not decode, and that read U+FFFD.
        num_broken: turns with half surrogate pairs, which JSON can spell and which read U+FFFD.
        said_of_bytes: one line for people about each thing that is not as its bytes stand in the file.
    """

    name: str
    format: str
    sessions: tuple[Session, ...]
    num_skipped: int = 0
    num_notices: int = 0
    num_undecoded: int = 0
    num_broken: int = 0
    said_of_bytes: tuple[str, ...] = ()

    @property
    def utterances(self) -> Iterator[Utterance]:
        """All of them in order, from the first at every call."""
        return (utterance for session in self.sessions for utterance in session.utterances)

    @property
    def num_utterances(self) -> int:
        """How many there are."""
        return sum(len(session.utterances) for session in self.sessions)

    @property
    def conversations(self) -> dict[str, tuple[Session, ...]]:
        """The sessions of every conversation, by its name, in the file's order."""
        found: dict[str, tuple[Session, ...]] = {}
        for session in self.sessions:
            found[session.conversation] = (*found.get(session.conversation, ()), session)
        return found

    @property
    def notes(self) -> tuple[str, ...]:
        """One line for people about each thing that was not read as it stands."""
        notes = []
        if self.num_skipped:
            notes.append(f"{self.num_skipped} turn{'s' * (self.num_skipped > 1)} without words skipped")
        if self.num_notices:
            notes.append(f"{self.num_notices} notice{'s' * (self.num_notices > 1)} of the program passed over")
        if self.num_broken:
            notes.append(f"half surrogate pairs read as U+FFFD in {self.num_broken} turn{'s' * (self.num_broken > 1)}")
        return (*notes, *self.said_of_bytes)


class Collector:
    """Gathers the turns that a reader finds into a `Transcript`.

    Args:
        name: of the file: the conversation of turns that name none.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._sessions: dict[tuple[str, str], list[Utterance]] = {}
        self._names: Counter[str] = Counter()
        self._num_skipped = 0
        self._num_notices = 0
        self._num_broken = 0

    def name_apart(self, conversation: str | None) -> str | None:
        """The name of a conversation that stands in the file as a whole: a second "New chat" is "New chat (2)"."""
        if conversation is None:
            return None
        self._names[conversation] += 1
        count = self._names[conversation]
        return conversation if count == 1 else f"{conversation} ({count})"

    def skip(self) -> None:
        """Count a turn without words."""
        self._num_skipped += 1

    def skip_notice(self) -> None:
        """Count what nobody said: a notice of the program."""
        self._num_notices += 1

    def add(
        self,
        text: str,
        time: datetime.datetime | None = None,
        speaker: str | None = None,
        *,
        place: str | None = None,
        reference: str | None = None,
        conversation: str | None = None,
        session: str | None = None,
    ) -> None:
        """Take a turn, or count it where it has no words."""
        if not has_words(text):
            self.skip()
            return
        said = (text, speaker, place, reference, conversation, session)
        self._num_broken += any(name is not None and has_half_pairs(name) for name in said)
        names = (clean(conversation or "").strip() or self._name, clean(session or "").strip())
        self._sessions.setdefault(names, []).append(Utterance(text, time, speaker, place, reference))

    def transcript(self, format_name: str, opened: Opened) -> Transcript:
        """What was gathered.

        Raises:
            InputError: nothing was.
        """
        if not self._sessions:
            raise InputError("there is no turn with words in it", given=self._name)
        sessions = tuple(Session(*names, tuple(turns)) for names, turns in self._sessions.items())
        return Transcript(
            self._name,
            format_name,
            sessions,
            self._num_skipped,
            self._num_notices,
            opened.num_undecoded,
            self._num_broken,
            opened.notes,
        )
