"""The central object: what a model remembers after reading, as frozen data."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float32
from torch import Tensor
from torch.nn import functional

from precog.errors import StateError
from precog.state.spec import StateSpec

Recurrent = Float32[Tensor, "L S"]
Tail = Float32[Tensor, "L J N"]
DecayTime = Float32[Tensor, "L g"]


@dataclass(frozen=True, init=False, eq=False, repr=False)
class State:
    """One text, read.

    A *boundary* state has no tail and may be continued only by a new segment; a *live* state has the last inputs of
    each layer's convolution and may be continued by anything (ARCHITECTURE, *Boundary and reset*). Tensors are copied
    when a state is made and each time one is looked at, so nobody can change a state that somebody else holds.

    Attributes:
        num_tokens: tokens read, boundaries counted.
        fingerprint: of the backbone that read them.
        encoding_dtype: compute dtype they were read with, such as ``float32``.
    """

    num_tokens: int
    fingerprint: str
    encoding_dtype: str

    def __init__(
        self,
        recurrent: Recurrent,
        *,
        tail: Tail | None,
        num_tokens: int,
        fingerprint: str,
        decay_time: DecayTime,
        encoding_dtype: str = "float32",
    ) -> None:
        """Copy the tensors of a state.

        Args:
            recurrent: recurrent coordinates of every layer.
            tail: the convolution's last inputs, oldest first; None at a boundary.
            num_tokens: tokens read.
            fingerprint: of the backbone.
            decay_time: τ, the time Σ Δ_t that has passed for each timescale group.
            encoding_dtype: compute dtype.

        Raises:
            StateError: the tensors contradict each other.
        """
        copies = (
            recurrent.detach().clone(),
            None if tail is None else tail.detach().clone(),
            decay_time.detach().clone(),
        )
        self._fill(*copies, num_tokens, fingerprint, encoding_dtype)

    def _fill(
        self,
        recurrent: Tensor,
        tail: Tensor | None,
        decay_time: Tensor,
        num_tokens: int,
        fingerprint: str,
        encoding_dtype: str,
    ) -> None:
        rows = {recurrent.shape[0], decay_time.shape[0], recurrent.shape[0] if tail is None else tail.shape[0]}
        if len(rows) != 1 or num_tokens < 0:
            raise StateError(
                "the parts of a state contradict each other",
                given=f"{recurrent.shape[0]} layers, τ of {decay_time.shape[0]}, {num_tokens} tokens",
                expected="one number of layers everywhere and no fewer than 0 tokens",
            )
        for name, value in (
            ("_recurrent", recurrent),
            ("_tail", tail),
            ("_decay_time", decay_time),
            ("num_tokens", num_tokens),
            ("fingerprint", fingerprint),
            ("encoding_dtype", encoding_dtype),
        ):
            object.__setattr__(self, name, value)

    @classmethod
    def adopt(
        cls,
        recurrent: Recurrent,
        *,
        tail: Tail | None,
        num_tokens: int,
        fingerprint: str,
        decay_time: DecayTime,
        encoding_dtype: str = "float32",
    ) -> "State":
        """A state that takes the tensors over without copying: the caller keeps no other reference to them."""
        state = cls.__new__(cls)
        state._fill(recurrent.detach(), tail, decay_time.detach(), num_tokens, fingerprint, encoding_dtype)
        return state

    @classmethod
    def empty(cls, spec: StateSpec) -> "State":
        """The state of a model that has read nothing."""
        tail = torch.zeros(spec.layers, *spec.tail_shape) if spec.carries_tail else None
        return cls.adopt(
            torch.zeros(spec.layers, spec.reals_per_layer),
            tail=tail,
            num_tokens=0,
            fingerprint=spec.fingerprint,
            decay_time=torch.zeros(spec.layers, spec.decay_groups),
        )

    @property
    def recurrent(self) -> Recurrent:
        """A copy of the recurrent coordinates."""
        copy: Tensor = self._part("_recurrent").clone()
        return copy

    @property
    def tail(self) -> Tail | None:
        """A copy of the convolution's last inputs; None at a boundary."""
        tail: Tensor | None = self.__dict__["_tail"]
        return None if tail is None else tail.clone()

    @property
    def decay_time(self) -> DecayTime:
        """A copy of τ = Σ_t Δ_t per layer and timescale group; the cumulative decay is P = exp(λτ)."""
        copy: Tensor = self._part("_decay_time").clone()
        return copy

    @property
    def is_live(self) -> bool:
        """Whether the state may be continued in the middle of a segment."""
        return self.__dict__["_tail"] is not None

    @property
    def num_layers(self) -> int:
        """L."""
        return self._part("_recurrent").shape[0]

    def at_boundary(self) -> "State":
        """The same reading as a boundary state: without the tail, to be continued by a new segment only."""
        if not self.is_live:
            return self
        return State.adopt(
            self._part("_recurrent"),
            tail=None,
            num_tokens=self.num_tokens,
            fingerprint=self.fingerprint,
            decay_time=self._part("_decay_time"),
            encoding_dtype=self.encoding_dtype,
        )

    def check(self, spec: StateSpec, *, grown: bool = False) -> None:
        """Compare with a spec.

        Args:
            spec: of the model, with the size of its stored states.
            grown: whether a state that grows with the text may be of another length than those that are stored.

        Raises:
            StateError: shapes differ (fingerprints are the backbone's business).
        """
        recurrent, decay_time, tail = self._part("_recurrent"), self._part("_decay_time"), self.__dict__["_tail"]
        given = [tuple(recurrent.shape), tuple(decay_time.shape), None if tail is None else tuple(tail.shape)]
        live = (spec.layers, *spec.tail_shape)
        if spec.grows and not grown and recurrent.shape[1] > spec.reals_per_layer:
            hint = "its keys and values have no room in a stored state: cut chunks shorter"
            raise StateError("a state has read too much to be stored", given=self, expected=spec.capacity, hint=hint)
        reals = recurrent.shape[1] if spec.grows and grown else spec.reals_per_layer
        expected = [
            (spec.layers, reals),
            (spec.layers, spec.decay_groups),
            None if tail is None else live,
        ]
        if given != expected:
            raise StateError("a state has another shape than its model's states", given=given, expected=expected)

    def _part(self, name: str) -> Tensor:
        part: Tensor = self.__dict__[name]
        return part

    def __repr__(self) -> str:
        kind = "live" if self.is_live else "boundary"
        layers, reals = self._part("_recurrent").shape
        return f"State({kind}, {layers} × {reals}, {self.num_tokens} tokens, {self.fingerprint[:12]})"


def stack_recurrent(states: Sequence[State], device: torch.device | str = "cpu") -> Float32[Tensor, "L B S"]:
    """The recurrent coordinates of several states as a batch, in one copy."""
    parts = [state._part("_recurrent") for state in states]
    longest = max(part.shape[1] for part in parts)
    return _stack([padded(part, longest) for part in parts], device)


def padded(rows: Float32[Tensor, "*any S"], reals: int) -> Float32[Tensor, "*any S2"]:
    """Rows with zeros behind them: the same states with room for more tokens, where states grow."""
    return rows if rows.shape[-1] == reals else functional.pad(rows, (0, reals - rows.shape[-1]))


def stack_decay_time(states: Sequence[State], device: torch.device | str = "cpu") -> Float32[Tensor, "L B g"]:
    """τ of several states as a batch, in one copy."""
    return _stack([state._part("_decay_time") for state in states], device)


def _stack(parts: Sequence[Tensor], device: torch.device | str) -> Tensor:
    if len(parts) == 1:
        single = parts[0].unsqueeze(1)
        return single.clone() if single.device == torch.device(device) else single.to(device)
    return torch.stack(list(parts), dim=1).to(device)
