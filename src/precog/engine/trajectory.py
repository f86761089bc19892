"""The states along a chunk: what the K-dial retains of it (paper §5.2).

A state taken after any token of a chunk is exact for whatever opens a new segment, a question or another chunk: the
convolution's window ends where the segment does. It may not be continued in the middle of the chunk.
"""

from collections.abc import Sequence

import torch

from precog.backbones.gates import AlongBackbone
from precog.backbones.protocol import Backbone
from precog.errors import StateError, UsageError
from precog.state import State


def trajectory(backbone: Backbone, chunk_ids: Sequence[int], positions: Sequence[int]) -> list[State]:
    """Boundary states after the first p tokens of a chunk, for rising p.

    The state of the whole chunk is bit for bit the one that `Backbone.encode_chunks` makes of the chunk alone, however
    many others are kept beside it: a dial changes what is stored, never an answer from the whole chunk.

    Args:
        backbone: the model.
        chunk_ids: ids of the chunk, without boundary.
        positions: tokens of the chunk read, at least one of them, each more than the one before; what the reading
            puts in front of a chunk, boundary and template, is read besides. The last may be short of the whole chunk.

    Returns:
        One state per position; its ``num_tokens`` counts what stands in front of the chunk.

    Raises:
        UsageError: the positions do not rise, or lie outside the chunk.
        StateError: states inside a chunk are asked for and the model's chunks end with more than their own text, or
            are read twice: no prefix of such a reading is the reading of a prefix.
        InputError: the chunk is empty or holds a control token.
    """
    wanted, whole = list(positions), len(chunk_ids)
    if not wanted or wanted != sorted(set(wanted)) or wanted[0] < 1 or wanted[-1] > max(1, whole):
        raise UsageError("positions of a chunk must rise", given=_shown(wanted), expected=f"between 1 and {whole}")
    reading = backbone.reading(chunk_ids)
    if wanted == [whole]:
        return backbone.encode_chunks([chunk_ids])
    _check_prefixes(backbone)
    start = len(reading) - whole
    if isinstance(backbone, AlongBackbone):
        states = backbone.states_along(reading, [start + position for position in wanted])
        if states is not None:
            return states
    return read_piecewise(backbone, chunk_ids, wanted)


def read_piecewise(backbone: Backbone, chunk_ids: Sequence[int], positions: Sequence[int]) -> list[State]:
    """`trajectory` of any backbone: from live state to live state, and the whole chunk once more for its own state.

    Args:
        backbone: the model; its chunks are read once, with nothing after them.
        chunk_ids: ids of the chunk.
        positions: as `trajectory` has checked them.
    """
    reading, whole = backbone.reading(chunk_ids), len(chunk_ids)
    read, start = 0, len(reading) - whole
    batch = backbone.open([backbone.empty_state()])
    states: list[State] = []
    for position in positions:
        if position == whole:
            return [*states, *backbone.encode_chunks([chunk_ids])]
        piece = reading[read : start + position]
        # one token is a step, which spends nothing on the machinery of a scan
        batch, _ = backbone.step(batch, piece) if len(piece) == 1 else backbone.read(batch, torch.tensor([piece]))
        read = start + position
        state = batch.row(0)
        states.append(state if backbone.spec.carries_tail else state.at_boundary())
    return states


def _check_prefixes(backbone: Backbone) -> None:
    """Refuses readings whose prefixes are not readings of prefixes."""
    if backbone.encode_mode != "once":
        raise StateError(
            "only a chunk that is read once has states inside it",
            given=f"encode mode {backbone.encode_mode}",
            expected="once",
            hint="keep one state per chunk (K = 1)",
        )
    after = backbone.card.chunk_template.split("{chunk}")[-1]
    if after:
        raise StateError(
            "the model's chunk template goes on after the chunk, so that it has no states inside it",
            given=backbone.card.chunk_template,
            expected="a template that ends with {chunk}",
            hint="keep one state per chunk (K = 1)",
        )


def _shown(positions: list[int]) -> str:
    return f"{len(positions)} positions: {', '.join(map(str, positions[:6]))}{' …' if len(positions) > 6 else ''}"
