"""Preparing training data on many cores: ``python -m precog.train.data.prepare --text FILES… --squad FILE --out DIR``.

Writes prepared folders (see :mod:`precog.train.data.rows`) ``OUT/train/<source>`` and ``OUT/val/<source>`` plus
``OUT/stats.json``. A source is a text file's name without its number, ``squad``, ``squad_counterfactual``, ``recall``,
``table`` or ``copy``. One document in 200 (by a checksum of its title) and 40 SQuAD titles are ``val``. The result
depends on the inputs and the seed, not on the number of workers.
"""

import argparse
import dataclasses
import json
import lzma
import multiprocessing
import os
import random
import re
import shutil
import sys
import time
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from gzip import decompress as gunzip
from pathlib import Path

import numpy as np

from precog.errors import InputError, PrecogError, StorageError
from precog.train.data.counterfactual import EntityPool
from precog.train.data.passages import Document, chunk_document, make_passage, parse_documents
from precog.train.data.recall import make_copy, make_recall, make_table
from precog.train.data.rows import Kind, Passage, PreparedSet, merge_folders, write_columns
from precog.train.data.squad import counterfactual_passage, held_out_titles, read_squad, squad_passages
from precog.train.data.tokens import BOUNDARY_ID, Pieces, tokenise

__all__ = ["Job", "main", "prepare"]

_VAL_EVERY = 200
_BATCH = 400
_RECALL_PER_JOB = 10_000


@dataclass(frozen=True, slots=True)
class Job:
    """One slice of one source; every job is independent of the others and of the worker that runs it."""

    task: str  # text, squad, squad_counterfactual, recall, table, copy
    source: str
    path: Path | None
    index: int
    count: int
    seed: int
    out: Path
    max_asks: int
    counterfactual: float
    stream: bool
    chunks: int = 0  # how many to make, for tasks without a file

    @property
    def rng(self) -> random.Random:
        """The job's own generator."""
        return random.Random(f"{self.seed}/{self.task}/{self.source}/{self.path and self.path.name}/{self.index}")

    def folder(self, split: str) -> Path:
        """Where this job's part of a split goes until the parts are merged."""
        stem = self.path.name.split(".")[0] if self.path else self.source
        return self.out / ".parts" / split / self.source / f"{stem}-{self.index:04d}"


def read_documents(path: Path) -> list[Document]:
    """Documents of a ``.txt``, ``.txt.xz``, ``.txt.gz`` or ``.jsonl(.gz|.xz)`` file (fields ``title``, ``text``).

    Raises:
        InputError: the file is missing, damaged, or not of these forms.
    """
    try:
        raw = path.read_bytes()
        if path.suffix == ".xz":
            raw = lzma.decompress(raw)
        elif path.suffix == ".gz":
            raw = gunzip(raw)
        text = raw.decode("utf-8")
        if ".jsonl" in path.suffixes:
            rows = (json.loads(line) for line in text.splitlines() if line.strip())
            return [
                Document(str(row.get("title", "")), tuple(p for p in str(row["text"]).split("\n") if p.strip()))
                for row in rows
            ]
        return list(parse_documents(text))
    except (OSError, ValueError, KeyError, AttributeError, EOFError, lzma.LZMAError) as error:
        raise InputError("a text file cannot be read", given=path, expected="UTF-8 text, .xz, .gz or .jsonl") from error


def _slice(items: Sequence[Document], job: Job) -> Sequence[Document]:
    return items[len(items) * job.index // job.count : len(items) * (job.index + 1) // job.count]


def _is_val(title: str) -> bool:
    return zlib.crc32(title.encode()) % _VAL_EVERY == 0


def _passages(job: Job) -> Iterator[tuple[str, Passage]]:
    """Pairs of split and passage."""
    rng = job.rng
    if job.task == "text":
        assert job.path is not None
        pool = EntityPool()
        for document in _slice(read_documents(job.path), job):
            split = "val" if _is_val(document.title) else "train"
            for text in chunk_document(document, rng):
                changed = rng.random() < job.counterfactual
                yield split, make_passage(text, document.title, pool, rng, job.max_asks, changed)
    elif job.task.startswith("squad"):
        assert job.path is not None
        paragraphs = read_squad(job.path)
        val = held_out_titles(p.title for p in paragraphs)
        pool = EntityPool()
        if job.task == "squad_counterfactual":  # fill the pool from elsewhere in the file
            for paragraph in rng.sample(paragraphs, min(300, len(paragraphs))):
                for passage in squad_passages(paragraph):
                    counterfactual_passage(passage, pool, rng)
        share = paragraphs[len(paragraphs) * job.index // job.count : len(paragraphs) * (job.index + 1) // job.count]
        for paragraph in share:
            for passage in squad_passages(paragraph):
                split = "val" if paragraph.title in val else "train"
                if job.task == "squad":
                    yield split, passage
                elif (changed_passage := counterfactual_passage(passage, pool, rng)) is not None:
                    yield split, changed_passage
    else:
        for number in range(job.chunks):
            split = "val" if number % _VAL_EVERY == 0 else "train"
            level = rng.choice((1, 2, 2, 3, 4, 4, 6, 8, 8, 12, 16, 16, 24, 32))
            if job.task == "recall":
                yield split, make_recall(level, rng, job.max_asks)
            elif job.task == "table":
                yield split, make_table(min(level, 16), rng, job.max_asks)
            else:
                yield split, make_copy(min(100, 4 + 4 * level), rng, min(8, job.max_asks))


def run_job(job: Job) -> dict[str, object]:
    """Make, tokenise and write one job's parts; returns its counts."""
    started = time.perf_counter()
    pieces = Pieces()
    held: dict[str, list[Passage]] = {"train": [], "val": []}
    parts: dict[str, list[Path]] = {"train": [], "val": []}
    counts: Counter[str] = Counter()

    def flush(split: str) -> None:
        passages, held[split] = held[split], []
        if not passages:
            return
        columns, _, dropped = tokenise(passages, pieces)
        counts["dropped"] += dropped
        if not len(columns["context_len"]):
            return
        counts[f"{split}_chunks"] += len(columns["context_len"])
        counts[f"{split}_questions"] += len(columns["row_len"])
        counts["context_tokens"] += int(columns["context_len"].sum())
        counts["row_tokens"] += int(columns["row_len"].sum())
        for kind, n in zip(*np.unique(columns["kind"], return_counts=True), strict=True):
            counts[f"kind_{Kind(int(kind)).name.lower()}"] += int(n)
        folder = job.folder(split).with_name(f"{job.folder(split).name}-{len(parts[split]):05d}")
        write_columns(folder, columns, {})
        parts[split].append(folder)

    for split, passage in _passages(job):
        held[split].append(passage)
        if len(held[split]) >= _BATCH * 10:
            flush(split)
    for split in held:
        flush(split)
    if job.stream and job.task == "text":
        counts["stream_tokens"] = _write_stream(job, pieces)
    return {"source": job.source, "seconds": time.perf_counter() - started, **counts}


def _write_stream(job: Job, pieces: Pieces) -> int:
    """The slice's training documents as one token stream, each opened by ``<s>``, for language modelling."""
    assert job.path is not None
    texts = ["\n".join((d.title, *d.paragraphs)) for d in _slice(read_documents(job.path), job) if not _is_val(d.title)]
    tokens: list[int] = []
    for ids in pieces.encode(texts):
        tokens.append(BOUNDARY_ID)
        tokens += ids
    folder = job.out / ".parts" / "stream" / job.source
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    np.save(folder / f"{job.folder('train').name}.npy", np.array(tokens, dtype=np.uint16))
    return len(tokens)


def _merge_streams(parts: Sequence[Path], target: Path) -> None:
    arrays = [np.load(p, mmap_mode="r") for p in parts]
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp.npy")
    out = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.uint16, shape=(sum(map(len, arrays)),))
    at = 0
    for array in arrays:
        out[at : at + len(array)] = array
        at += len(array)
    out.flush()
    temporary.chmod(0o600)
    temporary.rename(target)


def _merge(task: tuple[str, list[Path], Path, dict[str, object]]) -> None:
    kind, parts, target, notes = task
    if kind == "stream":
        _merge_streams(parts, target)
    else:
        merge_folders(parts, target, notes)


def _jobs(options: argparse.Namespace) -> list[Job]:
    def job(task: str, source: str, path: Path | None, index: int, count: int) -> Job:
        return Job(task, source, path, index, count, options.seed, options.out, options.max_questions_per_chunk,
                   options.counterfactual, options.stream)  # fmt: skip

    jobs = []
    for path in options.text:
        source = re.sub(r"-\d+$", "", path.name.split(".")[0])
        jobs += [job("text", source, path, i, options.slices) for i in range(options.slices)]
    if options.squad:
        jobs += [job("squad", "squad", options.squad, i, 8) for i in range(8)]
        jobs += [
            job("squad_counterfactual", "squad_counterfactual", options.squad, i, 8 * options.squad_copies)
            for i in range(8 * options.squad_copies)
        ]
    for task, chunks in (("recall", options.recall), ("table", options.table), ("copy", options.copy)):
        count = -(-chunks // _RECALL_PER_JOB)
        for i in range(count):
            size = min(_RECALL_PER_JOB, chunks - i * _RECALL_PER_JOB)
            jobs.append(dataclasses.replace(job(task, task, None, i, count), chunks=size))
    return jobs


def prepare(options: argparse.Namespace) -> dict[str, object]:
    """Run all jobs, merge their parts per source, and write ``stats.json``."""
    started = time.perf_counter()
    for path in [*options.text, *([options.squad] if options.squad else [])]:
        if not path.is_file():
            raise InputError("an input file is missing", given=path)
    jobs = _jobs(options)
    if not jobs:
        raise InputError("nothing to prepare", expected="--text, --squad, --recall, --table or --copy")
    shutil.rmtree(options.out / ".parts", ignore_errors=True)
    options.out.mkdir(parents=True, exist_ok=True, mode=0o700)
    totals: dict[str, Counter[str]] = {}
    with multiprocessing.get_context("spawn").Pool(options.workers) as pool:
        for number, counts in enumerate(pool.imap_unordered(run_job, jobs), start=1):
            totals.setdefault(str(counts.pop("source")), Counter()).update(counts)
            questions = sum(t["train_questions"] for t in totals.values())
            elapsed = time.perf_counter() - started
            sys.stderr.write(
                f"{number}/{len(jobs)} slices, {questions:,} questions, {elapsed:.0f} s, {questions / elapsed:,.0f}/s\n"
            )
        tasks: list[tuple[str, list[Path], Path, dict[str, object]]] = []
        parts_root = options.out / ".parts"
        for split in ("train", "val"):
            (options.out / split).mkdir(exist_ok=True, mode=0o700)
            tasks += [
                ("rows", sorted(folder.iterdir()), options.out / split / folder.name, {"seed": options.seed})
                for folder in sorted((parts_root / split).glob("*"))
            ]
        tasks += [
            ("stream", sorted(folder.iterdir()), options.out / "stream" / f"{folder.name}.npy", {})
            for folder in sorted((parts_root / "stream").glob("*"))
        ]
        for _ in pool.imap_unordered(_merge, tasks):
            pass
    shutil.rmtree(parts_root, ignore_errors=True)
    stats: dict[str, object] = {
        "seed": options.seed,
        "seconds": round(time.perf_counter() - started, 1),
        "workers": options.workers,
        "sources": {name: dict(sorted(counter.items())) for name, counter in sorted(totals.items())},
    }
    temporary = options.out / f".stats.{os.getpid()}.tmp"
    temporary.write_text(json.dumps(stats, indent=1), encoding="utf-8")
    temporary.rename(options.out / "stats.json")
    return stats


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
        yield f"[{Kind(int(column['kind'])).name}] {prompt} => {answer}\n    {context[:300]!r}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m precog.train.data.prepare", description="Prepare training data.")
    parser.add_argument("--text", nargs="*", type=Path, default=[], help="text files: .txt, .txt.xz, .jsonl(.gz|.xz)")
    parser.add_argument("--squad", type=Path, help="SQuAD v1.1 training file: JSON or JSON lines, .gz allowed")
    parser.add_argument("--squad-copies", type=int, default=3, help="counterfactual copies of SQuAD (default 3)")
    parser.add_argument("--recall", type=int, default=0, help="chunks of key-value facts")
    parser.add_argument("--table", type=int, default=0, help="chunks of small tables")
    parser.add_argument("--copy", type=int, default=0, help="chunks of random words to continue")
    parser.add_argument("--stream", action="store_true", help="also write token streams for language modelling")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--slices", type=int, default=12, help="jobs per text file (default 12)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--max-questions-per-chunk", type=int, default=12)
    parser.add_argument("--counterfactual", type=float, default=0.5, help="share of text chunks with replaced entities")
    parser.add_argument("--show", type=int, default=0, help="print so many decoded rows of every source")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit status."""
    options = _parser().parse_args(arguments)
    try:
        stats = prepare(options)
    except PrecogError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_status
    except OSError as error:
        sys.stderr.write(
            f"error: {StorageError('the prepared data cannot be written', given=options.out, hint=str(error))}\n"
        )
        return StorageError.exit_status
    for folder in sorted((options.out / "train").iterdir()) if options.show else []:
        sys.stdout.write(f"\n== {folder.name}\n")
        for line in show(folder, options.show, options.seed):
            sys.stdout.write(f"{line}\n")
    sys.stdout.write(f"{json.dumps(stats)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
