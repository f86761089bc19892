"""How fast the model speaks: milliseconds a token, against reading its weights from memory once."""

import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from precog.backbones.protocol import Backbone
from precog.backbones.tenns.packed import PackedEmbedding, is_packed
from precog.bench.ceilings import measure_ceilings, wait
from precog.bench.harness import Side, interleave
from precog.bench.machine import Machine
from precog.bench.model import network_of, subject_of
from precog.bench.result import Result, Value
from precog.bench.sizes import check_sizes

_TOKEN = 1000


@dataclass(frozen=True)
class DecodeSettings:
    """Sizes of the measurement.

    Attributes:
        batches: branches that are continued together: 1 is free decoding, 4 a beam.
        tokens: decoded in a row in each round.
        repeats: rounds that count.
        warm_up: rounds that do not.
    """

    batches: tuple[int, ...] = (1, 4, 16)
    tokens: int = 16
    repeats: int = 5
    warm_up: int = 1

    def __post_init__(self) -> None:
        sizes = {"batches": min(self.batches, default=0), "tokens": self.tokens, "repeats": self.repeats}
        check_sizes("decode", sizes)


QUICK = DecodeSettings(batches=(1, 4), tokens=4, repeats=2, warm_up=1)
LARGE = DecodeSettings(batches=(1, 4), tokens=8, repeats=3, warm_up=1)
LARGE_PARAMETERS = 400_000_000


def sized(backbone: Backbone, *, quick: bool = False) -> DecodeSettings:
    """Sizes that end in a minute, whatever the model."""
    if quick:
        return QUICK
    return LARGE if network_of(backbone).num_parameters() > LARGE_PARAMETERS else DecodeSettings()


def bench_decode(
    backbone: Backbone,
    settings: DecodeSettings | None = None,
    *,
    quick: bool = False,
    build_sec: float | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Result:
    """Measures steps from a live state, the scores of the whole vocabulary included.

    Args:
        backbone: the model.
        settings: sizes; those of `sized` when None.
        quick: small sizes of the machine's limits.
        build_sec: how long the model took to open, to be reported.
        say: told what is going on.
    """
    settings = settings or sized(backbone, quick=quick)
    machine = Machine.here()
    say("the machine's limits")
    ceilings = measure_ceilings(backbone.device, backbone.encoding_dtype, quick=quick)
    say("decoding")
    sides = [_side(backbone, size, settings.tokens) for size in settings.batches]
    rounds = interleave(sides, repeats=settings.repeats, warm_up=settings.warm_up)
    num_bytes = weight_bytes(backbone)
    packed = is_packed(network_of(backbone))
    limit_sec = num_bytes / ceilings.bandwidth_bytes_per_sec
    rows: list[Value] = []
    for size in settings.batches:
        seconds = rounds[f"{size}"].median
        rows.append(
            {
                "branches": size,
                "token_sec": seconds,
                "step_sec": rounds[f"{size} step"].median,
                "logits_sec": rounds[f"{size} logits"].median,
                "tokens_per_sec": size / seconds,
                "share_of_bandwidth": limit_sec / seconds,
            }
        )
    return Result(
        name="decode",
        values={
            "decode": rows,
            "weight_bytes": num_bytes,
            "bits_per_weight": 8 * num_bytes / read_weights(backbone),
            "peak_memory_bytes": peak_memory_bytes(),
            "packed": packed,
            "build_sec": build_sec,
        },
        ratios={},
        ceiling={**ceilings.to_json(), "token_sec": limit_sec, "tokens_per_sec": 1 / limit_sec},
        machine=machine,
        subject=subject_of(backbone),
        warm_up=settings.warm_up,
        repeats=settings.repeats,
        quick=quick,
        notes=(
            "share_of_bandwidth: time to read all weights once at the higher of two bandwidths, over the time taken",
            *(["packed matrices: weights stay INT4, INT8 or BF16 in memory; products in BF16"] if packed else []),
        ),
    )


def weight_bytes(backbone: Backbone) -> int:
    """Bytes of the weights that one token reads: all matrices and the output head; of the embedding, one row."""
    network = network_of(backbone)
    tables = (nn.Embedding, PackedEmbedding)
    skipped = tables if network.head is not None else ()
    read: dict[int, int] = {}
    for module in network.modules():
        if not isinstance(module, skipped):
            for weight in (*module.parameters(recurse=False), *module.buffers(recurse=False)):
                read[weight.data_ptr()] = weight.nbytes
    return sum(read.values())


def read_weights(backbone: Backbone) -> int:
    """How many weights those are."""
    network = network_of(backbone)
    config = network.config
    return network.num_parameters() - (0 if config.tied else config.vocabulary * config.width)


def peak_memory_bytes() -> int:
    """The most memory that this process has held so far, mapped files included."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _side(backbone: Backbone, branches: int, tokens: int) -> Side:
    start, _ = backbone.prefill([backbone.tokenizer.boundary_id, *range(_TOKEN, _TOKEN + 8)])
    batch = backbone.open([start] * branches)

    def decode(_: int) -> dict[str, float]:
        going = batch
        step_sec = logits_sec = 0.0
        for number in range(tokens):
            begun = time.perf_counter()
            going, hidden = backbone.step(going, [_TOKEN + number] * branches)
            wait(backbone.device)
            stepped = time.perf_counter()
            backbone.logits(hidden).argmax(-1)
            logits_sec += time.perf_counter() - stepped
            step_sec += stepped - begun
        return {
            f"{branches}": (step_sec + logits_sec) / tokens,
            f"{branches} step": step_sec / tokens,
            f"{branches} logits": logits_sec / tokens,
        }

    return decode
