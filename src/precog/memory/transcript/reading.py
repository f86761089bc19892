"""A file of conversations ▸ a transcript; what it is written in is seen from its content."""

import datetime
from pathlib import Path

from precog.errors import InputError
from precog.memory.transcript.json_values import rows_of
from precog.memory.transcript.opening import read_bytes, text_of
from precog.memory.transcript.plain import is_plain, read_plain
from precog.memory.transcript.records import read_rows
from precog.memory.transcript.subtitles import is_subtitles, read_subtitles
from precog.memory.transcript.transcript import Collector, Transcript
from precog.memory.transcript.whatsapp import is_whatsapp, read_whatsapp

FORMATS = {
    "jsonl": 'JSON lines or JSON with "text", "time", "speaker", "place"',
    "locomo": "LoCoMo JSON",
    "spacelog": "Spacelog JSON lines",
    "chatgpt": "a ChatGPT export",
    "whatsapp": "a WhatsApp export",
    "subtitles": "SRT or VTT subtitles",
    "plain": '"Ana: hello" or "[2024-05-01 10:00] Ana: hello" lines',
}
"""What is read, with a few words for people."""


def read_transcript(
    path: str | Path,
    *,
    zone: datetime.tzinfo | None = None,
    day_first: bool | None = None,
    begins: datetime.datetime | None = None,
) -> Transcript:
    """Reads a file of conversations, plain or compressed with gzip, xz or zstd.

    Args:
        path: of the file.
        zone: of times that name none; default the zone of this machine.
        day_first: whether 01/05/2024 is 1 May; default what the file's own other dates show.
        begins: the moment of second 0 of subtitles, which name no date; default their turns have no time.

    Raises:
        InputError: it cannot be read, is damaged or of none of these formats, a date of it can be read in two ways, or
            a line is wrong: then file and line are named.
    """
    path = Path(path)
    return transcript_of(read_bytes(path), str(path), zone=zone, day_first=day_first, begins=begins)


def transcript_of(
    data: bytes,
    name: str,
    *,
    zone: datetime.tzinfo | None = None,
    day_first: bool | None = None,
    begins: datetime.datetime | None = None,
) -> Transcript:
    """The same of the bytes of a file, such as standard input; see `read_transcript`."""
    opened = text_of(data, name)
    collector = Collector(Path(name).name or name)
    try:
        format_name = _read(opened.text, collector, zone, day_first, begins)
        return collector.transcript(format_name, opened)
    except InputError as error:
        raise _named(error, name) from error


def _read(
    text: str,
    collector: Collector,
    zone: datetime.tzinfo | None,
    day_first: bool | None,
    begins: datetime.datetime | None,
) -> str:
    rows = rows_of(text)
    if rows is not None:
        return read_rows(rows, collector, zone)
    lines = text.split("\n")
    if is_subtitles(lines):
        read_subtitles(lines, collector, begins)
        return "subtitles"
    if is_whatsapp(lines):
        read_whatsapp(lines, collector, zone, day_first)
        return "whatsapp"
    if is_plain(lines):
        read_plain(lines, collector, zone)
        return "plain"
    raise InputError("the file is no transcript of a known format", expected="; ".join(FORMATS.values()))


def _named(error: InputError, name: str) -> InputError:
    """The same error, naming the file first."""
    return InputError(f"{name}: {error.message}", given=error.given, expected=error.expected, hint=error.hint)
