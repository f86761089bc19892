"""S(h, x) of the paper's appendix A, as something to be called: read tokens from what is remembered, and remember.

A rollout takes what was remembered as an argument, at any precision, and gives back what is remembered and the logits
after every token. FP32 goes through a backbone as everybody uses it; FP64 through the network of a TENNs-LLM, because
a `State` is FP32.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from precog.backbones.protocol import Backbone
from precog.backbones.tenns.backbone import TennsBackbone
from precog.backbones.tenns.model import TennsModel
from precog.errors import UsageError
from precog.state import State, StateSpec, codec_named

STORAGES = ("fp64", "fp32", "bf16", "fp16")
"""What a state is kept in at the boundary; ``fp64`` is computed in FP64 as well, the others in FP32."""


@dataclass(frozen=True, eq=False)
class Memory:
    """What is remembered between two readings.

    Attributes:
        recurrent: recurrent coordinates of every layer.
        tail: the convolution's last inputs, oldest first; None at a boundary.
        num_tokens: tokens read.
    """

    recurrent: Float[Tensor, "L S"]
    tail: Float[Tensor, "L J N"] | None
    num_tokens: int

    def at_boundary(self, spec: StateSpec) -> "Memory":
        """What is stored: without the tail, where the convolution stops at boundaries."""
        return self if spec.carries_tail else replace(self, tail=None)


@runtime_checkable
class Rollout(Protocol):
    """S(h, x)."""

    @property
    def spec(self) -> StateSpec:
        """Of the model's states."""
        ...

    def roll(self, ids: Sequence[int], memory: Memory | None = None) -> tuple[Memory, Float[Tensor, "T V"]]:
        """Read tokens from a memory, or from nothing: the memory after them, and the logits after each."""
        ...


class StateRollout:
    """The rollout of a backbone, by way of its states."""

    def __init__(self, backbone: Backbone) -> None:
        self.backbone = backbone
        self.spec = backbone.spec

    def roll(self, ids: Sequence[int], memory: Memory | None = None) -> tuple[Memory, Float[Tensor, "T V"]]:
        """Read tokens in one pass.

        Raises:
            BoundaryError, InputError: as `Backbone.prefill_logits`.
        """
        state, logits = self.backbone.prefill_logits(ids, None if memory is None else state_of(memory, self.spec))
        return memory_of(state), logits


class WideRollout:
    """The rollout of a TENNs-LLM in FP64, states included: its FP32 weights, and no other rounding of FP32."""

    def __init__(self, model: TennsModel, spec: StateSpec, device: torch.device) -> None:
        self.model, self.spec, self.device = model, spec, device

    @torch.no_grad()
    def roll(self, ids: Sequence[int], memory: Memory | None = None) -> tuple[Memory, Float[Tensor, "T V"]]:
        """Read tokens in one pass."""
        tokens = torch.tensor([list(ids)], device=self.device)
        state = None if memory is None else memory.recurrent[:, None].to(self.device)
        tail = None if memory is None or memory.tail is None else memory.tail[:, None].to(self.device)
        done = self.model(tokens, state=state, tail=tail, dtype=torch.float64)
        count = len(ids) + (0 if memory is None else memory.num_tokens)
        return Memory(done.state[:, 0].cpu(), done.tail[:, 0].cpu(), count), self.model.logits(done.hidden[0]).cpu()


def wide_rollout(backbone: Backbone) -> WideRollout | None:
    """The FP64 rollout of a backbone; None where there is none: another library's model, or weights kept packed."""
    if not isinstance(backbone, TennsBackbone) or backbone.encoding_dtype != "float32":
        return None
    return WideRollout(backbone.model, backbone.spec, backbone.device)


def state_of(memory: Memory, spec: StateSpec) -> State:
    """A memory as a state; its τ, which no logit depends on, is zero."""
    return State(
        memory.recurrent,
        tail=memory.tail,
        num_tokens=memory.num_tokens,
        fingerprint=spec.fingerprint,
        decay_time=torch.zeros(spec.layers, spec.decay_groups),
    )


def memory_of(state: State) -> Memory:
    """What a state remembers."""
    return Memory(state.recurrent, state.tail, state.num_tokens)


def stored(memory: Memory, storage: str, spec: StateSpec) -> Memory:
    """A memory at a boundary as it comes back from where it was kept.

    Args:
        memory: at a boundary.
        storage: one of `STORAGES`. ``fp32`` and ``fp16`` go through the bytes of their codecs; ``bf16``, which no codec
            writes, is rounded to nearest, ties to even; ``fp64`` is kept as it is.
        spec: of the model's states.

    Raises:
        UsageError: there is no such storage.
        StateError: as `Codec.encode`.
    """
    if storage not in STORAGES:
        raise UsageError("no such storage", given=storage, expected=", ".join(STORAGES))
    if storage == "fp64":
        return memory
    if storage == "bf16":
        tail = None if memory.tail is None else memory.tail.bfloat16().float()
        return Memory(memory.recurrent.bfloat16().float(), tail, memory.num_tokens)
    return memory_of(codec_named(storage).rounded(state_of(memory, spec), spec))


def layer_errors(found: Tensor, expected: Tensor, order: float = float("inf")) -> list[float]:
    """‖Δh‖ / ‖h‖ of each layer [L, S], in the inf-norm or another; ‖Δh‖ of a layer that remembers nothing."""
    size = torch.linalg.vector_norm(expected.double(), order, dim=1)
    error = torch.linalg.vector_norm(found.double() - expected.double(), order, dim=1)
    relative = torch.where(size > 0, error / size.clamp_min(torch.finfo(size.dtype).tiny), error)
    return [float("inf") if value != value else value for value in relative.tolist()]
