"""What the rest of the project asks of a model family: read tokens from a state, give a state back.

A backbone knows token ids and states; it declares its boundary token, templates and fingerprint, and refuses a state
that is not its own. It keeps nothing between calls.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from precog.backbones.card import ModelCard
from precog.state import State, StateBatch, StateSpec
from precog.text.tokenizer import Tokenizer


@runtime_checkable
class Backbone(Protocol):
    """A model that turns tokens into states.

    Attributes:
        card: name, templates, chosen decoding settings.
        tokenizer: the one it was trained with.
        encode_mode: ``once``, ``twice`` or ``twice-reversed``: how chunks are read.
        spec: shape, size and fingerprint of its states.
        opening: ids that open every segment: a boundary token, or none where a state carries the convolution's inputs.
        encoding_dtype: compute dtype, recorded in states.
        device: where it computes.
    """

    card: ModelCard
    tokenizer: Tokenizer
    encode_mode: str
    spec: StateSpec
    opening: tuple[int, ...]
    encoding_dtype: str
    device: torch.device

    @property
    def fingerprint(self) -> str:
        """Hex SHA-256 over everything that decides what a state means."""
        ...

    def empty_state(self) -> State:
        """The state of having read nothing, or nothing but the token that opens every text of the model."""
        ...

    def reading(self, chunk_ids: Sequence[int]) -> list[int]:
        """The ids read for a chunk: boundary, template and encode mode applied."""
        ...

    def encode_chunks(self, chunks: Sequence[Sequence[int]]) -> list[State]:
        """Boundary states of chunks of any lengths, each as if it had been read alone."""
        ...

    def open(self, states: Sequence[State]) -> StateBatch:
        """Copies of states as rows of a batch on the device; refuses states of another model."""
        ...

    def prefill(self, token_ids: Sequence[int], state: State | None = None) -> tuple[State, Float[Tensor, " V"]]:
        """Read tokens from a state: the live state after them and the logits of the next token."""
        ...

    def prefill_logits(
        self, token_ids: Sequence[int], state: State | None = None
    ) -> tuple[State, Float[Tensor, "T V"]]:
        """The same with the logits after every token."""
        ...

    def read(self, batch: StateBatch, tokens: Int64[Tensor, "B T"]) -> tuple[StateBatch, Float[Tensor, "B d"]]:
        """Read a segment in every row: states after it, and each row's last hidden vector."""
        ...

    def step(self, batch: StateBatch, tokens: Sequence[int]) -> tuple[StateBatch, Float[Tensor, "B d"]]:
        """Read one token per row."""
        ...

    def logits(self, hidden: Float[Tensor, "*any d"]) -> Float[Tensor, "*any V"]:
        """FP32 scores of every token, in main memory."""
        ...

    def scores(self, hidden: Float[Tensor, "B d"], token_ids: Int64[Tensor, " n"]) -> Float[Tensor, "B n"]:
        """FP32 scores of some tokens only, in main memory: what a mask leaves over."""
        ...


@runtime_checkable
class PaddedBackbone(Protocol):
    """A model that reads segments of unequal lengths in one pass."""

    def read_padded(
        self, batch: StateBatch, tokens: Int64[Tensor, "B T"], lengths: Sequence[int]
    ) -> tuple[StateBatch, Float[Tensor, "B d"]]:
        """As `Backbone.read`, of rows that are right-padded with any ids; each as if it had been read alone."""
        ...


@runtime_checkable
class RoomyBackbone(Protocol):
    """A backbone whose stored states can be given room: states of some models grow with the text."""

    def with_capacity(self, chunk_tokens: int) -> Backbone:
        """The same model with stored states that have room for chunks of some tokens; itself where states do not grow.

        It computes nothing, and backbones of equal `StateSpec` are interchangeable.
        """
        ...


@runtime_checkable
class RereadingBackbone(Protocol):
    """A backbone that is open to read chunks one way, and can read them another way, too."""

    def with_encode_mode(self, encode_mode: str) -> Backbone:
        """The same weights, which read chunks otherwise; itself where they do so already. It computes nothing.

        States of both continue alike, and are told apart by their fingerprint alone.

        Raises:
            ModelError: there is no such mode.
        """
        ...


@runtime_checkable
class LearnableBackbone(Backbone, Protocol):
    """A model through which gradients reach the states it reads from; its weights stay as they are."""

    @property
    def gives_gradients(self) -> bool:
        """Whether it does as it was opened: packed weights give none."""
        ...

    def hidden_from(
        self,
        recurrent: Float[Tensor, "L R S"],
        tokens: Int64[Tensor, "R U"],
        lengths: Int64[Tensor, " R"],
        tail: Float[Tensor, "L R J N"] | None = None,
    ) -> Float[Tensor, "R U d"]:
        """Hidden vectors of segments read from states, differentiable in ``recurrent``.

        Args:
            recurrent: states, one a row, on the model's device.
            tokens: the segments, `opening` first, right-padded with any ids.
            lengths: tokens of each row.
            tail: the convolution's last inputs, where states carry them.
        """
        ...

    def token_scores(self, hidden: Float[Tensor, "*any d"]) -> Float[Tensor, "*any V"]:
        """Scores of every token, FP32 (FP64 of an FP64 model), on the device, differentiable in ``hidden``."""
        ...
