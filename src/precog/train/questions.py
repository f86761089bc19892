"""A step's chunks and questions on the device, and what is done to the encoded states before they are asked.

A state that is stored, cut down to some of its layers or mixed with another is not the state that reading leaves
behind. Rows that start from such states in training teach the model to answer from them. Every choice is a function
of a seed, so that a resumed run makes the same ones.
"""

import dataclasses
import math

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from precog.backbones.tenns.model import TennsModel
from precog.train.data.batches import Batch
from precog.train.data.tokens import EOS_ID, MAX_ANSWER_TOKENS

LONGEST_ANSWER = MAX_ANSWER_TOKENS + 1
"""Tokens of the longest answer that data preparation lets through, the end counted."""
SCALED_GROUP = 64
"""Most reals that share a scale where a state is rounded to few bits."""


@dataclasses.dataclass(frozen=True)
class QuestionBatch:
    """One step's data on the device.

    Attributes:
        context: [B, T] chunk tokens, opened by the boundary token, right-padded.
        context_length: [B].
        questions: [R, U] boundary token, prompt, answer, end; right-padded.
        prompt_length, row_length: [R] tokens before the answer, tokens in all.
        owner: [R] the chunk whose state the row starts from.
        answerable: [R] False where the owner's chunk does not answer.
        twice: chunks that are read twice; None for none.
        bits: [R] 16, 8 or 4 where the row's state is rounded as if it had been stored so, 32 elsewhere.
        kept: [L, R] False where a layer of the row's state is left out.
        other: [R] another chunk, whose state is composed with the row's own …
        own_weight: [R] … as own_weight · own + (1 − own_weight) · other; 1 leaves it alone.
        joined: [R] True where the other state comes first and the own one is appended (rule ``concat``).
        counted: [R] False where a row stands a second time and is scored no more; None where all are scored.
        answers: where every answer token stands; found on the device when None, which waits for it.
    """

    context: Int64[Tensor, "B T"]
    context_length: Int64[Tensor, " B"]
    questions: Int64[Tensor, "R U"]
    prompt_length: Int64[Tensor, " R"]
    row_length: Int64[Tensor, " R"]
    owner: Int64[Tensor, " R"]
    answerable: Bool[Tensor, " R"]
    twice: Int64[Tensor, " K"] | None = None
    bits: Int64[Tensor, " R"] | None = None
    kept: Bool[Tensor, "L R"] | None = None
    other: Int64[Tensor, " R"] | None = None
    own_weight: Float[Tensor, " R"] | None = None
    joined: Bool[Tensor, " R"] | None = None
    counted: Bool[Tensor, " R"] | None = None
    answers: "AnswerTokens | None" = None


@dataclasses.dataclass(frozen=True)
class AnswerTokens:
    """Every answer token of a batch that is scored.

    Attributes:
        rows, offsets: [K] the row, and the token's number in the answer.
        targets: [K] what comes there; the end token at once where the chunk does not answer.
        present: [K] False for filling.
        longest: tokens of the longest answer, the end counted, or more.
    """

    rows: Int64[Tensor, " K"]
    offsets: Int64[Tensor, " K"]
    targets: Int64[Tensor, " K"]
    present: Bool[Tensor, " K"]
    longest: int


def answer_tokens(
    questions: Int64[Tensor, "R U"],
    prompt_length: Int64[Tensor, " R"],
    row_length: Int64[Tensor, " R"],
    answerable: Bool[Tensor, " R"],
    per_row: int = 0,
    counted: Bool[Tensor, " R"] | None = None,
) -> AnswerTokens:
    """The answer tokens of (counted) rows, filled up to ``per_row`` times the rows where that holds them."""
    sizes = torch.where(answerable, row_length - prompt_length, 1)
    if counted is not None:
        sizes = sizes * counted
    longest = max(1, int(sizes.max()))
    if per_row:
        longest = max(longest, LONGEST_ANSWER)
    rows = torch.repeat_interleave(torch.arange(len(sizes), device=sizes.device), sizes)
    offsets = torch.arange(len(rows), device=sizes.device) - (sizes.cumsum(0) - sizes)[rows]
    targets = questions[rows, prompt_length[rows] + offsets].where(answerable[rows], EOS_ID)
    present = torch.ones_like(rows, dtype=torch.bool)
    missing = per_row * len(sizes) - len(rows)
    if missing > 0:
        rows, offsets, targets, present = (functional.pad(x, (0, missing)) for x in (rows, offsets, targets, present))
    return AnswerTokens(rows, offsets, targets, present, longest)


@dataclasses.dataclass(frozen=True)
class Variation:
    """How a batch is varied; shares are of the rows, or of the chunks where it says so.

    Attributes:
        unanswerable: rows asked of another chunk of the batch.
        twice: share of the chunks that are read twice.
        rounded: rows whose state is rounded to 16, 8 or 4 bits.
        layers: rows that keep only some layers, mostly the bottom ones.
        composed: rows whose state is averaged or joined with another chunk's.
        num_layers: L of the model.
        each_once: rows that a batch marks as no longer valid are not scored.
        answer_tokens_per_row: scored answer tokens are filled up to so many times the rows, so that shapes do not
            change; 0 for no filling.
    """

    unanswerable: float = 0.0
    twice: float = 0.0
    rounded: float = 0.0
    layers: float = 0.0
    composed: float = 0.0
    num_layers: int = 1
    each_once: bool = False
    answer_tokens_per_row: int = 0

    def plain(self) -> "Variation":
        """The same shapes, nothing varied, every row scored once: for evaluation."""
        return dataclasses.replace(
            self, unanswerable=0.0, twice=0.0, rounded=0.0, layers=0.0, composed=0.0, each_once=True
        )


def place(arrays: Batch, device: torch.device, variation: Variation, seed: tuple[int, ...]) -> QuestionBatch:
    """Put a batch on the device, its chunks and rows sorted by length, varied under ``seed``.

    A row without answer tokens is one that its chunk does not answer; so is a row that is moved to another chunk.
    """
    rng = np.random.default_rng(seed)
    num_chunks, num_rows = len(arrays["context"]), len(arrays["owner"])
    by_length = np.argsort(arrays["context_len"], kind="stable")
    place_of = np.empty(num_chunks, dtype=np.int64)
    place_of[by_length] = np.arange(num_chunks)
    rows = np.argsort(arrays["row_len"], kind="stable")
    owner = place_of[arrays["owner"][rows]]
    row_length, prompt_length = arrays["row_len"][rows], arrays["prompt_len"][rows]
    has_answer = row_length - prompt_length > 1
    moved = has_answer & (rng.random(num_rows) < variation.unanswerable) & (num_chunks > 1)
    elsewhere = (owner + rng.integers(1, max(2, num_chunks), num_rows)) % num_chunks
    owner = np.where(moved, elsewhere, owner)
    answerable = has_answer & ~moved

    def put(array: NDArray[np.generic]) -> Tensor:
        return move(torch.from_numpy(np.ascontiguousarray(array)))

    def move(tensor: Tensor) -> Tensor:
        return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)

    varied: dict[str, Tensor] = {}
    num_twice = round(variation.twice * num_chunks)
    if num_twice:
        varied["twice"] = put(np.sort(rng.permutation(num_chunks)[:num_twice]))
    if variation.rounded:
        bits = rng.choice(np.array([16, 8, 4]), num_rows)
        varied["bits"] = put(np.where(rng.random(num_rows) < variation.rounded, bits, 32).astype(np.int64))
    if variation.layers:
        varied["kept"] = put(_kept_layers(variation.num_layers, rng.random(num_rows) < variation.layers, rng))
    if variation.composed and num_chunks > 1:
        composed = rng.random(num_rows) < variation.composed
        joined = composed & (rng.random(num_rows) < 0.5)
        varied["other"] = put((owner + rng.integers(1, num_chunks, num_rows)) % num_chunks)
        varied["joined"] = put(joined)
        weight = np.where(composed & ~joined, rng.uniform(0.4, 0.9, num_rows), 1.0)
        varied["own_weight"] = put(weight.astype(np.float32))
    questions = torch.from_numpy(arrays["questions"][rows].astype(np.int64))
    prompts, lengths = (torch.from_numpy(x.astype(np.int64)) for x in (prompt_length, row_length))
    counted = torch.from_numpy(arrays["valid"][rows]) if variation.each_once else None
    if counted is not None:
        varied["counted"] = move(counted)
    found = answer_tokens(
        questions, prompts, lengths, torch.from_numpy(answerable), variation.answer_tokens_per_row, counted
    )
    return QuestionBatch(
        context=put(arrays["context"][by_length].astype(np.int64)),
        context_length=put(arrays["context_len"][by_length].astype(np.int64)),
        questions=move(questions),
        prompt_length=move(prompts),
        row_length=move(lengths),
        owner=put(owner.astype(np.int64)),
        answerable=put(answerable),
        answers=AnswerTokens(
            move(found.rows), move(found.offsets), move(found.targets), move(found.present), found.longest
        ),
        **varied,
    )


def _kept_layers(layers: int, chosen: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.bool_]:
    """Bool [L, R]: three times in four only the bottom layers, else any half of them."""
    rows = len(chosen)
    lowest = np.arange(layers)[:, None] < rng.integers(max(1, layers // 3), layers + 1, rows)[None]
    scattered = rng.random((layers, rows)) < 0.5
    kept = np.where(rng.random(rows) < 0.75, lowest, scattered)
    return kept | ~chosen[None]


def rounded(state: Float[Tensor, "L R S"], bits: Int64[Tensor, " R"]) -> Float[Tensor, "L R S"]:
    """States as storing them in 16, 8 or 4 bits would leave them; gradients pass through unchanged.

    With eight and four bits up to `SCALED_GROUP` neighbouring reals share a scale.
    """
    with torch.no_grad():
        grouped = state.reshape(*state.shape[:-1], -1, math.gcd(SCALED_GROUP, state.shape[-1]))
        largest = grouped.abs().amax(-1, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny)
        levels = torch.where(bits == 8, 127.0, 7.0).to(state.dtype)[None, :, None, None]
        coarse = ((grouped / largest * levels).round() * (largest / levels)).flatten(-2)
        half = state.half().to(state.dtype)
        stored = torch.where((bits == 16)[None, :, None], half, coarse)
        error = torch.where((bits < 32)[None, :, None], stored - state, torch.zeros_like(state))
    return state + error


def joined(model: TennsModel, first: Tensor, then: Tensor, time: Float[Tensor, "L R g"]) -> Float[Tensor, "L R S"]:
    """What reading leaves behind when ``then`` was read after ``first`` (ARCHITECTURE, rule ``concat``).

    Exact in the first layer, approximate above it.

    Args:
        model: whose decay rates apply.
        first, then: [L, R, S] states, each read from zero.
        time: τ = Σ Δ of the text that left ``then``.
    """
    kept = []
    for block, state, tau in zip(model.blocks, first, time, strict=True):
        real, imag = block.decay_rates()  # type: ignore[operator]  # a TennsBlock
        if block.config.mixer == "outer":  # type: ignore[union-attr]
            decay = (tau * real).exp().repeat_interleave(state.shape[-1] // tau.shape[-1], dim=-1)
            kept.append(decay * state)
            continue
        modes = state.shape[-1] // 2
        step = tau.repeat_interleave(modes // tau.shape[-1], dim=-1)
        radius, phase = (step * real).exp(), step * imag
        a, b = radius * phase.cos(), radius * phase.sin()
        re, im = state[:, :modes], state[:, modes:]
        kept.append(torch.cat((a * re - b * im, a * im + b * re), dim=-1))
    return torch.stack(kept) + then


def varied_states(
    model: TennsModel, batch: QuestionBatch, states: Float[Tensor, "L B S"], time: Float[Tensor, "L B g"]
) -> Float[Tensor, "L R S"]:
    """The state each row starts from: its chunk's, composed, cut and rounded as the batch says."""
    own = states.index_select(1, batch.owner)
    if batch.other is not None and batch.own_weight is not None and batch.joined is not None:
        other = states.index_select(1, batch.other)
        weight = batch.own_weight[None, :, None]
        mean = weight * own + (1 - weight) * other
        after = joined(model, other, own, time.index_select(1, batch.owner))
        own = torch.where(batch.joined[None, :, None], after, mean)
    if batch.kept is not None:
        own = own * batch.kept[:, :, None]
    if batch.bits is not None:
        own = rounded(own, batch.bits)
    return own
