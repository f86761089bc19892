"""From a document's paragraphs to passages with questions made from their own text."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from precog.train.data.cloze import make_cloze
from precog.train.data.counterfactual import EntityPool, choose_swaps, swap
from precog.train.data.rows import Ask, Kind, Passage
from precog.train.data.spans import Span, SpanType, find_spans, split_sentences
from precog.train.data.wh import make_wh

__all__ = ["Document", "chunk_document", "make_passage", "parse_documents"]

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


@dataclass(frozen=True, slots=True)
class Document:
    """A title and paragraphs, each one line."""

    title: str
    paragraphs: tuple[str, ...]


def parse_documents(text: str) -> Iterator[Document]:
    """Documents of a text: a ``# Title`` line, a paragraph per line, a blank line between documents."""
    for block in text.split("\n\n"):
        lines = [line.strip() for line in block.split("\n") if line.strip()]
        if not lines:
            continue
        title = lines[0][2:].strip() if lines[0].startswith("# ") else ""
        body = tuple(lines[1:] if title else lines)
        if body:
            yield Document(title, body)


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
    asks: list[Ask] = []
    seen: set[str] = set()
    for index, span in candidates:
        if len(asks) >= max_asks:
            break
        start, stop = sentences[index]
        sentence = text[start:stop]
        answer = sentence[span.start : span.stop]
        if answer in seen or len(sentence) < 30 or len(sentence) > 500:
            continue
        ask = _ask(sentence, _worn(sentence, span, rng), title, rng)
        if ask is not None and answer.lower() not in ask.question.lower():
            seen.add(answer)
            asks.append(ask._replace(start=ask.start + start, stop=ask.stop + start))
    return Passage(text, tuple(asks))


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


def _ask(sentence: str, span: Span, title: str, rng: random.Random) -> Ask | None:
    if rng.random() < 0.7:
        made = make_wh(sentence, span.start, span.stop, span.type, title, rng)
        if made is not None:
            return Ask(made.question, made.start, made.stop, Kind.WH)
    question = make_cloze(sentence, span.start, span.stop, rng)
    return None if question is None else Ask(question, span.start, span.stop, Kind.CLOZE)


def _sentences(text: str) -> Sequence[tuple[int, int]]:
    spans, at = [], 0
    for line in text.split("\n"):
        spans += [(at + a, at + b) for a, b in split_sentences(line)]
        at += len(line) + 1
    return spans
