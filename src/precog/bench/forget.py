"""Forgetting with proof in a memory of thousands of deposits, and whether it holds.

A model reads every deposit of two memories under the same byte budget, so that states expire in both. One is told
everything, and forgets what a speaker has said in a certain time; the other was never told that. Then nothing of it
may be in any byte of the first, and its semantic states must be the other's, bit for bit. What says so is searched for
a second time by the plainest means: ``bytes.find`` over all files. Last, copies are planted, which must be found.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from precog.backbones.protocol import Backbone
from precog.bench.filling import temporary_room
from precog.bench.history import OnDeposits, create_memory, said_at
from precog.bench.machine import Machine
from precog.bench.model import subject_of
from precog.bench.result import Ratio, Result, Value
from precog.bench.sizes import check_sizes
from precog.bench.synthetic import TextMaker
from precog.bench.watched import WatchedEncoder
from precog.encoders import Encoder, load_encoder
from precog.memory.chunking import chunks_of
from precog.memory.deposit import UNIT_DEPOSITS, deposit
from precog.memory.forget import Forgotten, forget
from precog.memory.opened import OpenMemory
from precog.memory.recall import Recaller, refresh_index
from precog.memory.selection import Selection
from precog.memory.settings import MemorySettings
from precog.memory.utterance import Utterance
from precog.store.memory import Deposit, Semantic

_SPEAKERS = ("Ana", "Ben", "Cleo")
_GONE = "Ben"
_WORDS = 12
_LEAST = 30


@dataclass(frozen=True)
class ForgetSettings:
    """Sizes of the measurement.

    Attributes:
        num_deposits: that the memory is told.
        kept_share: of their states that fits into the byte budget.
        num_samples: deposits of which text, keys and a window of the state are searched for by plain means.
    """

    num_deposits: int = 5000
    kept_share: float = 0.5
    num_samples: int = 100

    def __post_init__(self) -> None:
        check_sizes("forget", {"--deposits": self.num_deposits}, _LEAST)


QUICK = ForgetSettings(num_deposits=60, num_samples=10)


def sized(*, quick: bool, num_deposits: int | None) -> ForgetSettings:
    """The sizes that were asked for; the usual ones where nothing was."""
    settings = QUICK if quick else ForgetSettings()
    return settings if num_deposits is None else replace(settings, num_deposits=num_deposits)


@dataclass
class _Clock:
    """Seconds between the first and the last byte that were searched."""

    seconds: list[float] = field(default_factory=list)

    def __call__(self, done: int, total: int) -> None:
        self.seconds.append(time.perf_counter())


def bench_forget(
    backbone: Backbone,
    settings: ForgetSettings | None = None,
    *,
    encoder: str | Encoder | None = None,
    folder: Path | None = None,
    quick: bool = False,
    say: Callable[[str], None] = lambda _: None,
    on_deposits: OnDeposits = lambda done, total: None,
) -> Result:
    """Measures on two temporary memories.

    Args:
        backbone: the model that reads.
        settings: sizes.
        encoder: its name, or open already.
        folder: where the memories are made.
        quick: said in the result.
        say: told what is being done.
        on_deposits: told how many are read.
    """
    settings = settings or ForgetSettings()
    keys = WatchedEncoder(load_encoder(encoder))
    machine = Machine.here()
    said = _conversation(settings.num_deposits)
    since, until = said_at(settings.num_deposits // 3), said_at(2 * settings.num_deposits // 3)
    stays = [entry for entry in said if entry.speaker != _GONE or entry.time is None or not since <= entry.time < until]
    with temporary_room(folder) as room:
        say(f"reading {len(said):,} deposits, and {len(stays):,} without what is to be forgotten")
        with (
            _told(room / "all", said, backbone, keys, settings, on_deposits) as memory,
            _told(room / "never", stays, backbone, keys, settings, on_deposits) as never,
        ):
            size = memory.store.size()
            chosen = Selection(speaker=_GONE, after=since, before=until).find(memory.store, _recaller(memory))
            samples = _samples(memory, chosen, settings.num_samples)
            before = _plainly_found(memory.store.path, samples)
            say(f"forgetting {len(chosen):,} deposits with proof")
            clock = _Clock()
            begun = time.perf_counter()
            report = forget(memory, chosen, proof=True, on_bytes=clock)
            forget_sec = time.perf_counter() - begun
            search_sec = clock.seconds[-1] - clock.seconds[0]
            say("searching once more, plainly")
            after = _plainly_found(memory.store.path, samples)
            ours, theirs = _semantic(memory), _semantic(never)
            differ = sum(ours.get(group) != theirs.get(group) for group in {*ours, *theirs})
            say("planting copies")
            planted, found = _planted(memory)
    values: dict[str, Value] = {
        "num_deposits": size.num_deposits,
        "num_states_kept": size.num_states,
        "num_states_expired": size.num_deposits - size.num_states,
        "num_forgotten": len(report.ids),
        "num_rebuilt": len(report.rebuilt),
        "num_searched_for": report.searched_for,
        "num_files": report.files_searched,
        "files_bytes": report.bytes_searched,
        "forget_total_sec": forget_sec,
        "search_total_sec": search_sec,
        "search_bytes_per_sec": report.bytes_searched / max(search_sec, 1e-9),
        "num_forgotten_with_states": sum(entry.num_states > 0 for entry in chosen),
        "num_samples": len(samples),
        "num_samples_found_before": before,
        "num_semantic_states": len(theirs),
        "num_planted": len(planted),
    }
    missed = len(set(planted) ^ set(found.hit_files))
    ratios = {
        "hits": Ratio(float(report.hits), 0.0, True, "pieces of what was forgotten that the proof still finds"),
        "plain_hits": Ratio(float(after), 0.0, True, "sampled pieces that bytes.find finds in any file"),
        "semantic_differ": Ratio(float(differ), 0.0, True, "semantic states that differ from the other memory's"),
        "planted_missed": Ratio(float(missed), 0.0, True, "files with planted copies that are not named"),
        "samples_before": Ratio(before / len(samples), 1.0, False, "sampled pieces that were there before / all"),
    }
    return Result(
        name="forget",
        values=values,
        ratios=ratios,
        ceiling={},
        machine=machine,
        subject=subject_of(backbone),
        warm_up=0,
        repeats=1,
        quick=quick,
        notes=("forgotten: what one of three speakers said in the middle third of the time, half of it with states",),
    )


def _conversation(count: int) -> list[Utterance]:
    maker = TextMaker(5)
    return [
        Utterance(f"{maker.passage(_WORDS)} Number {number}.", said_at(number), _SPEAKERS[number % len(_SPEAKERS)])
        for number in range(count)
    ]


def _told(
    folder: Path,
    said: list[Utterance],
    backbone: Backbone,
    keys: Encoder,
    settings: ForgetSettings,
    on_deposits: OnDeposits,
) -> OpenMemory:
    layout = MemorySettings("", "", keys.fingerprint).form.layout(backbone.spec, backbone.tokenizer.vocab_size)
    budget = max(1, int(settings.num_deposits * settings.kept_share)) * layout.record_bytes
    memory = create_memory(folder, backbone, keys, budget_bytes=budget, threshold=0.0)
    for start in range(0, len(said), UNIT_DEPOSITS):
        unit = said[start : start + UNIT_DEPOSITS]
        deposit(memory, chunks_of(unit, backbone.tokenizer, max_tokens=memory.settings.chunk_tokens))
        on_deposits(start + len(unit), len(said))
    refresh_index(memory.store, keys.fingerprint)
    return memory


def _recaller(memory: OpenMemory) -> Recaller:
    return Recaller(memory.store, memory.encoder)


def _samples(memory: OpenMemory, chosen: list[Deposit], count: int) -> list[bytes]:
    """Of some deposits: the text, the first key, and a window of the state, where it has not expired."""
    draw = np.random.default_rng(0)
    picked = [chosen[row] for row in sorted(draw.choice(len(chosen), min(count, len(chosen)), replace=False).tolist())]
    samples = [entry.info.text.encode() for entry in picked]
    samples += [entry.keys[0].tobytes() for entry in memory.store.iter_keys([entry.id for entry in picked])]
    windows = [window for entry in chosen if (window := _window(memory, entry, draw))]
    return [*samples, *windows[:count]]


def _window(memory: OpenMemory, entry: Deposit, draw: np.random.Generator) -> bytes:
    record = memory.store.read_state(entry.id)
    if record is None:
        return b""
    at = 64 * int(draw.integers(len(record.state) // 64))
    return record.state[at : at + 64].tobytes()


def _plainly_found(folder: Path, samples: list[bytes]) -> int:
    found = set()
    for path in folder.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            found |= {sample for sample in samples if data.find(sample) >= 0}
    return len(found)


def _semantic(memory: OpenMemory) -> dict[tuple[str, str], tuple[bytes, bytes, int, int]]:
    states = {}
    for entry in memory.store.semantic_states():
        if isinstance(entry, Semantic):
            counts = entry.num_deposits, entry.num_tokens
            states[entry.group] = (entry.recurrent.tobytes(), entry.decay_time.tobytes(), *counts)
    return states


def _planted(memory: OpenMemory) -> tuple[list[str], Forgotten]:
    """Copies in files that do not belong there, at odd offsets, of one more deposit, which is then forgotten."""
    store = memory.store
    entry = next(entry for entry in store.deposits() if entry.num_states)
    record, keys = store.read_state(entry.id), next(iter(store.iter_keys([entry.id])))
    assert record is not None
    copies = {
        "note.txt": entry.info.text.encode(),
        "key.bin": keys.keys[0].tobytes(),
        "window.bin": record.state[128:192].tobytes(),
    }
    paths = []
    for name, data in copies.items():
        path = store.path / "stray" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"odd" + data + b"!")
        paths.append(str(path))
    return paths, forget(memory, [entry], proof=True)
