"""The machine at hand as an edge device: disk, reading, writing, finding, injecting and watts, measured now."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from precog.backbones.protocol import Backbone
from precog.encoders import Encoder
from precog.plan.device import EdgeDevice
from precog.plan.disk import measure_disk
from precog.plan.energy import POWERCAP, Energy, measure_energy
from precog.plan.probe import measure_speed
from precog.state import codec_named

QUESTION = "Who built the lighthouse of the island, and in which year was it finished?"
MOST_KEYS = 100_000
_REPEATS = 5
_WRITTEN = 16


@dataclass(frozen=True)
class MeasuredDevice:
    """What was measured.

    Attributes:
        device: with the watts over the stretch of reading and writing, where the kernel counts them.
        state_bytes: of a chunk's state in the chosen codec.
        notes: what a reader of the numbers has to know.
    """

    device: EdgeDevice
    state_bytes: int
    notes: tuple[str, ...]


def state_size(backbone: Backbone, codec: str) -> int:
    """Bytes of a stored state; of a model with attention, of one with room for all the tokens that it may hold."""
    return codec_named(codec).encoded_bytes(backbone.spec)


def measure_device(
    backbone: Backbone,
    encoder: Encoder,
    folder: Path,
    *,
    name: str,
    codec: str = "fp16",
    chunk_tokens: int = 512,
    num_keys: int = 10_000,
    powercap: Path = POWERCAP,
    say: Callable[[str], None] = lambda _: None,
) -> MeasuredDevice:
    """Measure everything.

    Args:
        backbone: the model, as it is open.
        encoder: of sentences.
        folder: on the disk that states would lie on.
        name: of the machine.
        codec: of states.
        chunk_tokens: that reading is measured at.
        num_keys: random ones that are searched, each of them; at most 100,000.
        powercap: folder of the kernel's counters of energy.
        say: told what is being measured.

    Raises:
        StorageError: the disk cannot be measured.
    """
    say("the disk")
    disk = measure_disk(folder)
    say("reading, writing, energy")
    rates: list[float] = []
    spent: list[float] = []

    def work() -> None:
        started = time.perf_counter()
        rates.extend(_rates(backbone, chunk_tokens))
        spent.append(time.perf_counter() - started)

    energy = measure_energy(work, powercap)
    watts, watts_note = _watts(energy, spent[0], backbone)
    say("states, sentence encoder, search")
    size = state_size(backbone, codec)
    open_rate = measure_speed(backbone, codec).open_bytes_per_sec
    keys = min(num_keys, MOST_KEYS)
    device = EdgeDevice(
        name=name,
        prefill_tok_per_sec=rates[0],
        decode_tok_per_sec=rates[1],
        flash_bytes_per_sec=disk.speed.bytes_per_sec,
        flash_latency_sec=disk.speed.latency_sec,
        watts=watts,
        encoder_sec=_median_sec(lambda: encoder.encode_query(QUESTION)),
        search_sec=_search_sec(keys, encoder.dim),
        inject_sec=size / open_rate,
        tokenize_sec=_median_sec(lambda: backbone.tokenizer.encode(QUESTION)),
    )
    notes = (
        f"reading and writing: {backbone.card.name} on {backbone.device}, {backbone.encoding_dtype}, "
        f"a chunk of {chunk_tokens:,} tokens",
        f"search: every one of {keys:,} random keys of {encoder.dim} components",
        f"disk: {_coldness(disk.is_cold)}",
        f"energy: {watts_note}",
    )
    return MeasuredDevice(device, size, notes)


def _rates(backbone: Backbone, chunk_tokens: int) -> tuple[float, float]:
    """Tokens read and tokens written a second, the scores of each written one included."""
    word = _word(backbone)
    ids = [*backbone.opening, *([word] * chunk_tokens)]
    state, _ = backbone.prefill(ids[: len(backbone.opening) + 1])
    read = min(_seconds(lambda: backbone.prefill(ids)) for _ in range(3))
    batch = backbone.open([state])
    seconds = []
    for _ in range(_WRITTEN + 1):
        started = time.perf_counter()
        batch, hidden = backbone.step(batch, [word])
        backbone.logits(hidden)
        seconds.append(time.perf_counter() - started)
    return chunk_tokens / max(read, 1e-9), 1 / max(statistics.median(seconds[1:]), 1e-9)


def _watts(energy: Energy, seconds: float, backbone: Backbone) -> tuple[float | None, str]:
    if backbone.device.type != "cpu":
        return None, "unavailable: the kernel counts the processor alone, not what the model computes on"
    if energy.joules is None:
        return None, f"unavailable: {energy.why}"
    return energy.joules / max(seconds, 1e-9), f"{energy.why}, over {seconds:.1f} s of reading and writing"


def _coldness(is_cold: bool | None) -> str:
    if is_cold is None:
        return "a temporary file, dropped from memory; whether it came from the disk is not counted here"
    if is_cold:
        return "a temporary file, read from the disk"
    return "a temporary file that the system kept in memory: the disk itself is slower"


def _word(backbone: Backbone) -> int:
    tokenizer = backbone.tokenizer
    return next(token for token in range(tokenizer.vocab_size) if tokenizer.token_bytes(token).strip())


def _search_sec(num_keys: int, dim: int) -> float:
    keys = np.random.default_rng(0).standard_normal((num_keys, dim), dtype=np.float32)
    return _median_sec(lambda: np.argmax(keys @ keys[0]))


def _seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def _median_sec(call: Callable[[], object]) -> float:
    call()
    return statistics.median(_seconds(call) for _ in range(_REPEATS))
