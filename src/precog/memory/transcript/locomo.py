"""LoCoMo: very long conversations of two people, in dated sessions, with questions about them (the official JSON)."""

import datetime
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from precog.errors import InputError
from precog.memory.moment import parse_time
from precog.memory.transcript.json_values import name_in, rows_of
from precog.memory.transcript.opening import read_bytes, text_of
from precog.memory.transcript.transcript import Collector

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
"""The names of the categories of questions, by their numbers in the file."""

_SESSION = re.compile(r"session_(\d{1,9})", re.ASCII)
_EVIDENCE = re.compile(r"\bD:?(\d{1,9}):(\d{1,9})\b", re.ASCII)
_ADVERSARIAL = 5


@dataclass(frozen=True)
class LocomoQuestion:
    """One question about a conversation.

    Attributes:
        id: ``conv-26/0``: conversation and position there, from 0.
        conversation: as in `Session.conversation`.
        question: its words.
        answer: what people answered; None where the conversation does not tell.
        evidence: references of the turns that tell it, such as "D3:5"; empty for a few.
        category: a key of `CATEGORIES`.
        tempting: of an adversarial question, the wrong answer it tempts to; else None.
    """

    id: str
    conversation: str
    question: str
    answer: str | None
    evidence: tuple[str, ...]
    category: int
    tempting: str | None = None

    @property
    def category_name(self) -> str:
        """The name of its category."""
        return CATEGORIES[self.category]


def locomo_questions(path: str | Path) -> tuple[LocomoQuestion, ...]:
    """The questions of the official JSON, or of JSON lines with conv, question, answer, evidence and category.

    Evidence that is written unlike the rest ("D8:6; D9:17", "D:11:26") is read as what it means.

    Raises:
        InputError: the file cannot be read, or a question of it; it is named.
    """
    path = Path(path)
    text = text_of(read_bytes(path), str(path)).text
    questions: list[LocomoQuestion] = []
    counts: dict[str, int] = {}
    try:
        for where, row in rows_of(text) or ():
            name, entries = _entries(row)
            for entry in entries:
                conversation = name if name is not None else where
                number = counts.get(conversation, 0)
                counts[conversation] = number + 1
                questions.append(_question(entry, conversation, number))
        if not questions:
            raise InputError("there are no LoCoMo questions in it", expected='the official JSON with "qa"')
    except InputError as error:
        raise InputError(
            f"{path}: {error.message}", given=error.given, expected=error.expected, hint=error.hint
        ) from error
    return tuple(questions)


def is_sample(value: Mapping[str, object]) -> bool:
    """Whether a JSON object is one conversation of LoCoMo."""
    found = value.get("conversation")
    return any(_SESSION.fullmatch(key) for key in (found if isinstance(found, dict) else value))


def read_sample(value: Mapping[str, object], collector: Collector, zone: datetime.tzinfo | None) -> None:
    """Takes the turns of a sample, session by session; each has the time of its session.

    What a turn shares a photo of is part of its words, since evidence refers to it.

    Raises:
        InputError: a session or a turn is of another form, or a session's time cannot be read; it is named.
    """
    found = value.get("conversation")
    sessions = found if isinstance(found, dict) else value
    numbers = sorted(int(match[1]) for key in sessions if (match := _SESSION.fullmatch(key)))
    for number in dict.fromkeys(numbers):
        name = f"session_{number}"
        turns = sessions.get(name)
        if turns is None:
            continue
        try:
            if not isinstance(turns, list):
                raise InputError("no list of turns", given=repr(turns)[:80])
            stamp = sessions.get(f"{name}_date_time")
            time = None if stamp in (None, "") else parse_time(str(stamp), zone=zone)
            for position, turn in enumerate(turns, 1):
                _read_turn(turn, position, collector, time, _name_of(value), name)
        except InputError as error:
            raise InputError(f"{name}: {error.message}", given=error.given, expected=error.expected) from error


def _read_turn(
    turn: object,
    position: int,
    collector: Collector,
    time: datetime.datetime | None,
    conversation: str | None,
    session: str,
) -> None:
    text = turn.get("text") if isinstance(turn, dict) else None
    if not isinstance(turn, dict) or not isinstance(text, str):
        raise InputError(f"turn {position} has no text", given=repr(turn)[:80], expected='an object with "text"')
    caption = turn.get("blip_caption")
    if isinstance(caption, str) and caption.strip():
        text = f"{text.strip()} [shares {caption.strip()}]"
    speaker, reference = name_in(turn.get("speaker")), name_in(turn.get("dia_id"))
    collector.add(text, time, speaker, reference=reference, conversation=conversation, session=session)


def _name_of(sample: Mapping[str, object]) -> str | None:
    return name_in(sample.get("sample_id"))


def _entries(row: object) -> tuple[str | None, list[object]]:
    """The conversation and the questions of a sample, or of a line that is one question."""
    if isinstance(row, dict) and isinstance(row.get("qa"), list):
        return _name_of(row), row["qa"]
    if isinstance(row, dict) and "question" in row:
        return name_in(row.get("conv")) or name_in(row.get("conversation")), [row]
    raise InputError("no LoCoMo sample with questions", given=repr(row)[:80], expected='an object with "qa"')


def _question(entry: object, conversation: str, number: int) -> LocomoQuestion:
    name = f"{conversation}/{number}"
    if not isinstance(entry, dict) or not isinstance(entry.get("question"), str) or not entry["question"].strip():
        raise InputError(f"question {name} has no words", given=repr(entry)[:80])
    category, evidence = entry.get("category"), entry.get("evidence") or []
    if type(category) is not int or category not in CATEGORIES:
        raise InputError(f"question {name} has no category", given=repr(category)[:80], expected="1 to 5")
    if not isinstance(evidence, list):
        raise InputError(f"question {name} has no list of evidence", given=repr(evidence)[:80])
    found = [f"D{int(a)}:{int(b)}" for item in evidence for a, b in _EVIDENCE.findall(str(item))]
    answer, tempting = _answer(entry.get("answer")), _answer(entry.get("adversarial_answer"))
    if category == _ADVERSARIAL:
        answer, tempting = None, tempting or answer
    elif answer is None:
        raise InputError(f"question {name} has no answer", given=repr(entry.get("answer"))[:80])
    return LocomoQuestion(
        name, conversation, entry["question"].strip(), answer, tuple(dict.fromkeys(found)), category, tempting
    )


def _answer(value: object) -> str | None:
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return str(value).strip() or None
    return None
