"""Utterances of recorded missions or shows: who said what in which recording."""

from dataclasses import dataclass
from pathlib import Path

from precog.memory.transcript import read_transcript

__all__ = ["Spoken", "read_spoken"]


@dataclass(frozen=True, slots=True)
class Spoken:
    """One utterance.

    Attributes:
        mission: the recording it is of.
        speaker: as the transcript calls them; empty where it does not say.
        text: stripped.
    """

    mission: str
    speaker: str
    text: str


def read_spoken(path: Path) -> list[Spoken]:
    """Every utterance of a file with a text, recording by recording, in its order.

    Args:
        path: a transcript of several conversations, such as the Spacelog ones; see `read_transcript`.

    Raises:
        InputError: the file is missing, damaged, without utterances, or a line is of another form.
    """
    return [
        Spoken(session.conversation, utterance.speaker or "", utterance.text)
        for session in read_transcript(path).sessions
        for utterance in session.utterances
    ]
