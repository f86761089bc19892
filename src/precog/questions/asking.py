"""Questions made from a text: which of its spans to ask for, and how."""

import hashlib
import random
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from precog.questions.cloze import BLANK, make_cloze
from precog.questions.noise import content_words, recast, reword, thin, trim
from precog.questions.passage import Ask, Kind
from precog.questions.spans import Span, SpanType, find_spans, split_sentences
from precog.questions.subjects import subject_of
from precog.questions.vocabulary import PRONOUNS
from precog.questions.wh import make_wh

__all__ = ["Sentence", "asks_about", "questions_of", "sentences_of"]

_ADJECTIVE = re.compile(r"\S+$|\S+(?:ic|al|ous|ive|ful|able|ible|less|ary|ed|ing|ent|ant) (?:in|of|for|and) ")
_CLOZES = 3
_ENOUGH = 9
_WEIGHTS = {
    SpanType.PHRASE: 0.8,
    SpanType.NAME: 1.0,
    SpanType.PERSON: 2.0,
    SpanType.PLACE: 1.0,
    SpanType.DATE: 1.2,
    SpanType.YEAR: 1.0,
    SpanType.NUMBER: 1.6,
    SpanType.MEASURE: 1.6,
    SpanType.MONEY: 1.6,
    SpanType.PERCENT: 1.6,
    SpanType.QUOTE: 1.4,
    SpanType.REASON: 2.0,
}


class Sentence(NamedTuple):
    """Characters ``start:stop`` of a text and the spans in them, counted from the sentence's start."""

    start: int
    stop: int
    spans: Sequence[Span]


def sentences_of(text: str) -> list[Sentence]:
    """The sentences of a text of several paragraphs, a line each, with what may be asked for."""
    found, at = [], 0
    for line in text.split("\n"):
        found += [Sentence(at + a, at + b, find_spans(line[a:b])) for a, b in split_sentences(line)]
        at += len(line) + 1
    return found


def asks_about(
    text: str, title: str, rng: random.Random, max_asks: int, sentences: Sequence[Sentence] | None = None
) -> tuple[Ask, ...]:
    """Up to ``max_asks`` cloze and wh-questions about different spans of a text; none holds its own answer.

    Args:
        text: the chunk.
        title: the document's title, for pronouns; empty where it has none.
        rng: source of every choice.
        max_asks: most questions.
        sentences: ``sentences_of(text)``, where they are known.
    """
    sentences = sentences_of(text) if sentences is None else sentences
    candidates = _candidates(text, sentences, rng)
    words = [content_words(text[s.start : s.stop]) for s in sentences]
    asks: list[Ask] = []
    left: list[tuple[int, Span]] = []
    seen: set[str] = set()
    for make in (_wh_ask, _cloze_ask):
        # mostly questions as people ask them; clozes for what no rule can ask, and a few in any case
        limit = max_asks - _CLOZES if make is _wh_ask else min(max_asks, max(_ENOUGH, len(asks) + _CLOZES))
        for index, span in candidates:
            start, stop, _ = sentences[index]
            sentence = text[start:stop]
            answer = sentence[span.start : span.stop]
            if answer in seen:
                continue
            if len(asks) >= limit:
                left.append((index, span))
                continue
            previous = sentences[index - 1] if index else None
            if previous is not None and text[previous.stop : start] != " ":
                previous = None
            before = text[previous.start : previous.stop] if previous else ""
            subject = subject_of(sentence, before, previous.spans if previous else (), title, rng)
            ask = make(sentence, _worn(sentence, span, rng), subject, rng)
            if ask is None or answer.lower() in ask.question.lower():
                left.append((index, span))
                continue
            harder = _harder(ask.question, index, words, rng)
            if answer.lower() not in harder.lower():
                ask = ask._replace(question=harder)
            seen.add(answer)
            asks.append(ask._replace(start=ask.start + start, stop=ask.stop + start))
        candidates, left = left, []
    return tuple(asks)


def questions_of(text: str, title: str, max_questions: int) -> tuple[str, ...]:
    """The questions of `asks_about` alone, the same for the same text and title wherever it stands."""
    seed = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8]
    rng = random.Random(int.from_bytes(seed, "big"))
    return tuple(ask.question for ask in asks_about(text, title, rng, max_questions))


def _candidates(text: str, sentences: Sequence[Sentence], rng: random.Random) -> list[tuple[int, Span]]:
    """Spans to ask for with their sentence's number, in a drawn order.

    Types that are rare come first more often, and so do spans whose sentence has others of their type: there the type
    alone does not give the answer away.
    """
    candidates: list[tuple[float, int, Span]] = []
    for index, (start, stop, spans) in enumerate(sentences):
        if not 30 <= stop - start <= 500:
            continue
        counts = Counter(span.type for span in spans)
        for span in spans:
            if not (2 < span.stop - span.start < 80 or span.type is SpanType.NUMBER):
                continue
            if not _is_predicate(text[start:stop], span):
                weight = _WEIGHTS[span.type] * (2 if counts[span.type] > 1 else 1)
                candidates.append((rng.random() ** (1 / weight), index, span))
    candidates.sort(reverse=True)
    return [(index, span) for _, index, span in candidates]


def _is_predicate(sentence: str, span: Span) -> bool:
    """Whether a word follows a form of "be": an adjective or a participle, which nobody asks for."""
    if span.type is not SpanType.PHRASE or not _ADJECTIVE.match(sentence[span.start : span.stop]):
        return False
    return sentence[: span.start].endswith((" is ", " are ", " was ", " were ", " be ", " been "))


def _harder(question: str, index: int, words: Sequence[set[str]], rng: random.Random) -> str:
    """The question as it is, in other words, or shorter; shorter only while the answer's sentence fits it best."""
    if rng.random() < 0.15:
        return question
    if rng.random() < 0.75:
        question = reword(recast(question, rng) if rng.random() < 0.7 else question, rng, 0.85)
    if rng.random() < 0.7:
        shorter = thin(question, rng, shared=words[index]) if BLANK in question else trim(question, rng)
        kept = content_words(shorter)
        scores = [len(kept & sentence) for sentence in words]
        if len(kept) >= 3 and scores[index] >= 2 and sum(score >= scores[index] for score in scores) == 1:
            question = shorter
    return question


def _worn(sentence: str, span: Span, rng: random.Random) -> Span:
    """A phrase sometimes with its article, sometimes without its tail "of …"."""
    if span.type is not SpanType.PHRASE:
        return span
    text = sentence[span.start : span.stop]
    for joint in (" of ", " in ", " for ", " and "):
        if joint in text and rng.random() < 0.4:
            span = span._replace(stop=span.start + text.index(joint))
            break
    if rng.random() < 0.3:
        for article in ("the ", "a ", "an ", "The ", "its ", "their "):
            if sentence[: span.start].endswith(article):
                return span._replace(start=span.start - len(article))
    return span


def _wh_ask(sentence: str, span: Span, subject: str, rng: random.Random) -> Ask | None:
    made = make_wh(sentence, span.start, span.stop, span.type, subject, rng) if rng.random() < 0.9 else None
    return None if made is None else Ask(made.question, made.start, made.stop, Kind.WH)


def _cloze_ask(sentence: str, span: Span, subject: str, rng: random.Random) -> Ask | None:
    question = make_cloze(sentence, span.start, span.stop, rng)
    if question is not None and subject and question.split(" ", 1)[0] in PRONOUNS and rng.random() < 0.6:
        question = f"{subject[0].upper()}{subject[1:]} {question.split(' ', 1)[1]}"
    return None if question is None else Ask(question, span.start, span.stop, Kind.CLOZE)
