"""Questions about earlier turns of a conversation: by the slots it names, and by what a speaker said.

A passage is a run of turns, ``Speaker: text`` a line. Where a slot has several values in a passage its question would
have several answers, so that only slots with one value are asked for.
"""

import random
import re
from collections.abc import Iterator

from precog.questions.cloze import BLANK, make_cloze
from precog.questions.noise import careless, content_words, reword
from precog.questions.passage import Ask, Kind, Passage
from precog.questions.spans import Span, SpanType, find_spans, split_sentences
from precog.questions.vocabulary import FUNCTION_WORDS
from precog.train.data.chat import Conversation, Turn
from precog.train.data.slots import SLOT_QUESTIONS

__all__ = ["MAX_CHARS", "dialogue_passages", "is_too_long"]

MAX_CHARS = 900
"""Of a run of turns; a longer turn is left out."""
_TIME = re.compile(r"\b\d{1,2}(?::\d\d)? ?(?:[ap]m|[ap]\.m|o'clock)\b", re.IGNORECASE)
_SAID_TYPES = (SpanType.PERSON, SpanType.PLACE, SpanType.NAME, SpanType.DATE, SpanType.YEAR, SpanType.NUMBER,
               SpanType.MEASURE, SpanType.MONEY, SpanType.PERCENT, SpanType.QUOTE, SpanType.PHRASE)  # fmt: skip
_WHAT = {
    SpanType.PERSON: ("Who",),
    SpanType.PLACE: ("What place", "Which place"),
    SpanType.DATE: ("What date", "Which date"),
    SpanType.YEAR: ("What year", "Which year"),
    SpanType.NUMBER: ("What number",),
    SpanType.MONEY: ("How much money", "What amount", "What price"),
    SpanType.PERCENT: ("What percentage",),
    SpanType.HOUR: ("What time",),
}
_MENTIONED = ("{what} did {who} mention?", "{what} did {who} speak of?", "{what} was named by {who}?")


def dialogue_passages(conversation: Conversation, rng: random.Random, max_asks: int = 12) -> Iterator[Passage]:
    """Runs of turns with up to ``max_asks`` questions each; a run without a question is passed over."""
    for turns in _runs(conversation.turns, rng):
        text, starts = _text(turns, rng)
        asks = [*_slot_asks(turns, starts, text, rng), *_said_asks(turns, starts, text, rng, max_asks)]
        rng.shuffle(asks)
        if asks:
            yield Passage(text, tuple(asks[:max_asks]))


def is_too_long(turn: Turn) -> bool:
    """Whether no passage holds a turn."""
    return _length(turn) > MAX_CHARS


def _length(turn: Turn) -> int:
    return len(turn.speaker) + len(turn.text) + 3


def _runs(turns: tuple[Turn, ...], rng: random.Random) -> Iterator[list[Turn]]:
    run: list[Turn] = []
    size, limit = 0, rng.uniform(0.6, 1) * MAX_CHARS
    for turn in turns:
        length = _length(turn)
        if run and size + length > limit:
            yield run
            limit = rng.uniform(0.6, 1) * MAX_CHARS
            last = _length(run[-1])
            again = len(run) > 2 and last + length <= limit and rng.random() < 0.5
            run, size = (run[-1:], last) if again else ([], 0)
        if not is_too_long(turn):
            run.append(turn)
            size += length
    if len(run) > 1:
        yield run


_CASES = (str, str.capitalize, str.upper, str.lower)


def _text(turns: list[Turn], rng: random.Random) -> tuple[str, list[int]]:
    case = rng.choice(_CASES)
    lines, starts, at = [], [], 0
    for turn in turns:
        head = f"{case(turn.speaker) if turn.speaker.isupper() or turn.speaker.islower() else turn.speaker}: "
        lines.append(head + " ".join(turn.text.splitlines()))
        starts.append(at + len(head))
        at += len(lines[-1]) + 1
    return "\n".join(lines), starts


def _named(speaker: str) -> str:
    """A speaker as questions name one: "the user" for a role, the name for a person."""
    lower = speaker.lower()
    if lower in ("user", "system", "assistant", "agent", "customer", "operator", "caller", "client"):
        return f"the {lower}"
    return speaker


def _slot_asks(turns: list[Turn], starts: list[int], text: str, rng: random.Random) -> list[Ask]:
    places: dict[str, list[tuple[str, int, int, str]]] = {}
    for turn, start in zip(turns, starts, strict=True):
        for slot in turn.slots:
            value = turn.text[slot.start : slot.stop]
            places.setdefault(slot.name, []).append((value, start + slot.start, start + slot.stop, turn.speaker))
    asks = []
    for name, found in places.items():
        values = {value.lower() for value, *_ in found}
        forms = SLOT_QUESTIONS.get(name)
        if forms is None or not _one_value(values):
            continue
        value, start, stop, speaker = found[0]
        if text[start:stop] != value:
            continue
        own = [form for form in forms if "{who}" not in form]
        said = [form.replace("{who}", _named(speaker)) for form in forms if "{who}" in form]
        speakers = {s for _, _, _, s in found}
        question = rng.choice(own + said if len(speakers) == 1 and said else own)
        asks.append(Ask(careless(question, rng), start, stop, Kind.DIALOGUE))
        if len(own) > 1 and rng.random() < 0.5:
            other = rng.choice([form for form in own if form != question] or own)
            asks.append(Ask(careless(other, rng), start, stop, Kind.DIALOGUE))
    return asks


def _one_value(values: set[str]) -> bool:
    """Whether some values are one: the longest holds all others ("San Jose", "San Jose, CA")."""
    longest = max(values, key=len)
    return all(re.search(rf"(?<![\w:.,]){re.escape(value)}(?![\w:.])", longest) for value in values)


def _said_asks(turns: list[Turn], starts: list[int], text: str, rng: random.Random, max_asks: int) -> list[Ask]:
    """Clozes of what was said, the speaker named, and "what place did Anna mention" where that has one answer."""
    asks: list[Ask] = []
    candidates: list[tuple[int, int, str, Span]] = []
    by_type: dict[tuple[str, SpanType], set[str]] = {}
    for number, (turn, start) in enumerate(zip(turns, starts, strict=True)):
        for a, b in split_sentences(" ".join(turn.text.splitlines())):
            sentence = text[start + a : start + b]
            for span in _spans(sentence, rng):
                candidates.append((number, start + a, sentence, span))
                by_type.setdefault((turn.speaker, span.type), set()).add(sentence[span.start : span.stop])
    rng.shuffle(candidates)
    seen: set[str] = set()
    words = [content_words(turn.text) for turn in turns]
    for number, start, sentence, span in candidates:
        answer = sentence[span.start : span.stop]
        if len(asks) >= max_asks or answer in seen or len(answer) < 2 or answer.lower() in FUNCTION_WORDS:
            continue
        speaker = turns[number].speaker
        at = start + span.start, start + span.stop
        question = None
        if len(by_type[speaker, span.type]) == 1 and span.type in _WHAT and rng.random() < 0.4:
            question = rng.choice(_MENTIONED).format(what=rng.choice(_WHAT[span.type]), who=_named(speaker))
        elif len(sentence.split()) >= 6:
            cloze = make_cloze(sentence, span.start, span.stop, rng)
            if cloze is not None and _is_only(cloze, number, words):
                who = _named(speaker)
                front = rng.choice(("", f"{who[0].upper()}{who[1:]} said: ", f"{who[0].upper()}{who[1:]}: "))
                question = front + (reword(cloze, rng) if rng.random() < 0.4 else cloze)
        if question is not None and answer.lower() not in question.lower():
            seen.add(answer)
            asks.append(Ask(question, *at, Kind.DIALOGUE))
    return asks


def _spans(sentence: str, rng: random.Random) -> Iterator[Span]:
    """What people ask of a line of talk: names, dates, times, numbers of their own, and some phrases."""
    times = [(m.start(), m.end()) for m in _TIME.finditer(sentence)]
    yield from (Span(a, b, SpanType.HOUR) for a, b in times)
    for span in find_spans(sentence):
        text = sentence[span.start : span.stop]
        around = sentence[max(0, span.start - 1) : span.start] + sentence[span.stop : span.stop + 1]
        if span.type not in _SAID_TYPES or any(a <= span.start < b for a, b in times):
            continue
        if span.type is SpanType.NAME and ((span.start == 0 and " " not in text) or "'" in text or "’" in text):
            continue
        if span.type is SpanType.NUMBER and set(around) & set(":-/#"):
            continue
        if span.type is SpanType.PHRASE and (" " not in text or rng.random() < 0.5):
            continue
        yield span


def _is_only(cloze: str, number: int, words: list[set[str]]) -> bool:
    """Whether the turn that was blanked shares more words with the cloze than any other turn."""
    kept = content_words(cloze.replace(BLANK, " "))
    scores = [len(kept & turn) for turn in words]
    return len(kept) >= 2 and sum(score >= scores[number] for score in scores) == 1
