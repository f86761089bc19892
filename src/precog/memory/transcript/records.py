"""Values of JSON ▸ turns: single turns, conversations, and the formats that are written in JSON."""

import datetime
from collections.abc import Mapping, Sequence

from precog.errors import InputError
from precog.memory.moment import parse_time
from precog.memory.transcript.chatgpt import is_chatgpt, read_chatgpt
from precog.memory.transcript.json_values import name_in, text_in
from precog.memory.transcript.locomo import is_sample, read_sample
from precog.memory.transcript.spacelog import is_spacelog, read_spacelog
from precog.memory.transcript.transcript import Collector

_TEXTS = ("text", "content", "message", "utterance", "body", "value")
_TIMES = ("time", "timestamp", "created_at", "date_time", "datetime", "date", "ts")
_SPEAKERS = ("speaker", "role", "name", "author", "from", "sender", "user")
_PLACES = ("place", "location")
_REFERENCES = ("reference", "dia_id", "message_id", "id")
_CONVERSATIONS = ("conversation", "conversation_id", "conv")
_SESSIONS = ("session", "session_id")
_LISTS = ("messages", "turns", "utterances", "conversation", "conversations", "dialog", "dialogue", "chat")
_NAMES = ("id", "conversation_id", "sample_id", "title", "name")


def read_rows(rows: Sequence[tuple[str, object]], collector: Collector, zone: datetime.tzinfo | None) -> str:
    """Reads every value as what it is; gives the name of the format.

    Raises:
        InputError: one of them is no turn and no conversation, or its time cannot be read; it is named.
    """
    formats = set()
    for where, value in rows:
        try:
            formats.add(_read(value, where if len(rows) > 1 else "", collector, zone))
        except InputError as error:
            message = f"{where}: {error.message}" if where else error.message
            raise InputError(message, given=error.given, expected=error.expected, hint=error.hint) from error
    return formats.pop() if len(formats) == 1 else "jsonl"


def _read(value: object, where: str, collector: Collector, zone: datetime.tzinfo | None) -> str:
    if isinstance(value, list):
        _read_turns(value, collector, zone, collector.name_apart(where))
        return "jsonl"
    if not isinstance(value, dict):
        raise InputError("neither a turn nor a conversation", given=repr(value)[:80], expected="an object")
    if value.get("format") == "precog-memory":
        raise InputError("this is the export of a memory, no transcript", hint="precog memory import FILE --user U")
    if is_sample(value):
        read_sample(value, collector, zone)
        return "locomo"
    if is_chatgpt(value):
        read_chatgpt(value, collector)
        return "chatgpt"
    if is_spacelog(value):
        read_spacelog(value, collector)
        return "spacelog"
    turns = next((value[key] for key in _LISTS if isinstance(value.get(key), list)), None)
    if turns is not None and not isinstance(value.get("text"), str):
        _read_turns(turns, collector, zone, collector.name_apart(_name(value, _NAMES) or where))
    else:
        _read_turn(value, collector, zone, None)
    return "jsonl"


def _read_turns(
    turns: Sequence[object], collector: Collector, zone: datetime.tzinfo | None, conversation: str | None
) -> None:
    for number, turn in enumerate(turns, 1):
        try:
            _read_turn(turn, collector, zone, conversation)
        except InputError as error:
            raise InputError(
                f"turn {number}: {error.message}", given=error.given, expected=error.expected, hint=error.hint
            ) from error


def _read_turn(turn: object, collector: Collector, zone: datetime.tzinfo | None, conversation: str | None) -> None:
    if not isinstance(turn, dict):
        raise InputError("no turn", given=repr(turn)[:80], expected='an object with "text"')
    key = next((key for key in _TEXTS if key in turn), None)
    if key is None:
        keys = ", ".join(map(str, turn)) or "nothing"
        raise InputError("a turn without text", given=keys[:80], expected=" or ".join(_TEXTS))
    words = turn[key]
    if isinstance(words, dict):  # {"message": {"role": …, "content": …}, "timestamp": …}
        turn = {**{name: entry for name, entry in turn.items() if name != key}, **words}
        words = next((turn[name] for name in _TEXTS if name in turn), None)
    text = "" if words is None else text_in(words)
    if text is None:
        raise InputError("a turn's text is no text", given=repr(words)[:80], expected="a string")
    collector.add(
        text,
        time_in(turn, zone),
        _name(turn, _SPEAKERS),
        place=_name(turn, _PLACES),
        reference=_name(turn, _REFERENCES),
        conversation=_name(turn, _CONVERSATIONS) or conversation,
        session=_name(turn, _SESSIONS),
    )


def time_in(turn: Mapping[str, object], zone: datetime.tzinfo | None) -> datetime.datetime | None:
    """The time of a turn; None where it has none.

    Raises:
        InputError: it has one that cannot be read.
    """
    value = next((turn[key] for key in _TIMES if turn.get(key) not in (None, "")), None)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InputError("the time stamp cannot be read", given=repr(value)[:80], expected="2023-05-08T13:56:00Z")
    return parse_time(value, zone=zone)


def _name(value: Mapping[str, object], keys: Sequence[str]) -> str | None:
    return next((name for key in keys if (name := name_in(value.get(key))) is not None), None)
