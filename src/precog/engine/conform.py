"""Is a model's state all it remembers? The conformance table of one model, for any text and any cut (Theorem 1).

Everything is compared with one pass over the whole text: the library's own where a library runs the model. A state is
sent through FP32 bytes wherever the model allows it to be stored at that place.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from precog.backbones.protocol import Backbone
from precog.engine.conformance import FP32_BOUND
from precog.errors import ForeignStateError
from precog.state import CODECS, State

NUM_TOKENS = 72
CHUNK_TOKENS = 64  # chunk lengths around it are cut at as well: scans and caches work in powers of two
REPETITIONS = 100
_SPLITS = (1, 2, 3, 4, 5, 16, 17, CHUNK_TOKENS - 1, CHUNK_TOKENS, CHUNK_TOKENS + 1)  # kernels have 2 to 4 taps
_STEPS = 4
ReadElsewhere = Callable[[bytes, int, Sequence[int]], Float[Tensor, "T V"]]


@runtime_checkable
class JudgedBackbone(Protocol):
    """A backbone whose library can read a text in one pass that knows nothing of states."""

    def judge(self, token_ids: Sequence[int]) -> Float[Tensor, "T V"]:
        """Scores after every token."""
        ...


@dataclass(frozen=True)
class Check:
    """One row of the table.

    Attributes:
        name: what was done.
        error: max |Δlogit| against one pass, or against the same thing done alone; infinite where it failed.
        bound: what it may be at most.
    """

    name: str
    error: float
    bound: float = FP32_BOUND

    @property
    def ok(self) -> bool:
        """Whether it is within its bound."""
        return self.error <= self.bound


@dataclass(frozen=True)
class Table:
    """All rows of one model.

    Attributes:
        checks: in the order they were made.
        lost: max |Δlogit| where the state is left out: what losing it would look like, and that the table can tell.
    """

    checks: tuple[Check, ...]
    lost: float

    @property
    def is_exact(self) -> bool:
        """Whether every row is within its bound."""
        return all(check.ok for check in self.checks)

    @property
    def max_abs_logit_error(self) -> float:
        """The largest error of all rows."""
        return max(check.error for check in self.checks)


def conform(backbone: Backbone, *, elsewhere: ReadElsewhere | None = None, seed: int = 0) -> Table:
    """Cut, store, inject and read on in every way that the laws name.

    Args:
        backbone: the model, computing at FP32.
        elsewhere: reads tokens from the bytes of an FP32 state in another process; left out when None.
        seed: of the random texts.

    Raises:
        PrecogError: as the backbone's own passes.
    """
    ids = _text(backbone, NUM_TOKENS, seed)
    half = len(ids) // 2
    nothing = _on(backbone, backbone.empty_state(), [*backbone.opening, *ids[half:]])[len(backbone.opening) :]
    lost = furthest(nothing, _judge(backbone, ids)[half:])
    return Table(tuple(_checks(backbone, elsewhere, seed)), lost)


def _checks(backbone: Backbone, elsewhere: ReadElsewhere | None, seed: int) -> Iterator[Check]:
    texts = [_text(backbone, NUM_TOKENS, seed + i) for i in range(3)]
    judges = [_judge(backbone, ids) for ids in texts]
    ids, judge = texts[0], judges[0]
    for cut in _SPLITS:
        state, _ = backbone.prefill(ids[:cut])
        state = _stored(backbone, state)
        yield Check(f"split at {cut}, rest at once", furthest(_on(backbone, state, ids[cut:]), judge[cut:]))
        stop = min(len(ids), cut + _STEPS)
        yield Check(
            f"split at {cut}, token by token", furthest(_steps(backbone, state, ids[cut:stop]), judge[cut:stop])
        )
    half = len(ids) // 2
    halves = [backbone.prefill(text[:half])[0] for text in texts]
    _, hidden = backbone.read(backbone.open(halves), torch.tensor([text[half:] for text in texts]))
    last = torch.stack([scores[-1] for scores in judges])
    yield Check("three texts as one batch", furthest(backbone.logits(hidden), last))
    yield Check("chunks of unequal lengths together", _unequal(backbone, texts))
    first, second = (_on(backbone, state, text[half:]) for state, text in zip(halves[:2], texts[:2], strict=True))
    kept = halves[0].recurrent
    again = [_on(backbone, halves[0], ids[half : half + 1]) for _ in range(REPETITIONS)]
    drift = max(furthest(scores, first[:1]) for scores in again)
    yield Check(f"injected {REPETITIONS} times", drift)
    yield Check("state unchanged by its use", furthest(halves[0].recurrent, kept), 0.0)
    turns = [(halves[i % 2], texts[i % 2][half:], (first, second)[i % 2]) for i in range(4)]
    mixed = max(furthest(_on(backbone, state, rest), alone) for state, rest, alone in turns)
    yield Check("two states by turns", mixed)
    yield Check("a state of another model refused", 0.0 if _refuses_foreign(backbone, halves[0]) else float("inf"), 0.0)
    if elsewhere is not None:
        [chunk_state] = backbone.encode_chunks([_words(backbone, CHUNK_TOKENS, seed)])
        question = [*backbone.opening, *_words(backbone, 8, seed + 1)]
        data = CODECS["fp32"].encode(chunk_state, backbone.spec)
        here = _on(backbone, chunk_state, question)
        yield Check(
            "stored, read on in another process", furthest(elsewhere(data, chunk_state.num_tokens, question), here)
        )


def _words(backbone: Backbone, count: int, seed: int) -> list[int]:
    """Random ids of a text's tokens: no control token, no part of a character alone."""
    generator = torch.Generator().manual_seed(seed)
    tokenizer = backbone.tokenizer
    control = {tokenizer.boundary_id, tokenizer.eos_id}
    drawn = torch.randint(tokenizer.vocab_size, (4 * count,), generator=generator).tolist()
    return [token for token in drawn if token not in control and tokenizer.token_bytes(token)][:count]


def _text(backbone: Backbone, count: int, seed: int) -> list[int]:
    return [*backbone.opening, *_words(backbone, count - len(backbone.opening), seed)]


def _judge(backbone: Backbone, ids: Sequence[int]) -> Tensor:
    if isinstance(backbone, JudgedBackbone):
        return backbone.judge(ids)
    return backbone.prefill_logits(ids)[1]


def _stored(backbone: Backbone, state: State) -> State:
    """The state as it comes back from FP32 bytes, where a state of this place may be stored."""
    if state.is_live and not backbone.spec.carries_tail:
        return state
    return CODECS["fp32"].rounded(state, backbone.spec)


def _on(backbone: Backbone, state: State, ids: Sequence[int]) -> Tensor:
    return backbone.prefill_logits(ids, state)[1]


def _steps(backbone: Backbone, state: State, ids: Sequence[int]) -> Tensor:
    batch, scores = backbone.open([state]), []
    for token in ids:
        batch, hidden = backbone.step(batch, [token])
        scores.append(backbone.logits(hidden)[0])
    return torch.stack(scores)


def _unequal(backbone: Backbone, texts: Sequence[Sequence[int]]) -> float:
    opening = len(backbone.opening)
    chunks = [list(text[opening : opening + length]) for text, length in zip(texts, (5, 31, 60), strict=True)]
    together = backbone.encode_chunks(chunks)
    question = [*backbone.opening, *chunks[0]]
    alone = [backbone.encode_chunks([chunk])[0] for chunk in chunks]
    pairs = zip(together, alone, strict=True)
    return max(furthest(_on(backbone, one, question), _on(backbone, other, question)) for one, other in pairs)


def _refuses_foreign(backbone: Backbone, state: State) -> bool:
    other = State(
        state.recurrent,
        tail=state.tail,
        num_tokens=state.num_tokens,
        fingerprint="0" * 64,
        decay_time=state.decay_time,
    )
    try:
        backbone.open([other])
    except ForeignStateError:
        return True
    return False


def furthest(found: Tensor, expected: Tensor) -> float:
    """The largest |found − expected|; infinite where something is no number, so that no maximum loses it."""
    error = float((found - expected).abs().max())
    return error if error == error else float("inf")
