"""Indexing, against the sum of what cannot be avoided: reading the chunks and making their keys, each on its own.

And memory: what a corpus twenty times as large needs, its keys taken off, against what the small one needs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from precog.backbones.protocol import Backbone
from precog.bench.ceilings import measure_ceilings
from precog.bench.filling import create_store, temporary_room
from precog.bench.harness import Rounds, Side, interleave, timed
from precog.bench.machine import Machine
from precog.bench.memory import Peak, peak_of_indexing
from precog.bench.model import QUICK as SMALL_MODEL
from precog.bench.model import model_folder, subject_of
from precog.bench.result import Ratio, Result, Value, finite
from precog.bench.sizes import check_sizes
from precog.bench.synthetic import write_documents
from precog.corpus.ingest import Ingest
from precog.corpus.unit import UNIT_CHUNKS, UNIT_TOKENS
from precog.encoders import Encoder, load_encoder
from precog.errors import InputError
from precog.store import CorpusStore
from precog.text.sources import SourceList, find_sources

THROUGHPUT_TARGET = 0.85
MEMORY_TARGET = 1.05


@dataclass(frozen=True)
class IndexSettings:
    """Sizes of the measurement.

    Attributes:
        text_bytes: of the synthetic documents that are indexed when none are given.
        repeats: whole runs that count.
        warm_up: whole runs that do not, besides a first one that always is.
        memory_bytes: of the small corpus of the memory measurement; 0 leaves it out. More than one commit unit.
        memory_scale: how many times larger the large one is.
    """

    text_bytes: int = 24_000
    repeats: int = 3
    warm_up: int = 0
    memory_bytes: int = 60_000
    memory_scale: int = 20

    def __post_init__(self) -> None:
        sizes = {"text_bytes": self.text_bytes, "repeats": self.repeats, "memory_scale": self.memory_scale}
        check_sizes("index", sizes)
        check_sizes("index", {"memory_bytes": self.memory_bytes}, least=0)


QUICK = IndexSettings(text_bytes=6000, repeats=1, warm_up=0, memory_bytes=3000, memory_scale=3)


def sized(*, quick: bool, memory: bool) -> IndexSettings:
    """The sizes that were asked for."""
    settings = QUICK if quick else IndexSettings()
    return settings if memory else replace(settings, memory_bytes=0)


def bench_index(
    backbone: Backbone,
    settings: IndexSettings | None = None,
    *,
    paths: Sequence[str] = (),
    encoder: str | None = None,
    folder: Path | None = None,
    quick: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Result:
    """Measures whole indexing runs into new corpora.

    Args:
        backbone: the model of the throughput measurement. The memory measurement takes a small one: what a model
            needs for itself is the same for every corpus and would only hide what grows.
        settings: sizes.
        paths: documents; synthetic text when there are none.
        encoder: sentence encoder; the default one when None.
        folder: where temporary corpora are made.
        quick: said in the result.
        say: told what is being done.

    Raises:
        InputError: nothing can be read in the paths.
    """
    settings = settings or IndexSettings()
    machine = Machine.here()
    with temporary_room(folder) as room:
        if not paths:
            paths = [str(path) for path in write_documents(room / "documents", num_bytes=settings.text_bytes)]
        say("reading the documents once")
        runs = _Runs(backbone, load_encoder(encoder), find_sources(tuple(paths)), room)
        say("indexing")
        rounds = interleave(runs.sides(), repeats=settings.repeats, warm_up=settings.warm_up)
        values, ratios = _throughput(rounds, runs)
        if settings.memory_bytes:
            say("memory: two corpora in processes of their own")
            small, large = _peaks(room, settings, encoder)
            values |= {"memory_small": _peak_json(small), "memory_large": _peak_json(large)}
            ratios["memory"] = memory_ratio(small, large)
    ceilings = measure_ceilings(backbone.device, backbone.encoding_dtype, quick=quick)
    return Result(
        name="index",
        values=values,
        ratios=ratios,
        ceiling={**ceilings.to_json(), "bare_tokens_per_sec": runs.num_tokens / _bare(rounds)},
        machine=machine,
        subject=subject_of(backbone),
        warm_up=settings.warm_up,
        repeats=settings.repeats,
        quick=quick,
        notes=(
            "an indexing run reads, parts, encodes and commits documents and writes the index files",
            "states and keys are made side by side, so that indexing can be faster than the sum of both",
            f"memory was measured with {SMALL_MODEL}, one thread, peak resident size of the whole process",
        ),
    )


def memory_ratio(small: Peak, large: Peak) -> Ratio:
    """Peak memory of the large corpus without its keys over that of the small one."""
    value = (large.rss_bytes - large.key_bytes) / small.rss_bytes
    scale = large.source_bytes / max(1, small.source_bytes)
    return Ratio(value, MEMORY_TARGET, True, f"(RSS of {scale:.0f} × the documents − its keys) / RSS")


def _throughput(rounds: Rounds, runs: "_Runs") -> tuple[dict[str, Value], dict[str, Ratio]]:
    bare = rounds.combined(("prefill", "keys"))
    share = _bare(rounds) / rounds["index"].median
    values: dict[str, Value] = {
        **{name: finite(rounds[name].to_json()) for name in ("index", "prefill", "keys")},
        "prefill_and_keys": finite(bare.to_json()),
        "chunks": runs.num_chunks,
        "tokens": runs.num_tokens,
        "index_tokens_per_sec": runs.num_tokens / rounds["index"].median,
        "prefill_tokens_per_sec": runs.num_tokens / rounds["prefill"].median,
        "index_over_slower_half": rounds["index"].median / max(rounds["prefill"].median, rounds["keys"].median),
    }
    meaning = "speed of indexing / speed of bare batched prefill and bare key encoding one after the other"
    return values, {"throughput": Ratio(share, THROUGHPUT_TARGET, False, meaning)}


def _bare(rounds: Rounds) -> float:
    return rounds.combined(("prefill", "keys")).median


def _peaks(room: Path, settings: IndexSettings, encoder: str | None) -> tuple[Peak, Peak]:
    model = model_folder(SMALL_MODEL, room)
    peaks = []
    for name, scale in (("small", 1), ("large", settings.memory_scale)):
        documents = room / f"{name}-documents"
        write_documents(documents, num_bytes=scale * settings.memory_bytes, seed=4)
        peaks.append(peak_of_indexing(room / name, model, [documents], encoder=encoder))
    return peaks[0], peaks[1]


def _peak_json(peak: Peak) -> dict[str, Value]:
    return {
        "rss_bytes": peak.rss_bytes,
        "key_bytes": peak.key_bytes,
        "chunks": peak.chunks,
        "tokens": peak.tokens,
        "source_bytes": peak.source_bytes,
    }


class _Runs:
    """The same chunks three ways: indexed, only read, only keyed."""

    def __init__(self, backbone: Backbone, encoder: Encoder, sources: SourceList, room: Path) -> None:
        self._backbone = backbone
        self._encoder = encoder
        self._sources = sources
        self._room = room
        self._made = 0
        with self._index() as store:
            chunks = list(store.chunks(list(store.visible_chunk_ids())).values())
            if not chunks:
                raise InputError("there is nothing to index in these documents", given=f"{len(sources.sources)} files")
            self._ids = [store.read_state(chunk).token_ids.tolist() for chunk in chunks]
        self._texts = [chunk.info.context + chunk.info.text for chunk in chunks]
        self.num_chunks = len(chunks)
        self.num_tokens = sum(map(len, self._ids))

    def sides(self) -> list[Side]:
        """What is compared in each round."""
        return [
            timed("index", lambda _: self._index().close()),
            timed("prefill", lambda _: self._prefill()),
            timed("keys", lambda _: self._encoder.encode_passages(self._texts)),
        ]

    def _index(self) -> CorpusStore:
        """A new corpus from the documents, still open."""
        self._made += 1
        store = create_store(
            self._room / f"corpus-{self._made}",
            self._backbone.spec,
            encoder_fingerprint=self._encoder.fingerprint,
            key_dim=self._encoder.dim,
        )
        Ingest(store, self._backbone, self._encoder).run(self._sources)
        return store

    def _prefill(self) -> None:
        """Reads the chunks in the batches that indexing reads them in, and does nothing with the states."""
        unit: list[list[int]] = []
        tokens = 0
        for ids in self._ids:
            if len(unit) == UNIT_CHUNKS or (unit and tokens + len(ids) > UNIT_TOKENS):
                self._backbone.encode_chunks(unit)
                unit, tokens = [], 0
            unit.append(ids)
            tokens += len(ids)
        self._backbone.encode_chunks(unit)
