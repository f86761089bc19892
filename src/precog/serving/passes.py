"""Requests that one pass of the model answers together.

An error of a pass that several share is looked for alone: each of them is tried again by itself, so that only the one
that is to blame fails.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import functional

from precog.backbones.protocol import Backbone, PaddedBackbone
from precog.serving.request import Call, Encode, Read, Request, Step
from precog.state import StateBatch

R = TypeVar("R", bound=Request[Any])
MOST_ROWS = 256  # of one pass of steps
_PADDED = 1.5  # times the tokens that a pass may have with its padding


def each_alone(requests: Sequence[R], work: Callable[[Sequence[R]], None]) -> None:
    """Does work for several requests at once, and where that fails, for each alone."""
    try:
        work(requests)
    except Exception as error:
        if len(requests) == 1:
            requests[0].fail(error)
            return
        for request in requests:
            if not request.has_ended:
                each_alone([request], work)


def steps_together(steps: Sequence[Step]) -> list[Step]:
    """Those of the steps, in turn, that one pass answers, the first one among them."""
    first, chosen, rows = steps[0], [steps[0]], len(steps[0].batch)
    if not _fits(first):
        return chosen  # what is wrong with it is its own affair
    for step in steps[1:]:
        rows += len(step.batch)
        if rows > MOST_ROWS:
            break
        if step.is_live == first.is_live and _fits(step):
            chosen.append(step)
    return chosen


def _fits(step: Step) -> bool:
    return len(step.batch) == len(step.token_ids)


def run_steps(backbone: Backbone, steps: Sequence[Step]) -> None:
    """One token for every row of all of them."""
    token_ids = [token_id for step in steps for token_id in step.token_ids]
    batch, hidden = backbone.step(StateBatch.side_by_side([step.batch for step in steps]), token_ids)
    for step, result in zip(steps, _parts(batch, hidden, [len(step.batch) for step in steps]), strict=True):
        step.done(result)


def reads_together(backbone: Backbone, reads: Sequence[Read], most: int) -> list[Read]:
    """Those of the reads, in turn, whose next pieces one pass takes, the first one among them.

    Args:
        backbone: the model; where it cannot read unequal lengths together, pieces are as long as the first one.
        reads: what is to be read.
        most: tokens of a piece, and of the pass, padding counted.
    """
    first = reads[0]
    chosen, rows, longest = [first], first.tokens.shape[0], first.piece(most)
    tokens = rows * longest
    if not _fits_rows(first):
        return chosen  # what is wrong with it is its own affair
    is_padded = isinstance(backbone, PaddedBackbone)
    for read in reads[1:]:
        length, count = read.piece(most), read.tokens.shape[0]
        fits = _fits_rows(read) and read.is_live == first.is_live and (is_padded or length == longest)
        padded = (rows + count) * max(longest, length)
        if fits and padded <= min(most, _PADDED * (tokens + count * length)):
            chosen.append(read)
            rows, longest, tokens = rows + count, max(longest, length), tokens + count * length
    return chosen


def _fits_rows(read: Read) -> bool:
    return len(read.batch) == read.tokens.shape[0] and read.tokens.shape[1] > 0


def run_reads(
    backbone: Backbone, reads: Sequence[Read], most: int, finish: Callable[[Read, StateBatch, Tensor], None]
) -> None:
    """The next piece of all of them.

    Args:
        backbone: the model.
        reads: what is to be read.
        most: tokens of a piece.
        finish: told states and hidden vectors of those that have read everything.
    """
    batch = StateBatch.side_by_side([read.batch for read in reads])
    lengths = [read.piece(most) for read in reads]
    pieces = [read.tokens[:, :length] for read, length in zip(reads, lengths, strict=True)]
    if len(set(lengths)) == 1:
        batch, hidden = backbone.read(batch, torch.cat(pieces))
    else:
        assert isinstance(backbone, PaddedBackbone)
        padded = torch.cat([functional.pad(piece, (0, max(lengths) - piece.shape[1])) for piece in pieces])
        each = [piece.shape[1] for piece in pieces for _ in range(piece.shape[0])]
        batch, hidden = backbone.read_padded(batch, padded, each)
    sizes = [len(read.batch) for read in reads]
    for read, length, (states, last) in zip(reads, lengths, _parts(batch, hidden, sizes), strict=True):
        if read.advance(states, length):
            finish(read, states, last)


def encodes_together(encodes: Sequence[Encode]) -> list[Encode]:
    """Those whose states have the same room, the first one among them."""
    return [encode for encode in encodes if encode.backbone.spec == encodes[0].backbone.spec]


def run_encodes(encodes: Sequence[Encode], most: int) -> None:
    """Some chunks of all of them."""
    portions: list[tuple[Encode, list[int]]] = []
    for encode in encodes:
        chosen = encode.next_chunks(most) or ([] if portions else encode.first)
        if chosen:
            portions.append((encode, chosen))
            most -= sum(encode.lengths[i] for i in chosen)
    states = encodes[0].backbone.encode_chunks([encode.chunks[i] for encode, chosen in portions for i in chosen])
    start = 0
    for encode, chosen in portions:
        encode.advance(chosen, states[start : start + len(chosen)])
        start += len(chosen)


def run_call(calls: Sequence[Call[Any]]) -> None:
    """One of them."""
    for call in calls:
        call.run()


def _parts(batch: StateBatch, hidden: Tensor, sizes: Sequence[int]) -> list[tuple[StateBatch, Tensor]]:
    return list(zip(batch.parts(sizes), torch.split(hidden, list(sizes)), strict=True))
