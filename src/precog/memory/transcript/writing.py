"""The project's own format of transcripts: JSON lines, one utterance a line."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from precog.errors import StorageError
from precog.memory.transcript.transcript import Transcript
from precog.memory.utterance import Utterance
from precog.writing import output_file


def write_jsonl(conversation: Transcript | Iterable[Utterance], path: str | Path) -> int:
    """Writes a transcript, or utterances alone, so that `read_transcript` gives the same again.

    A line is an object with "text" and, where they are known, "time" (ISO 8601 with zone), "speaker", "place",
    "reference", "conversation" and "session". The file is there as a whole or not at all, and only its owner may
    read it.

    Returns:
        How many utterances were written.

    Raises:
        StorageError: the file cannot be written, or that is no place for one.
    """
    path = Path(path)
    if "\0" in str(path):
        raise StorageError("the transcript cannot be written: no path has a NUL in it")
    num_written = 0
    with output_file(path, "transcript") as file:
        for row in _rows(conversation):
            file.write((json.dumps(row, ensure_ascii=False) + "\n").encode())
            num_written += 1
    return num_written


def _rows(conversation: Transcript | Iterable[Utterance]) -> Iterator[dict[str, str]]:
    if not isinstance(conversation, Transcript):
        yield from map(_row, conversation)
        return
    for session in conversation.sessions:
        names = {"conversation": session.conversation, "session": session.name}
        for utterance in session.utterances:
            yield _row(utterance) | {key: name for key, name in names.items() if name}


def _row(utterance: Utterance) -> dict[str, str]:
    fields = {
        "text": utterance.text,
        "time": None if utterance.time is None else utterance.time.isoformat(),
        "speaker": utterance.speaker,
        "place": utterance.place,
        "reference": utterance.reference,
    }
    return {key: value for key, value in fields.items() if value is not None}
