"""What a paragraph is found by: its text, its title, the questions made from it; by meaning, by words, or both.

Every paragraph of a file is searched for every question. Questions that rules make from a paragraph (`questions_of`)
are tried in two ways: with a key for each, of which the best counts, and as words beside those of the text.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, cast

import numpy as np
from jaxtyping import Float32

from precog.encoders import Encoder
from precog.evaluate.experiment import Record
from precog.evaluate.metrics import paired_bootstrap
from precog.evaluate.paragraphs import kept_keys
from precog.evaluate.retrieving import encoder_of
from precog.evaluate.scores import gain
from precog.evaluate.squad_data import Question
from precog.evaluate.subset import ids_sha256
from precog.index import HybridIndex, Retrieval
from precog.index.dense import DenseIndex
from precog.index.lexical import LexicalIndex
from precog.questions.asking import questions_of
from precog.questions.found_by import MAX_QUESTIONS, key_text

__all__ = ["KINDS", "TOP_K", "WAYS", "Keys", "Paragraph", "Way"]

KINDS = ("text", "title", "questions", "title+questions")
"""A paragraph's text, the same after its title, and each with questions; with a title, their keys have it, too."""
TOP_K = (1, 3, 10)
_KeyRows = list[Float32[np.ndarray, "_ E"]]


@dataclass(frozen=True)
class Way:
    """A way to search: what keys are made of, what words are counted; "" where neither is asked."""

    retrieval: Retrieval
    keys: str
    words: str

    @property
    def name(self) -> str:
        """Of a row."""
        return f"{self.retrieval}:{self.keys}:{self.words}"


WAYS = (
    *(Way("dense", kind, "") for kind in KINDS),
    *(Way("bm25", "", kind) for kind in KINDS),
    *(Way("hybrid", keys, words) for keys in KINDS for words in KINDS),
)


@dataclass(frozen=True)
class Paragraph:
    """A paragraph, and the questions that rules make from it."""

    text: str
    title: str
    questions: tuple[str, ...]

    @classmethod
    def of(cls, text: str, title: str) -> "Paragraph":
        """With the questions that are made from it."""
        return cls(text, title, questions_of(text, title, MAX_QUESTIONS))

    def key_texts(self, kind: str) -> tuple[str, ...]:
        """The texts that it has keys of: its own, then its questions, if any; all after its title, or none."""
        title = self.title if kind.startswith("title") else ""
        lead = f"{title}: " if title else ""
        asked = self.questions if kind.endswith("questions") else ()
        return (key_text("title", self.text, title=title), *(lead + question for question in asked))

    def words(self, kind: str) -> str:
        """The text whose words are counted; of ``title+questions``, what a corpus counts that is found by questions."""
        return "\n".join([self.key_texts(kind)[0], *(self.questions if kind.endswith("questions") else ())])


class Keys:
    """An experiment whose items are questions, each searched for in every way.

    Args:
        questions: that are asked.
        everything: the whole file; its paragraphs are searched.
        encoder: of sentences, or where it is; the default one when None.
        keys_folder: where keys are kept for the next time; nowhere when None.
    """

    name = "keys"
    settings: Mapping[str, object]

    def __init__(
        self,
        questions: Sequence[Question],
        everything: Sequence[Question],
        encoder: Encoder | str | None = None,
        keys_folder: Path | None = None,
    ) -> None:
        self._questions = questions
        self._encoder = encoder_of(encoder)
        titles: dict[str, str] = {}
        for question in everything:
            titles.setdefault(question.context, question.title.replace("_", " ").strip())
        self._place = {text: place for place, text in enumerate(titles)}
        paragraphs = [Paragraph.of(text, title) for text, title in titles.items()]
        encode = cache(lambda texts: kept_keys(list(texts), self._encoder, keys_folder) if texts else [])
        keys = {kind: _keys_of([paragraph.key_texts(kind) for paragraph in paragraphs], encode) for kind in KINDS}
        dense = {kind: DenseIndex.build(self._encoder.dim, enumerate(rows)) for kind, rows in keys.items()}
        lexical = {kind: LexicalIndex.build(enumerate(p.words(kind) for p in paragraphs)) for kind in KINDS}
        self._indexes = {way: HybridIndex(dense[way.keys or KINDS[0]], lexical[way.words or KINDS[0]]) for way in WAYS}
        self._num_keys = {kind: index.num_keys for kind, index in dense.items()}
        self.settings = {
            "encoder": self._encoder.fingerprint,
            "max_questions": MAX_QUESTIONS,
            "ids_sha256": ids_sha256(questions),
            "searched_sha256": sha256("\0".join(titles).encode()).hexdigest(),
        }

    def __len__(self) -> int:
        """Questions."""
        return len(self._questions)

    def measure(self, number: int) -> Record:
        """One question.

        Returns:
            ``id``; ``ranks``, way ▸ rank of its paragraph from 1, None beyond the tenth; ``search_sec``, way ▸ seconds
            without those of the encoder.
        """
        question = self._questions[number]
        key, place = self._encoder.encode_query(question.question), self._place[question.context]
        ranks: dict[str, int | None] = {}
        search_sec: dict[str, float] = {}
        for way, index in self._indexes.items():
            started = time.perf_counter()
            hits = index.search(question.question, key, max(TOP_K), retrieval=way.retrieval)
            search_sec[way.name] = time.perf_counter() - started
            ranks[way.name] = next((rank for rank, hit in enumerate(hits, 1) if hit.chunk_id == place), None)
        return {"id": question.id, "ranks": ranks, "search_sec": search_sec}

    def report(self, records: Sequence[Record]) -> dict[str, object]:
        """``rows``: a way with recall @k, its paired gain of recall @1 over texts alone, and seconds of a search."""
        ranks = {way: [cast(Any, record["ranks"])[way.name] for record in records] for way in WAYS}
        rows = []
        for way, found in ranks.items():
            base = ranks[Way(way.retrieval, way.keys and KINDS[0], way.words and KINDS[0])]
            seconds = [cast(Any, record["search_sec"])[way.name] for record in records]
            rows.append({
                "retrieval": way.retrieval,
                "keys": way.keys or None,
                "words": way.words or None,
                "recall": {str(k): float(np.mean(_hits(found, k))) for k in TOP_K},
                "recall1_gain": gain(paired_bootstrap(_hits(found, 1), _hits(base, 1))),
                "search_sec": float(np.median(seconds)),
            })  # fmt: skip
        num = len(self._place)
        per_paragraph = {kind: count / num for kind, count in self._num_keys.items()}
        key_bytes = {kind: count * self._encoder.dim * 4 for kind, count in per_paragraph.items()}
        collection = {"paragraphs": num, "keys_per_paragraph": per_paragraph, "key_bytes_per_paragraph": key_bytes}
        return {"rows": rows, "collection": collection, "n": len(records), **self.settings}


def _keys_of(passages: Sequence[tuple[str, ...]], encode: Callable[[tuple[str, ...]], _KeyRows]) -> _KeyRows:
    """The keys of each paragraph; its own text and its questions are encoded apart, so that kinds share them."""
    own = encode(tuple(texts[0] for texts in passages))
    asked = iter(encode(tuple(question for texts in passages for question in texts[1:])))
    return [np.concatenate([key, *islice(asked, len(texts) - 1)]) for key, texts in zip(own, passages, strict=True)]


def _hits(ranks: Sequence[int | None], k: int) -> list[float]:
    return [float(rank is not None and rank <= k) for rank in ranks]
