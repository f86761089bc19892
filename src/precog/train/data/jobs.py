"""One slice of one source made into prepared parts: what a worker does, whatever worker it is."""

import dataclasses
import random
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from precog.questions.passage import Kind, Passage
from precog.questions.spans import split_sentences
from precog.train.data.chat import Conversation, read_conversations
from precog.train.data.counterfactual import EntityPool
from precog.train.data.dialogue import dialogue_passages, is_too_long
from precog.train.data.documents import Document, read_documents
from precog.train.data.passages import chunk_document, make_passage
from precog.train.data.recall import make_copy, make_recall, make_table
from precog.train.data.remix import remixed, unanswerable_asks
from precog.train.data.rows import write_columns
from precog.train.data.shards import tokens_of, write_shard
from precog.train.data.squad import (
    Paragraph,
    counterfactual_passage,
    held_out_paragraphs,
    plain,
    read_squad,
    squad_passages,
)
from precog.train.data.tokens import shared_pieces, tokenise

__all__ = ["SPLITS", "SQUAD_SLICES", "HoldOut", "Job", "run_job"]

SPLITS = ("train", "val")
SQUAD_SLICES = 8
_FLUSH_PASSAGES = 4000
_VAL_EVERY = 200
_VAL_EVERY_CONVERSATION = 50
_LEVELS = (1, 2, 2, 3, 4, 4, 6, 8, 8, 12, 16, 16, 24, 32)


def _is_held_out(document: Document) -> bool:
    """One document in `_VAL_EVERY`, by its title; by its text where it has none, or all of those would be held out."""
    name = document.title or "\n".join(document.paragraphs)
    return zlib.crc32(name.encode("utf-8", "surrogatepass")) % _VAL_EVERY == 0


@dataclass(frozen=True, slots=True)
class HoldOut:
    """Which documents are ``val``.

    Attributes:
        every: every so many-th document by its number; 0 decides by a checksum of the title.
        tail: the end of long documents instead, for a source of few documents.
    """

    every: int = 0
    tail: bool = False


@dataclass(frozen=True, slots=True)
class Job:
    """One slice of one source; every job is independent of the others and of the worker that runs it.

    Attributes:
        task: ``text``, ``dialogue``, ``squad``, ``squad_remix``, ``recall``, ``table`` or ``copy``.
        source: name of the prepared set.
        number: of the job in its preparation; orders the parts.
        paths: files it reads; of SQuAD the last, and those before it for what they hold out.
        index, count: its slice of them.
        firsts: number of the first document of every file, for :class:`HoldOut`.
        chunks: how many to make, for tasks without a file.
    """

    task: str
    source: str
    number: int
    paths: tuple[Path, ...]
    index: int
    count: int
    seed: int
    out: Path
    max_asks: int
    counterfactual: float
    unanswerable: float
    stream: bool
    context_tokens: int
    row_tokens: int
    hold_out: HoldOut = dataclasses.field(default_factory=HoldOut)
    firsts: tuple[int, ...] = ()
    chunks: int = 0

    @property
    def rng(self) -> random.Random:
        """The job's own generator."""
        names = "/".join(path.name for path in self.paths)
        seed = f"{self.seed}/{self.task}/{self.source}/{names}/{self.number}/{self.index}"
        return random.Random(seed.encode("utf-8", "surrogateescape"))  # a file's name may be any bytes

    def part(self, kind: str, split: str) -> Path:
        """Where this job's part of a split goes until the parts are merged; ``kind`` is ``rows`` or ``stream``."""
        return self.out / ".parts" / kind / split / self.source / f"{self.number:06d}"


def _documents(job: Job) -> Iterator[tuple[str, Document]]:
    """Pairs of split and document."""
    for path, first in zip(job.paths, job.firsts or (0,) * len(job.paths), strict=True):
        for number, document in enumerate(read_documents(path, job.index, job.count)):
            if job.hold_out.tail:
                yield from _tailed(document)
            elif job.hold_out.every:
                place = first + job.index + number * job.count
                yield SPLITS[place % job.hold_out.every == job.hold_out.every // 2], document
            else:
                yield SPLITS[_is_held_out(document)], document


def _tailed(document: Document) -> Iterator[tuple[str, Document]]:
    """A long document's last twentieth, but no less than a few chunks, as ``val``."""
    paragraphs = list(document.paragraphs)
    if len(paragraphs) < 8:
        paragraphs = [line[a:b] for line in paragraphs for a, b in split_sentences(line)]
    size = sum(map(len, paragraphs))
    if size < 8000:
        yield "train", document
        return
    at, tail = len(paragraphs), 0
    while at > 1 and tail < max(1200, size // 20):
        at -= 1
        tail += len(paragraphs[at])
    yield "train", Document(document.title, tuple(paragraphs[:at]))
    yield "val", Document(document.title, tuple(paragraphs[at:]))


def _text(job: Job, rng: random.Random) -> Iterator[tuple[str, Passage]]:
    pool = EntityPool()
    for split, document in _documents(job):
        passages = [
            make_passage(text, document.title, pool, rng, job.max_asks, rng.random() < job.counterfactual)
            for text in chunk_document(document, rng)
        ]
        asked = [[(a.question, p.text[a.start : a.stop]) for a in p.asks] for p in passages]
        for number, passage in enumerate(passages):
            wanted = len(passage.asks) * job.unanswerable / (1 - job.unanswerable)
            count = int(wanted) + (rng.random() < wanted % 1)
            if count:
                others = [pair for i in (number - 1, number + 1) if 0 <= i < len(asked) for pair in asked[i]]
                asks = unanswerable_asks(passage.text, others, rng, count)
                passage = Passage(passage.text, (*passage.asks, *asks))
            yield split, passage


def _conversations(job: Job) -> Iterator[tuple[str, Conversation, Iterator[Passage]]]:
    rng = job.rng
    for path, first in zip(job.paths, job.firsts or (0,) * len(job.paths), strict=True):
        for number, conversation in enumerate(read_conversations(path, job.index, job.count)):
            if job.hold_out.every or job.hold_out.tail:
                val = (first + job.index + number * job.count) % 20 == 10
            else:
                val = zlib.crc32(conversation.name.encode("utf-8", "surrogatepass")) % _VAL_EVERY_CONVERSATION == 0
            yield SPLITS[val], conversation, dialogue_passages(conversation, rng, job.max_asks)


def _document(conversation: Conversation) -> Document:
    return Document("", tuple(f"{turn.speaker}: {' '.join(turn.text.split())}" for turn in conversation.turns))


@cache
def _paragraphs(paths: tuple[Path, ...]) -> tuple[list[Paragraph], frozenset[str], dict[str, list[Paragraph]]]:
    """The last of some SQuAD files, the texts held out of it, and its paragraphs by title; kept for the next job.

    A paragraph that stands in an earlier file, too, is held out where it is held out of that one, and only there.
    """
    paragraphs = read_squad(paths[-1])
    articles: dict[str, list[Paragraph]] = {}
    for paragraph in paragraphs:
        articles.setdefault(paragraph.title, []).append(paragraph)
    val = held_out_paragraphs(paragraphs)
    settled: dict[str, bool] = {}
    for count in range(1, len(paths)):
        earlier, held, _ = _paragraphs(paths[:count])
        for paragraph in earlier:
            settled.setdefault(plain(paragraph.text), paragraph.text in held)
    if settled:
        val = frozenset(p.text for p in paragraphs if settled.get(plain(p.text), p.text in val))
    return paragraphs, val, articles


def _squad(job: Job, rng: random.Random) -> Iterator[tuple[str, Passage]]:
    paragraphs, val, articles = _paragraphs(job.paths)
    part = job.index % SQUAD_SLICES  # a remix has several jobs for every slice, one per copy
    share = paragraphs[len(paragraphs) * part // SQUAD_SLICES : len(paragraphs) * (part + 1) // SQUAD_SLICES]
    pool = EntityPool()
    if job.task == "squad_remix":  # fill the pool from elsewhere in the file
        for paragraph in rng.sample(paragraphs, min(300, len(paragraphs))):
            for passage in squad_passages(paragraph):
                counterfactual_passage(passage, pool, rng)
    for paragraph in share:
        split = SPLITS[paragraph.text in val]
        if job.task == "squad":
            made = squad_passages(paragraph)
        else:
            article = [p for p in articles[paragraph.title] if (p.text in val) == (split == "val")]
            made = remixed(paragraph, article, pool, rng, job.unanswerable)
        yield from ((split, passage) for passage in made)


def _made_up(job: Job, rng: random.Random) -> Iterator[tuple[str, Passage]]:
    for number in range(job.chunks):
        split = SPLITS[number % _VAL_EVERY == 0]
        level = rng.choice(_LEVELS)
        if job.task == "recall":
            yield split, make_recall(level, rng, job.max_asks)
        elif job.task == "table":
            yield split, make_table(min(level, 16), rng, job.max_asks)
        else:
            yield split, make_copy(min(100, 4 + 4 * level), rng, min(8, job.max_asks))


def _passages(job: Job, counts: Counter[str]) -> Iterator[tuple[str, Passage]]:
    """Pairs of split and passage; turns of conversations, and those left out, are counted."""
    if job.task == "text":
        yield from _text(job, job.rng)
    elif job.task == "dialogue":
        for split, conversation, passages in _conversations(job):
            counts["turns"] += len(conversation.turns)
            counts["turns_too_long"] += sum(map(is_too_long, conversation.turns))
            yield from ((split, passage) for passage in passages)
    elif job.task in ("squad", "squad_remix"):
        yield from _squad(job, job.rng)
    else:
        yield from _made_up(job, job.rng)


def run_job(job: Job) -> dict[str, object]:
    """Make, tokenise and write one job's parts; returns its counts."""
    started = time.perf_counter()
    pieces = shared_pieces()
    held: dict[str, list[Passage]] = {split: [] for split in SPLITS}
    parts = dict.fromkeys(SPLITS, 0)
    counts: Counter[str] = Counter()

    def flush(split: str) -> None:
        passages, held[split] = held[split], []
        columns, _, dropped = tokenise(passages, pieces, job.context_tokens, job.row_tokens)
        counts["dropped"] += sum(dropped)
        counts["too_long"] += dropped.too_long
        if not len(columns["context_len"]):
            return
        counts[f"{split}_chunks"] += len(columns["context_len"])
        counts[f"{split}_questions"] += len(columns["row_len"])
        counts["context_tokens"] += int(columns["context_len"].sum())
        counts["row_tokens"] += int(columns["row_len"].sum())
        for kind, n in zip(*np.unique(columns["kind"], return_counts=True), strict=True):
            counts[f"kind_{Kind(int(kind)).name.lower()}"] += int(n)
        folder = job.part("rows", split)
        write_columns(folder.with_name(f"{folder.name}-{parts[split]:05d}"), columns, {})
        parts[split] += 1

    for split, passage in _passages(job, counts):
        held[split].append(passage)
        if len(held[split]) >= _FLUSH_PASSAGES:
            flush(split)
    for split in SPLITS:
        flush(split)
    if job.stream:
        _write_streams(job, counts)
    return {"source": job.source, "seconds": time.perf_counter() - started, **counts}


def _write_streams(job: Job, counts: Counter[str]) -> None:
    """The slice's documents as one shard per split."""
    documents = (
        _documents(job)
        if job.task == "text"
        else ((split, _document(conversation)) for split, conversation, _ in _conversations(job))
        if job.task == "dialogue"
        else ()
    )
    found: dict[str, list[Document]] = {split: [] for split in SPLITS}
    for split, document in documents:
        found[split].append(document)
    for split in SPLITS:
        shard = tokens_of(found[split], shared_pieces(), job.context_tokens)
        if len(shard.tokens):
            part = job.part("stream", split)
            write_shard(part.parent, part.name, shard)
            counts[f"{split}_stream_tokens"] += len(shard.tokens)
