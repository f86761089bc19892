"""From a document's paragraphs to passages with questions made from their own text."""

import random
import re
from collections.abc import Iterator, Sequence

from precog.train.data.cloze import BLANK, make_cloze
from precog.train.data.counterfactual import EntityPool, choose_swaps, swap
from precog.train.data.documents import Document
from precog.train.data.noise import content_words, recast, reword, thin
from precog.train.data.rows import Ask, Kind, Passage
from precog.train.data.spans import Span, SpanType, find_spans, split_sentences
from precog.train.data.subjects import subject_of
from precog.train.data.vocabulary import PRONOUNS
from precog.train.data.wh import make_wh

__all__ = ["chunk_document", "make_passage"]

_ADJECTIVE = re.compile(r"\S+$|\S+(?:ic|al|ous|ive|ful|able|ible|less|ary|ed|ing|ent|ant) (?:in|of|for|and) ")
_MAX_CHARS = 980
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


def chunk_document(document: Document, rng: random.Random) -> Iterator[str]:
    """Chunk texts: whole paragraphs up to a drawn length, long paragraphs cut between sentences.

    Lengths are drawn around 690 characters (≈ 165 tokens), 420 to 980; every other chunk opens with the title.
    """
    pieces: list[tuple[str, bool]] = []  # a sentence run, and whether it opens a paragraph
    for paragraph in document.paragraphs:
        if len(paragraph) <= 900:
            pieces.append((paragraph, True))
        else:
            pieces += [(paragraph[a:b], i == 0) for i, (a, b) in enumerate(split_sentences(paragraph))]
    current, target = "", _target(rng)
    for piece, opens in pieces:
        joined = f"{current}{chr(10) if opens else ' '}{piece}" if current else piece
        if current and len(joined) > min(_MAX_CHARS, target * 1.25):
            yield _headed(current, document.title, rng)
            current, target = piece, _target(rng)
        else:
            current = joined
        if len(current) >= target:
            yield _headed(current, document.title, rng)
            current, target = "", _target(rng)
    if len(current) > 200:
        yield _headed(current, document.title, rng)


def _target(rng: random.Random) -> float:
    return min(900.0, max(420.0, rng.lognormvariate(6.45, 0.3)))


def _headed(text: str, title: str, rng: random.Random) -> str:
    return f"{title}\n{text}" if title and rng.random() < 0.5 else text


def make_passage(
    text: str, title: str, pool: EntityPool, rng: random.Random, max_asks: int, counterfactual: bool
) -> Passage:
    """A passage with up to ``max_asks`` cloze and wh-questions about different spans of its text.

    Args:
        text: the chunk.
        title: the document's title, for pronouns.
        pool: entities for replacements; learns this chunk's.
        rng: source of every choice.
        max_asks: most questions.
        counterfactual: replace entities everywhere before asking.
    """
    sentences = _sentences(text)
    found = [find_spans(text[a:b]) for a, b in sentences]
    if counterfactual:
        placed = [
            s._replace(start=s.start + a, stop=s.stop + a)
            for (a, _), spans in zip(sentences, found, strict=True)
            for s in spans
            if s.type not in (SpanType.PHRASE, SpanType.REASON)
        ]
        mapping = choose_swaps(text, placed, pool, rng)
        pool.add(text, placed)
        text, title = swap(text, mapping).text, mapping.get(title, title)
        sentences = _sentences(text)
        found = [find_spans(text[a:b]) for a, b in sentences]
    else:
        for (a, b), spans in zip(sentences, found, strict=True):
            pool.add(text[a:b], spans)
    candidates = [
        (i, span)
        for i, spans in enumerate(found)
        for span in spans
        if 2 < span.stop - span.start < 80 or span.type is SpanType.NUMBER
    ]
    candidates.sort(key=lambda c: rng.random() ** (1 / _WEIGHTS[c[1].type]), reverse=True)
    words = [content_words(text[a:b]) for a, b in sentences]
    asks: list[Ask] = []
    seen: set[str] = set()
    for index, span in candidates:
        if len(asks) >= max_asks:
            break
        start, stop = sentences[index]
        sentence = text[start:stop]
        answer = sentence[span.start : span.stop]
        if answer in seen or len(sentence) < 30 or len(sentence) > 500 or _is_predicate(sentence, span):
            continue
        previous = index > 0 and text[sentences[index - 1][1] : start] == " "
        before = text[slice(*sentences[index - 1])] if previous else ""
        subject = subject_of(sentence, before, found[index - 1] if previous else (), title, rng)
        ask = _ask(sentence, _worn(sentence, span, rng), subject, rng)
        if ask is None or answer.lower() in ask.question.lower():
            continue
        harder = _harder(ask.question, index, words, rng)
        if answer.lower() not in harder.lower():
            ask = ask._replace(question=harder)
        seen.add(answer)
        asks.append(ask._replace(start=ask.start + start, stop=ask.stop + start))
    return Passage(text, tuple(asks))


def _is_predicate(sentence: str, span: Span) -> bool:
    """Whether a word follows a form of "be": an adjective or a participle, which nobody asks for."""
    if span.type is not SpanType.PHRASE or not _ADJECTIVE.match(sentence[span.start : span.stop]):
        return False
    return sentence[: span.start].endswith((" is ", " are ", " was ", " were ", " be ", " been "))


def _harder(question: str, index: int, words: Sequence[set[str]], rng: random.Random) -> str:
    """The question as it is, thinned, or in other words; thinned only while the answer's sentence fits it best."""
    draw = rng.random()
    if draw < 0.3:
        return question
    if draw < (0.7 if BLANK in question else 0.45):
        thinned = thin(question, rng) if BLANK in question else thin(question, rng, 0.15, 0.35)
        kept = content_words(thinned)
        scores = [len(kept & sentence) for sentence in words]
        best = scores[index]
        if len(kept) >= 3 and sum(score >= best for score in scores) == 1:
            question = thinned
    if draw > 0.4:
        question = reword(recast(question, rng) if rng.random() < 0.6 else question, rng)
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


def _ask(sentence: str, span: Span, subject: str, rng: random.Random) -> Ask | None:
    if rng.random() < 0.75:
        made = make_wh(sentence, span.start, span.stop, span.type, subject, rng)
        if made is not None:
            return Ask(made.question, made.start, made.stop, Kind.WH)
        if rng.random() < 0.7:
            return None  # another span will do; people do not ask in blanks
    question = make_cloze(sentence, span.start, span.stop, rng)
    if question is not None and subject and question.split(" ", 1)[0] in PRONOUNS and rng.random() < 0.6:
        question = f"{subject[0].upper()}{subject[1:]} {question.split(' ', 1)[1]}"
    return None if question is None else Ask(question, span.start, span.stop, Kind.CLOZE)


def _sentences(text: str) -> Sequence[tuple[int, int]]:
    spans, at = [], 0
    for line in text.split("\n"):
        spans += [(at + a, at + b) for a, b in split_sentences(line)]
        at += len(line) + 1
    return spans
