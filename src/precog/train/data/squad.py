"""SQuAD training questions as passages, with held-out titles and counterfactual copies.

A question without an answer (SQuAD v2) is unanswerable. A file in JSON lines may give no offset of the answer; where it
occurs more than once, the occurrence in the sentence that shares most words with the question is taken.
"""

import json
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from precog.errors import InputError
from precog.questions.passage import Ask, Kind, Passage
from precog.questions.spans import SpanType, find_spans, split_sentences
from precog.questions.vocabulary import FUNCTION_WORDS
from precog.train.data.counterfactual import EntityPool, choose_swaps, swap
from precog.train.data.documents import open_lines, valid

__all__ = [
    "Paragraph",
    "counterfactual_passage",
    "held_out_paragraphs",
    "held_out_titles",
    "locate",
    "plain",
    "read_squad",
    "squad_passages",
]

NUM_HELD_OUT = 40
_EVERY = 20
_WORD = re.compile(r"\w+")
_MAX_CHARS = 1000


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph with all its questions: question, answer (or empty), offset of the answer if the file gives it."""

    title: str
    text: str
    asked: tuple[tuple[str, str, int | None], ...]


_Asked = tuple[str, str, str, str, int | None]
"""Title, context, question, answer, offset."""


def _rows(path: Path) -> Iterator[_Asked]:
    """From JSON lines or the official JSON, compressed or not."""
    with open_lines(path) as lines:
        first = next(lines, "")
        row = json.loads(first) if first.rstrip().endswith("}") else None
        if not isinstance(row, dict) or "data" in row:
            yield from _official(json.loads(first + "".join(lines)) if row is None else row)
            return
        for number, line in enumerate(chain((first,), lines), start=1):
            if line.strip():
                where = f"line {number}"
                row = _object(json.loads(line), where)
                answers = _of(row, "answers", where)
                if isinstance(answers, dict):  # columns, as some tools write them
                    texts, starts = (_list(_of(answers, name, where), name, where) for name in ("text", "answer_start"))
                    if len(texts) != len(starts):
                        raise _Fault(f"{where}: {len(texts)} answers at {len(starts)} places")
                    answers = [{"text": text, "answer_start": at} for text, at in zip(texts, starts, strict=True)]
                title, context, question = row.get("title"), _of(row, "context", where), _of(row, "question", where)
                yield _asked(title, context, question, _list(answers, "answers", where), where)


def _official(data: object) -> Iterator[_Asked]:
    for article in _list(_of(_object(data, "the file"), "data", "the file"), "data", "the file"):
        title = _of(_object(article, "an article"), "title", "an article")
        for number, paragraph in enumerate(_list(_of(article, "paragraphs", "an article"), "paragraphs", "an article")):
            where = f"article {title!r}, paragraph {number + 1}"
            context = _of(_object(paragraph, where), "context", where)
            for place, qa in enumerate(_list(_of(paragraph, "qas", where), "qas", where)):
                at = f"{where}, question {place + 1}"
                question = _of(_object(qa, at), "question", at)
                yield _asked(title, context, question, _list(_of(qa, "answers", at), "answers", at), at)


class _Fault(Exception):
    """What is wrong with an item of a file, and which item it is."""


def _object(value: object, where: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise _Fault(f"{where} is no object")
    return value


def _of(row: dict[str, object], name: str, where: str) -> object:
    if name not in row:
        raise _Fault(f"{where} has no {name}")
    return row[name]


def _list(value: object, name: str, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise _Fault(f"{where}: {name} is {json.dumps(value)[:60]}, no list")
    return value


def _text(value: object, name: str, where: str) -> str:
    if not isinstance(value, str):
        raise _Fault(f"{where}: {name} is {json.dumps(value)[:60]}, no text")
    return valid(value)


def _asked(title: object, context: object, question: object, answers: list[object], where: str) -> _Asked:
    """One question with its first answer, every part of the type that it must have."""
    text: object = answers[0] if answers else ""
    offset: object = None
    if isinstance(text, dict):
        offset = text.get("answer_start", -1)
        if type(offset) is not int:
            raise _Fault(f"{where}: answer_start is {json.dumps(offset)[:60]}, no number of characters")
        text = _of(text, "text", where)
    return (
        _text("" if title is None else title, "title", where),
        _text(context, "context", where),
        _text(question, "question", where),
        _text(text, "an answer", where),
        offset if isinstance(offset, int) and offset >= 0 else None,
    )


def read_squad(path: Path) -> list[Paragraph]:
    """All paragraphs of a file in its order.

    Raises:
        InputError: the file cannot be read as SQuAD; which item is wrong, and how.
    """
    grouped: dict[tuple[str, str], list[tuple[str, str, int | None]]] = {}
    try:
        for title, context, question, answer, offset in _rows(path):
            grouped.setdefault((title, context), []).append((question, answer, offset))
    except (ValueError, RecursionError, _Fault) as error:
        raise InputError(
            "this file cannot be read as SQuAD", given=f"{path}: {error}", expected="JSON or JSON lines"
        ) from error
    return [Paragraph(title, text, tuple(asked)) for (title, text), asked in grouped.items()]


def _placed(paragraph: Paragraph) -> list[Ask]:
    asks = []
    for question, answer, offset in paragraph.asked:
        if not answer:
            asks.append(Ask(question.strip(), 0, 0, Kind.UNANSWERABLE))
            continue
        told = offset is not None and paragraph.text[offset : offset + len(answer)] == answer
        start = offset if told and offset is not None else locate(paragraph.text, question, answer)
        if start >= 0 and answer.strip():
            start += len(answer) - len(answer.lstrip())
            asks.append(Ask(question.strip(), start, start + len(answer.strip()), Kind.SQUAD))
    return asks


def locate(context: str, question: str, answer: str) -> int:
    """Offset of the answer, −1 if absent; of several occurrences the one whose sentence is most like the question."""
    hits = [m.start() for m in re.finditer(re.escape(answer), context)]
    whole = [h for h in hits if _whole_word(context, h, h + len(answer))] or hits
    if len(whole) <= 1:
        return whole[0] if whole else -1
    asked = set(_WORD.findall(question.lower())) - FUNCTION_WORDS
    sentences = split_sentences(context)

    def likeness(hit: int) -> int:
        for start, stop in sentences:
            if start <= hit < stop:
                return len(asked & set(_WORD.findall(context[start:stop].lower())))
        return 0

    return max(whole, key=likeness)


def _whole_word(text: str, start: int, stop: int) -> bool:
    return not (text[start - 1 : start].isalnum() or text[stop : stop + 1].isalnum())


def held_out_titles(titles: Iterable[str]) -> frozenset[str]:
    """The 40 titles that are ``val``, never trained on; of a file with fewer than 80 titles, a tenth."""
    distinct = sorted(set(titles))
    count = NUM_HELD_OUT if len(distinct) >= 2 * NUM_HELD_OUT else len(distinct) // 10
    return frozenset(random.Random(0).sample(distinct, count))


def held_out_paragraphs(paragraphs: Sequence[Paragraph]) -> frozenset[str]:
    """Texts of the ``val`` paragraphs: those of the held-out titles, or every twentieth where titles are too few."""
    titles = held_out_titles(p.title for p in paragraphs)
    if titles:
        return frozenset(p.text for p in paragraphs if p.title in titles)
    return frozenset(p.text for p in paragraphs[_EVERY // 2 :: _EVERY])


def plain(text: str) -> str:
    """A text without regard to its spaces and line breaks: what tells one paragraph from another."""
    return " ".join(text.split())


def squad_passages(paragraph: Paragraph) -> list[Passage]:
    """The paragraph as one passage; one too long for a chunk as windows of whole sentences around the answers."""
    asks = _placed(paragraph)
    if len(paragraph.text) <= _MAX_CHARS:
        return [Passage(paragraph.text, tuple(asks))] if asks else []
    passages = []
    pending = sorted((a for a in asks if a.kind is not Kind.UNANSWERABLE), key=lambda a: a.start)
    while pending:
        start, stop = _window(paragraph.text, pending[0].start, pending[0].stop)
        inside = [a for a in pending if start <= a.start and a.stop <= stop]
        if not inside:
            pending = pending[1:]
            continue
        pending = [a for a in pending if a not in inside]
        moved = tuple(a._replace(start=a.start - start, stop=a.stop - start) for a in inside)
        passages.append(Passage(paragraph.text[start:stop], moved))
    return passages


def _window(text: str, first: int, last: int) -> tuple[int, int]:
    """Whole sentences with ``first:last`` among them: one before, then as many after as a chunk holds."""
    sentences = split_sentences(text)
    at = max((i for i, (start, _) in enumerate(sentences) if start <= first), default=0)
    begin = max(0, at - 1)
    if sentences[at][1] - sentences[begin][0] > _MAX_CHARS:
        begin = at
    start, stop = sentences[begin][0], max(last, sentences[at][1])
    for _, end in sentences[at + 1 :]:
        if end - start > _MAX_CHARS:
            break
        stop = end
    return start, stop


def counterfactual_passage(passage: Passage, pool: EntityPool, rng: random.Random) -> Passage | None:
    """The passage with the answers' entities replaced everywhere, in text and questions; None if nothing changed."""
    spans = []
    for start, stop in split_sentences(passage.text):
        spans += [s._replace(start=s.start + start, stop=s.stop + start) for s in find_spans(passage.text[start:stop])]
    spans = [s for s in spans if s.type not in (SpanType.PHRASE, SpanType.REASON)]
    pool.add(passage.text, spans)
    answers = {passage.text[a.start : a.stop] for a in passage.asks if a.stop > a.start}
    answering = [s for s in spans if passage.text[s.start : s.stop] in answers]
    others = [s for s in spans if passage.text[s.start : s.stop] not in answers]
    mapping = choose_swaps(passage.text, answering, pool, rng, limit=16)
    if not mapping:
        return None
    mapping = choose_swaps(passage.text, rng.sample(others, len(others) // 2), pool, rng, limit=4) | mapping
    return rewritten(passage, mapping)


def rewritten(passage: Passage, mapping: dict[str, str]) -> Passage | None:
    """A passage after a replacement; asks whose answer is cut by a replaced entity are dropped."""
    swapped = swap(passage.text, mapping)
    asks = []
    for ask in passage.asks:
        if ask.kind is Kind.UNANSWERABLE:
            asks.append(ask._replace(question=swap(ask.question, mapping).text))
            continue
        inner = swap(passage.text[ask.start : ask.stop], mapping).text
        start, stop = swapped.moved(ask.start, ask.stop)
        if swapped.text[start:stop] == inner and inner:
            asks.append(Ask(swap(ask.question, mapping).text, start, stop, ask.kind))
    return Passage(swapped.text, tuple(asks)) if asks else None
