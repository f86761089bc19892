"""How fast the model reads: tokens per second by batch size, against what the machine multiplies at best."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from precog.backbones.protocol import Backbone
from precog.bench.ceilings import measure_ceilings, wait
from precog.bench.harness import Side, interleave, timed
from precog.bench.machine import Machine
from precog.bench.model import network_of, subject_of
from precog.bench.result import Result, Value
from precog.bench.sizes import check_sizes

_SEED = 5
_FIRST_TEXT_ID = 259  # ids below are control tokens and single bytes


@dataclass(frozen=True)
class EncodeSettings:
    """Sizes of the measurement.

    Attributes:
        batches: chunks that are read together.
        chunk_tokens: tokens of each chunk.
        repeats: rounds that count.
        warm_up: rounds that do not.
    """

    batches: tuple[int, ...] = (1, 2, 4, 8, 16)
    chunk_tokens: int = 255
    repeats: int = 3
    warm_up: int = 1

    def __post_init__(self) -> None:
        sizes = {"batches": min(self.batches, default=0), "chunk_tokens": self.chunk_tokens, "repeats": self.repeats}
        check_sizes("encode", sizes)


QUICK = EncodeSettings(batches=(1, 4), chunk_tokens=63, repeats=2, warm_up=1)


def bench_encode(
    backbone: Backbone,
    settings: EncodeSettings | None = None,
    *,
    quick: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Result:
    """Measures reading from nothing; no logits are computed, as when documents are indexed."""
    settings = settings or EncodeSettings()
    machine = Machine.here()
    say("the machine's limits")
    ceilings = measure_ceilings(backbone.device, backbone.encoding_dtype, quick=quick)
    say("reading")
    draw = random.Random(_SEED)
    top = backbone.tokenizer.vocab_size - 1
    chunks = [
        [draw.randint(_FIRST_TEXT_ID, top) for _ in range(settings.chunk_tokens)] for _ in range(max(settings.batches))
    ]
    sides = [_side(backbone, chunks[:size]) for size in settings.batches]
    rounds = interleave(sides, repeats=settings.repeats, warm_up=settings.warm_up)
    flops = flops_per_token(backbone)
    rows: list[Value] = []
    for size in settings.batches:
        seconds = rounds[f"{size}"].median
        tokens_per_sec = size * (settings.chunk_tokens + 1) / seconds
        rows.append(
            {
                "batch_chunks": size,
                "tokens_per_sec": tokens_per_sec,
                "batch_sec": seconds,
                "mfu": tokens_per_sec * flops / ceilings.matmul_flops_per_sec,
            }
        )
    return Result(
        name="encode",
        values={"prefill": rows, "chunk_tokens": settings.chunk_tokens + 1, "flops_per_token": flops},
        ratios={},
        ceiling={
            **ceilings.to_json(),
            "tokens_per_sec": ceilings.matmul_flops_per_sec / flops,
        },
        machine=machine,
        subject=subject_of(backbone),
        warm_up=settings.warm_up,
        repeats=settings.repeats,
        quick=quick,
        notes=("mfu: operations of the matrix products alone over the machine's best matrix product, same threads",),
    )


def flops_per_token(backbone: Backbone) -> int:
    """Operations of the matrix products that reading one token needs: no output head, no recurrence."""
    network = network_of(backbone)
    return network.flops_per_token() - 2 * network.embedding.weight.numel()


def _side(backbone: Backbone, chunks: Sequence[Sequence[int]]) -> Side:
    def read(_: int) -> None:
        backbone.encode_chunks(chunks)
        wait(backbone.device)

    return timed(f"{len(chunks)}", read)
