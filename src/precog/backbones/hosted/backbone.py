"""A backbone of a model that another library runs.

The last inputs of its convolutions are part of its rows, so that a state may be continued by anything: there is no
boundary token. Where the model's texts open with a token (``<s>``), every state has read it.
"""

import copy
from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from precog.backbones.card import ModelCard, fingerprint
from precog.backbones.hosted.precision import full_precision
from precog.backbones.hosted.runtime import Runtime
from precog.backbones.protocol import Backbone, RoomyBackbone
from precog.backbones.reading import reading_ids
from precog.errors import InputError, ModelError, StateError
from precog.state import State, StateBatch, StateSpec, foreign
from precog.state.state import padded
from precog.text.tokenizer import Tokenizer

MAX_PASS_TOKENS = 2048  # a longer reading is cut into passes, so that memory stays bounded
MAX_BATCH_TOKENS = 4096  # tokens of one encoding batch
CHUNK_TOKENS = 256  # that states have room for where they grow and nobody said how long chunks are


class HostedBackbone:
    """A model of another library with its tokenizer and templates.

    Args:
        runtime: the model.
        card: name, templates, digests of weights and configuration.
        config: what else decides what a state means; hashed.
        tokenizer: the model's own.
        start_ids: what every text opens with, such as ``<s>``; empty where the model was trained without.
        encode_mode: ``once``, ``twice`` or ``twice-reversed``; part of the fingerprint.

    Raises:
        ModelError: the tokenizer has ids that the model does not.
    """

    def __init__(
        self,
        runtime: Runtime,
        card: ModelCard,
        config: dict[str, object],
        tokenizer: Tokenizer,
        *,
        start_ids: Sequence[int] = (),
        encode_mode: str = "once",
    ) -> None:
        if tokenizer.vocab_size > runtime.vocab_size:
            given, expected = f"{tokenizer.vocab_size} ids", f"at most {runtime.vocab_size}"
            raise ModelError(f"the tokenizer does not fit {card.name}", given=given, expected=expected)
        self.runtime, self.card, self.tokenizer, self.encode_mode = runtime, card, tokenizer, encode_mode
        self.device = runtime.device
        self.encoding_dtype = str(runtime.dtype).removeprefix("torch.")
        self.opening: tuple[int, ...] = ()
        self._start_ids = tuple(start_ids)
        self._hashed = {**config, "start_ids": list(start_ids)}
        shape = runtime.shape
        self.spec = StateSpec(
            layers=shape.layers,
            reals_per_layer=shape.reals,
            tail_shape=(0, 0),
            decay_groups=0,
            fingerprint=fingerprint(card, self._hashed, encode_mode),
            layer_reals=shape.layer_reals,
            window=shape.window,
            scaled=shape.scaled,
            averages=shape.averages,
        )
        if shape.grows:
            self.spec = self._roomy(CHUNK_TOKENS)
        self._empty = self._begin()

    def _begin(self) -> State:
        empty = self._state(padded(self.runtime.empty(), self.spec.reals_per_layer), 0)
        if not self._start_ids:
            return empty
        return self.read(self.open([empty]), torch.tensor([list(self._start_ids)]))[0].row(0)

    def with_capacity(self, chunk_tokens: int) -> "HostedBackbone":
        """The same model with stored states that have room for chunks of some tokens; itself where states do not grow.

        What a state means is not changed by it, and neither is the fingerprint.
        """
        if not self.spec.grows or self.spec == self._roomy(chunk_tokens):
            return self
        return self._with(self._roomy(chunk_tokens), self.encode_mode)

    def with_encode_mode(self, encode_mode: str) -> "HostedBackbone":
        """The same model, which reads chunks otherwise; itself where it does so already.

        Where states grow they have room for chunks of `CHUNK_TOKENS`, until `with_capacity` says more.

        Raises:
            ModelError: there is no such mode.
        """
        if encode_mode == self.encode_mode:
            return self
        spec = replace(self.spec, fingerprint=fingerprint(self.card, self._hashed, encode_mode))
        made = self._with(spec, encode_mode)
        return made.with_capacity(CHUNK_TOKENS)

    def _with(self, spec: StateSpec, encode_mode: str) -> "HostedBackbone":
        made = copy.copy(self)
        made.spec, made.encode_mode = spec, encode_mode
        made._empty = made._state(padded(self._empty.recurrent, spec.reals_per_layer), self._empty.num_tokens)
        return made

    def _roomy(self, chunk_tokens: int) -> StateSpec:
        """The spec with room for the reading of a chunk, and what opens it."""
        passes = 1 if self.encode_mode == "once" else 2
        around = len(self.reading(self.tokenizer.encode("a")[:1])) - passes
        capacity = len(self._start_ids) + around + passes * chunk_tokens
        shape = self.runtime.shape.with_room(capacity)
        return replace(self.spec, reals_per_layer=shape.reals, layer_reals=shape.layer_reals, capacity=capacity)

    def _state(self, rows: Tensor, num_tokens: int) -> State:
        return State(
            rows.float().cpu(),
            tail=None,
            num_tokens=num_tokens,
            fingerprint=self.fingerprint,
            decay_time=torch.zeros(self.spec.layers, 0),
            encoding_dtype=self.encoding_dtype,
        )

    @property
    def fingerprint(self) -> str:
        """Hex SHA-256 over weights, config, tokenizer, what texts open with, chunk-side template and encode mode."""
        return self.spec.fingerprint

    def empty_state(self) -> State:
        """The state of having read nothing but what every text opens with."""
        return self._empty

    def reading(self, chunk_ids: Sequence[int]) -> list[int]:
        """The ids read for a chunk, after what every text opens with: template and encode mode applied.

        Raises:
            InputError: the chunk is empty or holds a control token.
        """
        return reading_ids(
            chunk_ids,
            self.tokenizer,
            encode_mode=self.encode_mode,
            chunk_template=self.card.chunk_template,
            opening=self.opening,
        )

    @torch.no_grad()
    def encode_chunks(self, chunks: Sequence[Sequence[int]]) -> list[State]:
        """States of chunks, those of one length together: such models have no mask that keeps padding out (law 6).

        Raises:
            InputError: a chunk is empty, or an id is no id of the tokenizer.
            StateError: a chunk is longer than states have room for.
        """
        readings = [self.reading(chunk) for chunk in chunks]
        room = self.spec.capacity - len(self._start_ids)
        longest = max(map(len, readings), default=0)
        if self.spec.grows and longest > room:
            hint = "cut chunks shorter, or open the model with room for longer ones"
            message = f"a chunk is longer than stored states of {self.card.name} have room for"
            raise StateError(message, given=f"{longest} tokens", expected=f"at most {room}", hint=hint)
        states: dict[int, State] = {}
        by_length: dict[int, list[int]] = {}
        for i, ids in enumerate(readings):
            by_length.setdefault(len(ids), []).append(i)
        for length, members in by_length.items():
            size = max(1, MAX_BATCH_TOKENS // length)
            for start in range(0, len(members), size):
                group = members[start : start + size]
                tokens = torch.tensor([readings[i] for i in group])
                batch, _ = self.read(self.open([self._empty] * len(group)), tokens)
                states |= {i: batch.row(row) for row, i in enumerate(group)}
        return [states[i] for i in range(len(readings))]

    def open(self, states: Sequence[State]) -> StateBatch:
        """Copies of states as rows of a batch on the device: injection.

        Raises:
            ForeignStateError: a state was made by another model, tokenizer, config, template or encode mode.
            StateError: a shape is wrong.
        """
        for state in states:
            if state.fingerprint != self.fingerprint:
                raise foreign(state.fingerprint, self.fingerprint, self.card.name)
            state.check(self.spec, grown=True)
        return StateBatch.of(states, self.device)

    def prefill(self, token_ids: Sequence[int], state: State | None = None) -> tuple[State, Float[Tensor, " V"]]:
        """Read tokens from a state: the state after them, and the scores of the token that would follow.

        Raises:
            ForeignStateError: the state is another model's.
            InputError: no token, or an id that does not exist.
        """
        start = self.open([self._empty if state is None else state])
        batch, scores = self.read(start, torch.tensor([list(token_ids)]))
        return batch.row(0), self.logits(scores[0])

    @torch.no_grad()
    def prefill_logits(
        self, token_ids: Sequence[int], state: State | None = None
    ) -> tuple[State, Float[Tensor, "T V"]]:
        """As `prefill`, with the scores after every token."""
        start = self.open([self._empty if state is None else state])
        batch, scores = self._read(start, torch.tensor([list(token_ids)]), every=True)
        return batch.row(0), self.logits(scores[0])

    @torch.no_grad()
    def judge(self, token_ids: Sequence[int]) -> Float[Tensor, "T V"]:
        """Scores after every token of a text by the library's own pass over it, which knows nothing of states."""
        ids = torch.tensor([*self._start_ids, *token_ids], device=self.device)
        with full_precision():
            return self.logits(self.runtime.one_pass(ids)[len(self._start_ids) :])

    @torch.no_grad()
    def read(self, batch: StateBatch, tokens: Int64[Tensor, "B T"]) -> tuple[StateBatch, Float[Tensor, "B V"]]:
        """Read a segment in every row.

        Returns:
            States after it, and what `logits` and `scores` take: here the scores themselves.

        Raises:
            StateError: the batch is another model's, or has another number of rows.
            InputError: no token, or an id that does not exist.
        """
        batch, scores = self._read(batch, tokens, every=False)
        return batch, scores[:, -1]

    def _read(self, batch: StateBatch, tokens: Tensor, *, every: bool) -> tuple[StateBatch, Tensor]:
        tokens = self._known(tokens)
        if batch.fingerprint != self.fingerprint or len(batch) != tokens.shape[0]:
            given, expected = (
                f"{len(batch)} rows, {batch.fingerprint[:12]}",
                f"{tokens.shape[0]}, {self.fingerprint[:12]}",
            )
            raise StateError("this batch cannot be continued", given=given, expected=expected)
        rows, counts, parts = batch.recurrent, batch.num_tokens, []
        for start in range(0, tokens.shape[1], MAX_PASS_TOKENS):
            piece = tokens[:, start : start + MAX_PASS_TOKENS]
            with full_precision():
                scores, rows = self.runtime.forward(piece, rows, counts, every=every)
            counts = tuple(count + piece.shape[1] for count in counts)
            parts.append(scores)
        made = StateBatch(
            recurrent=rows.float(),
            tail=None,
            decay_time=batch.decay_time,
            num_tokens=counts,
            fingerprint=self.fingerprint,
            encoding_dtype=self.encoding_dtype,
        )
        return made, torch.cat(parts, dim=1) if every else parts[-1]

    def step(self, batch: StateBatch, tokens: Sequence[int]) -> tuple[StateBatch, Float[Tensor, "B V"]]:
        """Read one token per row.

        Raises:
            StateError, InputError: as `read`.
        """
        return self.read(batch, torch.tensor([[token] for token in tokens]))

    def logits(self, hidden: Float[Tensor, "*any V"]) -> Float[Tensor, "*any v"]:
        """FP32 scores of every token of the tokenizer, in main memory; what else the model scores is never a token."""
        scores = hidden.float().cpu()
        return scores[..., : self.tokenizer.vocab_size]

    def scores(self, hidden: Float[Tensor, "B V"], token_ids: Int64[Tensor, " n"]) -> Float[Tensor, "B n"]:
        """FP32 scores of some tokens only, in main memory."""
        return hidden[:, token_ids.to(hidden.device)].float().cpu()

    def _known(self, tokens: Tensor) -> Tensor:
        if not tokens.numel():
            raise InputError("there is no token to read", expected="at least one")
        if int(tokens.min()) < 0 or int(tokens.max()) >= self.runtime.vocab_size:
            given, expected = int(tokens.max()), f"0 to {self.runtime.vocab_size - 1}"
            raise InputError("a token id does not exist", given=given, expected=expected)
        return tokens.to(self.device)


def fitted(backbone: Backbone, chunk_tokens: int) -> Backbone:
    """A model whose stored states have room for chunks of some tokens: the same one unless its states grow."""
    return backbone.with_capacity(chunk_tokens) if isinstance(backbone, RoomyBackbone) else backbone
