"""SRT and VTT subtitles: cues with a span of time within a recording."""

import datetime
import html
import re
from collections.abc import Sequence

from precog.errors import InputError
from precog.memory.moment import elapsed
from precog.memory.transcript.plain import named
from precog.memory.transcript.transcript import Collector

_STAMP = r"(?:\d{1,3}:)?\d{1,2}:\d\d[.,]\d{1,3}"
_SPAN = re.compile(rf"\s*({_STAMP})\s+-->\s+({_STAMP})(?:\s.*)?", re.ASCII)
_VOICE = re.compile(r"<v(?:\.[^\s>]*)?\s+([^>]+)>")
_TAG = re.compile(r"</?[A-Za-z\d][^<>]*>|\{\\[^{}]*\}")


def is_subtitles(lines: Sequence[str]) -> bool:
    """Whether the file opens as VTT, or with a first cue."""
    opening = [line.strip() for line in lines if line.strip()][:2]
    return bool(opening) and (
        opening[0] == "WEBVTT"
        or opening[0].startswith(("WEBVTT ", "WEBVTT\t"))
        or any(_SPAN.fullmatch(line) for line in opening)
    )


def read_subtitles(lines: Sequence[str], collector: Collector, begins: datetime.datetime | None) -> None:
    """Takes one turn per cue, with the cue's first moment as its reference.

    The speaker is the voice tag's, or the name before a colon; markup goes.

    Args:
        lines: of the file.
        collector: takes the turns.
        begins: the moment of second 0; None gives turns without time.

    Raises:
        InputError: a span of time cannot be read; its line is named.
    """
    number = 0
    while number < len(lines):
        match = _SPAN.fullmatch(lines[number])
        if match is None:
            if "-->" in lines[number]:
                expected = "00:00:01,000 --> 00:00:04,000"
                raise InputError(f"line {number + 1}: no span of time", given=lines[number][:80], expected=expected)
            number += 1
            continue
        end = number + 1
        while end < len(lines) and lines[end].strip():
            end += 1
        _read_cue(match[1], lines[number + 1 : end], number + 1, collector, begins)
        number = end


def _read_cue(
    stamp: str, lines: Sequence[str], number: int, collector: Collector, begins: datetime.datetime | None
) -> None:
    text = "\n".join(lines).strip()
    voice = _VOICE.search(text)
    text = html.unescape(_TAG.sub("", text)).strip()
    speaker = html.unescape(voice[1]).strip() if voice else None
    opened = named(text) if speaker is None else None
    if opened is not None:
        speaker, text = opened
    try:
        since = elapsed(stamp if stamp.count(":") == 2 else f"00:{stamp}")
        time = None if begins is None else begins + since
    except (InputError, OverflowError) as error:
        raise InputError(f"line {number}: no span of time", given=stamp, expected="00:00:01,000") from error
    collector.add(text, time, speaker, reference=stamp)
