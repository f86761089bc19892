"""Transcripts of space flights, whose times count from lift-off: JSON lines of mission, stream, time, speaker, text."""

import datetime
from collections.abc import Mapping

from precog.errors import InputError
from precog.memory.moment import elapsed
from precog.memory.transcript.transcript import Collector

_LIFT_OFF = {
    "mr3": "1961-05-05T14:34:13+00:00",
    "mr4": "1961-07-21T12:20:36+00:00",
    "ma6": "1962-02-20T14:47:39+00:00",
    "ma7": "1962-05-24T12:45:16+00:00",
    "ma8": "1962-10-03T12:15:12+00:00",
    "g3": "1965-03-23T14:24:00+00:00",
    "g4": "1965-06-03T15:16:00+00:00",
    "g6": "1965-12-15T13:37:26+00:00",
    "g7": "1965-12-04T19:30:03+00:00",
    "g8": "1966-03-16T16:41:02+00:00",
    "a7": "1968-10-11T15:02:45+00:00",
    "a8": "1968-12-21T12:51:00+00:00",
    "a9": "1969-03-03T16:00:00+00:00",
    "a10": "1969-05-18T16:49:00+00:00",
    "a11": "1969-07-16T13:32:00+00:00",
    "a12": "1969-11-14T16:22:00+00:00",
    "a13": "1970-04-11T19:13:00+00:00",
    "a14": "1971-01-31T21:03:02+00:00",
    "a15": "1971-07-26T13:34:00+00:00",
    "a16": "1972-04-16T17:54:00+00:00",
    "a17": "1972-12-07T05:33:00+00:00",
}
"""When the crewed Mercury, Gemini and Apollo flights of the transcripts lifted off."""


def is_spacelog(value: Mapping[str, object]) -> bool:
    """Whether a JSON object is one utterance of a flight."""
    mission, stream = value.get("mission"), value.get("stream")
    return isinstance(mission, str) and bool(mission.strip()) and isinstance(stream, str | None) and "text" in value


def read_spacelog(value: Mapping[str, object], collector: Collector) -> None:
    """Takes one utterance; its session is the stream, its reference ``mission/stream/time``.

    The time of a mission whose lift-off is not known is None: the reference keeps what was said when. Stream, time and
    speaker may be missing.

    Raises:
        InputError: it has no text, its time is no mission-elapsed one, or its speaker no name.
    """
    mission, stream, text, stamp = (value.get(key) for key in ("mission", "stream", "text", "time"))
    speaker = value.get("speaker")
    assert isinstance(stream, str | None)
    if not isinstance(text, str):
        raise InputError("a turn's text is no text", given=repr(text)[:80], expected="a string")
    if not isinstance(speaker, str | None):
        raise InputError("a turn's speaker is no name", given=repr(speaker)[:80], expected="a string")
    if not isinstance(stamp, str | None):
        raise InputError("the elapsed time cannot be read", given=repr(stamp)[:80], expected="04:13:22:59")
    lift_off = _LIFT_OFF.get(str(mission))
    try:
        since = None if stamp is None else elapsed(stamp)
        time = None if lift_off is None or since is None else datetime.datetime.fromisoformat(lift_off) + since
    except OverflowError as error:
        raise InputError("the elapsed time cannot be read", given=stamp, expected="04:13:22:59") from error
    collector.add(
        text,
        time,
        speaker,
        reference="/".join(part.strip() for part in (str(mission), stream, stamp) if part is not None),
        conversation=str(mission),
        session=stream,
    )
