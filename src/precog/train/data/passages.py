"""From a document's paragraphs to passages with questions made from their own text."""

import random
from collections.abc import Iterator

from precog.questions.asking import asks_about, sentences_of
from precog.questions.passage import Passage
from precog.questions.spans import SpanType, split_sentences
from precog.train.data.counterfactual import EntityPool, choose_swaps, swap
from precog.train.data.documents import Document

__all__ = ["chunk_document", "make_passage"]

_MAX_CHARS = 980


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
    sentences = sentences_of(text)
    if counterfactual:
        placed = [
            span._replace(start=span.start + sentence.start, stop=span.stop + sentence.start)
            for sentence in sentences
            for span in sentence.spans
            if span.type not in (SpanType.PHRASE, SpanType.REASON)
        ]
        mapping = choose_swaps(text, placed, pool, rng)
        pool.add(text, placed)
        text, title = swap(text, mapping).text, mapping.get(title, title)
        sentences = sentences_of(text)
    else:
        for sentence in sentences:
            pool.add(text[sentence.start : sentence.stop], sentence.spans)
    return Passage(text, asks_about(text, title, rng, max_asks, sentences))
