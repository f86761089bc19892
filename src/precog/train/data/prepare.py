"""Preparing training data on many cores: texts, conversations and SQuAD to sets of questions and token streams.

Writes prepared folders (:mod:`precog.train.data.rows`) ``OUT/train/<source>`` and ``OUT/val/<source>``, token streams
(:mod:`precog.train.data.shards`) ``OUT/stream/train/<source>`` and ``OUT/stream/val/<source>``, and ``OUT/stats.json``.
A source is a text file's name without its number, ``dialogue``, ``squad``, ``squad_remix``, ``recall``, ``table`` or
``copy``; of several SQuAD files each is a source NAME after the file, and NAME_remix. Held out are one document in 200
(by a checksum of its title), one conversation in 50, and 40 titles of every SQuAD file; what stands in several SQuAD
files is held out of all or none.
The result depends on the inputs and the seed, not on the number of workers.
"""

import dataclasses
import json
import multiprocessing
import os
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.pool import Pool
from pathlib import Path

import numpy as np

from precog.errors import InputError, StorageError, TrainingError
from precog.questions.passage import Kind
from precog.text.tokenizer import MISTRAL_SHA256
from precog.train.data.dialogue import MAX_CHARS
from precog.train.data.documents import check_form, source_name
from precog.train.data.jobs import SPLITS, SQUAD_SLICES, HoldOut, Job, run_job
from precog.train.data.rows import CONTEXT_TOKENS, ROW_TOKENS, PreparedSet, merge_folders
from precog.train.data.shards import merge_shards
from precog.train.data.tokens import MAX_ANSWER_TOKENS, Pieces

__all__ = ["PrepareOptions", "prepare", "show"]

_MADE_UP_PER_JOB = 10_000
_BYTES_TOGETHER = 2 << 20
_MOST_MADE_UP = 10**9
_WIDEST = (1 << 15) - 1  # lengths and places are 16-bit


@dataclass(frozen=True)
class PrepareOptions:
    """What to prepare, and how.

    Attributes:
        out: where the prepared data goes.
        texts, dialogues: files to read; see :mod:`~precog.train.data.documents` and :mod:`~precog.train.data.chat`.
        squad: SQuAD training files.
        squad_copies: remixes of each, each with other sentences, entities and wordings.
        recall, table, copy: chunks of key–value facts, small tables, random words.
        stream: write token streams, too.
        workers: processes.
        slices: jobs per text file.
        seed: source of every choice.
        max_questions_per_chunk: questions made from one chunk.
        counterfactual: share of text chunks with replaced entities.
        unanswerable: share of the rows of texts and remixes that ask a neighbouring text's question.
        context_tokens, row_tokens: widths of chunks and question rows.
        hold_out: how ``val`` is chosen among texts and conversations.
        text_source: name of the source of all texts instead of their files' names.
        firsts: number of the first document of a file, for ``hold_out``.
    """

    out: Path
    texts: tuple[Path, ...] = ()
    dialogues: tuple[Path, ...] = ()
    squad: tuple[Path, ...] = ()
    squad_copies: int = 3
    recall: int = 0
    table: int = 0
    copy: int = 0
    stream: bool = False
    workers: int = 1
    slices: int = 12
    seed: int = 0
    max_questions_per_chunk: int = 12
    counterfactual: float = 0.5
    unanswerable: float = 0.1
    context_tokens: int = CONTEXT_TOKENS
    row_tokens: int = ROW_TOKENS
    hold_out: HoldOut = dataclasses.field(default_factory=HoldOut)
    text_source: str | None = None
    firsts: dict[Path, int] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, least, most in (
            ("workers", 1, 1024), ("slices", 1, 100_000), ("max_questions_per_chunk", 1, 1000),
            ("squad_copies", 0, 1000), ("recall", 0, _MOST_MADE_UP), ("table", 0, _MOST_MADE_UP),
            ("copy", 0, _MOST_MADE_UP), ("context_tokens", 32, _WIDEST), ("row_tokens", 24, _WIDEST),
        ):  # fmt: skip
            if not least <= getattr(self, name) <= most:
                raise TrainingError(
                    f"--{name.replace('_', '-')} is out of range", given=getattr(self, name), expected=f"{least}–{most}"
                )
        for name in ("counterfactual", "unanswerable"):
            if not 0 <= getattr(self, name) <= (1 if name == "counterfactual" else 0.9):
                raise TrainingError(f"--{name} is out of range", given=getattr(self, name), expected="a share")


def _jobs(options: PrepareOptions) -> list[Job]:
    jobs: list[Job] = []

    def add(task: str, source: str, paths: tuple[Path, ...], index: int, count: int, chunks: int = 0) -> None:
        firsts = tuple(options.firsts.get(path, 0) for path in paths)
        jobs.append(
            Job(task, source, len(jobs), paths, index, count, options.seed, options.out,
                options.max_questions_per_chunk, options.counterfactual, options.unanswerable, options.stream,
                options.context_tokens, options.row_tokens, options.hold_out, firsts, chunks)
        )  # fmt: skip

    for paths in _groups(options.texts, options.text_source is not None):
        source = options.text_source or source_name(paths[0])
        slices = options.slices if len(paths) == 1 else 1
        for index in range(slices):
            add("text", source, paths, index, slices)
    for path in options.dialogues:
        for index in range(options.slices):
            add("dialogue", "dialogue", (path,), index, options.slices)
    for number, source in enumerate(_squad_sources(options, {job.source for job in jobs}), start=1):
        paths = options.squad[:number]
        for index in range(SQUAD_SLICES):
            add("squad", source, paths, index, SQUAD_SLICES)
        for index in range(SQUAD_SLICES * options.squad_copies):
            add("squad_remix", f"{source}_remix", paths, index, SQUAD_SLICES)
    for task, chunks in (("recall", options.recall), ("table", options.table), ("copy", options.copy)):
        count = -(-chunks // _MADE_UP_PER_JOB)
        for index in range(count):
            add(task, task, (), index, count, min(_MADE_UP_PER_JOB, chunks - index * _MADE_UP_PER_JOB))
    return jobs


def _squad_sources(options: PrepareOptions, taken: set[str]) -> list[str]:
    """What the SQuAD files' sources are called.

    Raises:
        InputError: a set of that name would be made from something else, too.
    """
    if len(options.squad) == 1:
        return ["squad"]
    taken = taken | {name for name in ("recall", "table", "copy") if getattr(options, name)}
    sources = [source_name(path) for path in options.squad]
    for path, source in zip(options.squad, sources, strict=True):
        for name in (source, f"{source}_remix"):
            if name in taken:
                raise InputError(
                    "two sources of training data have one name",
                    given=f"{path}: {name}",
                    expected="names that differ",
                    hint="rename the file",
                )
            taken.add(name)
    return sources


def _groups(paths: tuple[Path, ...], together: bool) -> list[tuple[Path, ...]]:
    """Files that share a job: alone where each has a source of its own, else small ones together in their order."""
    groups: list[tuple[Path, ...]] = []
    size = 0
    for path in paths:
        size += path.stat().st_size
        if together and groups and size <= _BYTES_TOGETHER:
            groups[-1] = (*groups[-1], path)
        else:
            groups.append((path,))
            size = path.stat().st_size
    return groups


@contextmanager
def _workers(count: int) -> Iterator[Pool | None]:
    """A pool of processes, or None for this one alone."""
    if count == 1:
        yield None
        return
    # Ctrl-C reaches all processes of a terminal, but this one alone decides: the others are ended with the pool. They
    # begin with the signal blocked, so that none of them is hit before it ignores it
    resource_tracker.ensure_running()  # as it starts, it would unblock the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        pool = multiprocessing.get_context("spawn").Pool(count, signal.signal, (signal.SIGINT, signal.SIG_IGN))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    with pool:
        yield pool


def prepare(options: PrepareOptions, on_progress: Callable[[str], None] = lambda line: None) -> dict[str, object]:
    """Run all jobs, merge their parts per source, and write ``stats.json``.

    Args:
        options: what to prepare.
        on_progress: called with a line now and then.

    Returns:
        What ``stats.json`` holds.

    Raises:
        InputError: a file is missing, of another format or cannot be read, or no question and no text came out.
        StorageError: the output cannot be written.
    """
    for path in (*options.texts, *options.dialogues, *options.squad):
        if not path.is_file():
            raise InputError("an input file is missing", given=path)
    for path in options.texts:
        check_form(path)
    jobs = _jobs(options)
    if not jobs:
        raise InputError("nothing to prepare", expected="text files, --squad, --dialogue, --recall, --table or --copy")
    try:
        return _prepared(options, jobs, on_progress)
    except OSError as error:
        raise StorageError("the prepared data cannot be written", given=options.out, hint=str(error)) from error


def _prepared(options: PrepareOptions, jobs: list[Job], on_progress: Callable[[str], None]) -> dict[str, object]:
    started = time.perf_counter()
    parts = options.out / ".parts"
    shutil.rmtree(parts, ignore_errors=True)
    options.out.mkdir(parents=True, exist_ok=True, mode=0o700)
    totals: dict[str, Counter[str]] = {}
    try:
        with _workers(options.workers) as pool:
            for number, counts in enumerate(
                pool.imap_unordered(run_job, jobs) if pool else map(run_job, jobs), start=1
            ):
                totals.setdefault(str(counts.pop("source")), Counter()).update(counts)
                questions = sum(t["train_questions"] for t in totals.values())
                elapsed = time.perf_counter() - started
                rate = questions / elapsed
                on_progress(f"{number}/{len(jobs)} slices, {questions:,} questions, {elapsed:.0f} s, {rate:,.0f}/s")
            for source, counted in sorted(totals.items()):
                for line in _left_out(options, source, counted):
                    on_progress(line)
            if not any(t["train_questions"] or t["train_stream_tokens"] for t in totals.values()):
                raise InputError("no text to train on was found", given=", ".join(sorted(totals)), expected="prose")
            tasks = _merges(options, parts)
            for _ in pool.imap_unordered(_merge, tasks) if pool else map(_merge, tasks):
                pass
    finally:
        shutil.rmtree(parts, ignore_errors=True)
    stats: dict[str, object] = {
        "seed": options.seed,
        "seconds": round(time.perf_counter() - started, 1),
        "workers": options.workers,
        "tokenizer_sha256": MISTRAL_SHA256,
        "context_tokens": options.context_tokens,
        "row_tokens": options.row_tokens,
        "sources": {name: dict(sorted(counter.items())) for name, counter in sorted(totals.items())},
    }
    temporary = options.out / f".stats.{os.getpid()}.tmp"
    with temporary.open("w", encoding="utf-8") as file:
        json.dump(stats, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(options.out / "stats.json")
    return stats


def _left_out(options: PrepareOptions, source: str, counts: Mapping[str, float]) -> Iterator[str]:
    """What was too long: how much of how much, how long it may be, and what changes that."""
    questions = sum(counts.get(name, 0) for name in ("train_questions", "val_questions", "dropped"))
    if count := counts.get("too_long"):
        yield (
            f"{source}: {count:,} of {questions:,} questions were left out: with its answer one may be"
            f" {options.row_tokens} tokens long (`precog train-data --row-tokens N` changes that), the answer alone"
            f" {MAX_ANSWER_TOKENS}"
        )
    if count := counts.get("turns_too_long"):
        yield (
            f"{source}: {count:,} of {counts['turns']:,} turns were left out: one may be {MAX_CHARS} characters long,"
            " whatever the options"
        )


def _merges(options: PrepareOptions, parts: Path) -> list[tuple[str, list[Path], Path, dict[str, object]]]:
    names = [path.name for path in (*options.texts, *options.dialogues)]
    tasks: list[tuple[str, list[Path], Path, dict[str, object]]] = []
    for split in SPLITS:
        (options.out / split).mkdir(exist_ok=True, mode=0o700)
        tasks += [
            ("rows", sorted(folder.iterdir()), options.out / split / folder.name, {"seed": options.seed})
            for folder in sorted((parts / "rows" / split).glob("*"))
        ]
        tasks += [
            (
                "stream",
                sorted(path for path in folder.glob("*.npy") if not path.name.endswith(".docs.npy")),
                options.out / "stream" / split / folder.name,
                {"files": names},
            )
            for folder in sorted((parts / "stream" / split).glob("*"))
        ]
    return tasks


def _merge(task: tuple[str, list[Path], Path, dict[str, object]]) -> None:
    kind, parts, target, notes = task
    (merge_shards if kind == "stream" else merge_folders)(parts, target, notes)


def show(folder: Path, count: int, seed: int) -> Iterator[str]:
    """Random rows of a prepared folder, decoded."""
    pieces, prepared, rng = Pieces(), PreparedSet(folder), np.random.default_rng(seed)
    for row in rng.integers(prepared.num_questions, size=count):
        column = {
            name: values[row] for name, values in prepared.columns.items() if len(values) == prepared.num_questions
        }
        prompt = pieces.decode(column["questions"][1 : column["prompt_len"]].tolist())
        answer = pieces.decode(column["questions"][column["prompt_len"] : column["row_len"] - 1].tolist())
        chunk = int(column["chunk"])
        context = pieces.decode(
            prepared.columns["context"][chunk, 1 : int(prepared.columns["context_len"][chunk])].tolist()
        )
        yield f"[{Kind(int(column['kind'])).name}] {prompt} => {answer}\n    {context!r}"
