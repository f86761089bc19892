"""Reading a stored state, against one bare ``pread`` of the same bytes: warm with its CRC, cold without."""

import os
import random
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from precog.bench.filling import create_store, fill, temporary_room
from precog.bench.harness import Rounds, interleave, timed
from precog.bench.machine import Machine
from precog.bench.raw import RawReader
from precog.bench.result import Ratio, Result, Value, finite
from precog.bench.sizes import check_sizes
from precog.state import StateSpec
from precog.store import Chunk, CorpusStore

WARM_TARGET = 1.3
COLD_TARGET = 1.5
_KEY_DIM = 384
_SEED = 3
_COLDER = 8.0  # a read from a disk takes longer than one from memory by at least this factor


@dataclass(frozen=True)
class StoreSettings:
    """Sizes of the measurement.

    Attributes:
        num_chunks: records in the store, one of which is read each time.
        repeats: reads of each kind.
        warm_up: reads that do not count.
    """

    num_chunks: int = 2000
    repeats: int = 400
    warm_up: int = 20

    def __post_init__(self) -> None:
        check_sizes("store", {"--chunks": self.num_chunks, "repeats": self.repeats})


QUICK = StoreSettings(num_chunks=40, repeats=10, warm_up=2)


def sized(*, quick: bool, num_chunks: int | None) -> StoreSettings:
    """The sizes that were asked for; the usual ones where nothing was."""
    settings = QUICK if quick else StoreSettings()
    return settings if num_chunks is None else replace(settings, num_chunks=num_chunks)


def bench_store(
    spec: StateSpec,
    settings: StoreSettings | None = None,
    *,
    folder: Path | None = None,
    quick: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Result:
    """Measures on a temporary corpus of random states.

    Args:
        spec: size of the states.
        settings: sizes.
        folder: where the corpus is made: on the disk that is to be measured.
        quick: said in the result.
        say: told what is being done.

    Raises:
        StorageError: there is no room.
    """
    settings = settings or StoreSettings()
    machine = Machine.here()
    with temporary_room(folder) as room:
        say(f"writing {settings.num_chunks:,} states")
        path = room / "corpus"
        with create_store(path, spec, encoder_fingerprint="0" * 64, key_dim=_KEY_DIM) as store:
            write_sec = fill(store, spec, settings.num_chunks)
        with CorpusStore.open(path) as store, RawReader(store) as raw:
            record_bytes = store.layout.record_bytes
            reads = _Reads(store, raw)
            say("reading, warm")
            warm = reads.warm(settings)
            say("reading, cold")
            cold = reads.cold(settings) if hasattr(os, "posix_fadvise") else None
    values: dict[str, Value] = {
        "record_bytes": record_bytes,
        "num_chunks": settings.num_chunks,
        "warm_read_by_id_over_pread_crc": warm.ratio("read_by_id", "pread_crc"),
        "write_states_per_sec": settings.num_chunks / write_sec,
        **{f"warm_{name}": finite(warm[name].to_json()) for name in ("read", "read_by_id", "pread_crc", "pread")},
    }
    ratios = {
        "warm": Ratio(warm.ratio("read", "pread_crc"), WARM_TARGET, True, "warm read / (one pread + CRC)"),
    }
    ceiling: dict[str, Value] = {"warm_pread_crc_sec": warm["pread_crc"].median}
    notes = [
        "a search hands over where a state lies; by_id looks it up first",
        "median over reads of a quotient of two reads of the same record, in the same round",
    ]
    if cold is None:
        notes.append("cold reads need posix_fadvise, which this system has not")
    elif cold["pread"].median < _COLDER * warm["pread"].median:
        notes.append("no cold reads: the system kept the pages it was told to drop, as where the folder lies in memory")
    else:
        values |= {f"cold_{name}": finite(cold[name].to_json()) for name in ("read", "pread")}
        ratios["cold"] = Ratio(cold["read"].median / cold["pread"].median, COLD_TARGET, True, "cold read / one pread")
        ceiling["cold_pread_sec"] = cold["pread"].median
        notes.append("cold: the record's pages were dropped before each read; each side reads records of its own")
    return Result(
        name="store",
        values=values,
        ratios=ratios,
        ceiling=ceiling,
        machine=machine,
        warm_up=settings.warm_up,
        repeats=settings.repeats,
        quick=quick,
        notes=tuple(notes),
    )


class _Reads:
    """Pairs of reads of random records."""

    def __init__(self, store: CorpusStore, raw: RawReader) -> None:
        self._store = store
        self._raw = raw
        self._chunks = list(store.chunks(list(store.visible_chunk_ids())).values())
        self._random = random.Random(_SEED)

    def warm(self, settings: StoreSettings) -> Rounds:
        """Both ways to the same record, which is in memory and was touched right before."""
        order = self._random.choices(self._chunks, k=settings.repeats + settings.warm_up)

        def touch(number: int) -> None:
            self._raw.read(order[number].location)

        def pread_crc(number: int) -> None:
            zlib.crc32(self._raw.read(order[number].location))

        sides = [
            timed("read", lambda number: self._store.read_state(order[number]), touch),
            timed("pread_crc", pread_crc, touch),
            timed("pread", touch, touch),
            timed("read_by_id", lambda number: self._store.read_state(order[number].id), touch),
        ]
        return interleave(sides, repeats=settings.repeats, warm_up=settings.warm_up)

    def cold(self, settings: StoreSettings) -> Rounds:
        """Records that the operating system has forgotten; never the same for both, as a disk has memory, too."""
        rounds = settings.repeats + settings.warm_up
        ours, theirs = ([self._random.choice(self._chunks) for _ in range(rounds)] for _ in range(2))

        def drop(order: list[Chunk]) -> Callable[[int], None]:
            return lambda number: self._raw.drop(order[number].location)

        sides = [
            timed("read", lambda number: self._store.read_state(ours[number]), drop(ours)),
            timed("pread", lambda number: self._raw.read(theirs[number].location), drop(theirs)),
        ]
        return interleave(sides, repeats=settings.repeats, warm_up=settings.warm_up)
