"""TENNs-LLM as a backbone: which continuation of which state is legal, and the passes that carry it out."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from precog.backbones.card import ModelCard, fingerprint
from precog.backbones.gates import Gates
from precog.backbones.reading import reading_ids
from precog.backbones.tenns.along import states_along
from precog.backbones.tenns.checkpoint import load_model, weights_digest
from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.gates import read_decay, read_gates
from precog.backbones.tenns.model import BOUNDARY_ID, TennsModel, build
from precog.backbones.tenns.packed import is_packed, load_packed
from precog.backbones.tenns.recorded import RecordedPasses
from precog.backbones.tenns.step import model_step
from precog.errors import BoundaryError, InputError, ModelError, StateError
from precog.state import Decay, State, StateBatch, StateSpec, foreign
from precog.text.tokenizer import Tokenizer

MAX_PASS_TOKENS = 4096  # a longer reading is cut into passes, live states in between, so that memory stays bounded
MAX_BATCH_TOKENS = 4096  # tokens of one encoding batch, padding counted


class TennsBackbone:
    """A TENNs-LLM with its tokenizer and card (ARCHITECTURE, *TENNs-LLM*).

    Args:
        model: the network; taken over, moved to the device and frozen.
        card: what the checkpoint says about itself.
        tokenizer: the one it was trained with.
        encode_mode: ``once``, ``twice`` or ``twice-reversed``; part of the fingerprint.
        device: where to compute.
        dtype: compute dtype; recurrent states are FP32 whatever it is (FP64 only for FP64).

    Raises:
        ModelError: tokenizer or boundary are not the card's.
    """

    def __init__(
        self,
        model: TennsModel,
        card: ModelCard,
        tokenizer: Tokenizer,
        *,
        encode_mode: str = "once",
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        if tokenizer.sha256 != card.tokenizer_sha256:
            raise ModelError(
                f"{card.name} was trained with another tokenizer",
                given=tokenizer.sha256,
                expected=card.tokenizer_sha256,
            )
        if tokenizer.boundary_id != BOUNDARY_ID or tokenizer.vocab_size > model.config.vocabulary:
            given = f"boundary {tokenizer.boundary_id}, {tokenizer.vocab_size} ids"
            expected = f"boundary {BOUNDARY_ID}, at most {model.config.vocabulary} ids"
            raise ModelError("the tokenizer does not fit the model", given=given, expected=expected)
        self.device = torch.device(device)
        self.model = model.requires_grad_(False).eval().to(self.device)
        for module in self.model.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                module.to(dtype)
        self.card = card
        self.tokenizer = tokenizer
        self.encode_mode = encode_mode
        self.dtype = dtype
        self._recorded = RecordedPasses(self.model, dtype) if self.device.type == "cuda" else None
        # packed matrices take BF16, whatever the rest computes in
        self.encoding_dtype = "bfloat16" if is_packed(model) else str(dtype).removeprefix("torch.")
        config = model.config
        self.opening: tuple[int, ...] = (BOUNDARY_ID,)
        self.spec = StateSpec(
            layers=config.layers,
            reals_per_layer=config.state_reals,
            tail_shape=(config.kernel - 1, config.inner),
            decay_groups=config.decay_groups,
            fingerprint=fingerprint(card, config.to_dict(), encode_mode),
            carries_tail=config.conv_boundary == "carried",
        )

    @classmethod
    def load(
        cls,
        folder: Path,
        tokenizer: Tokenizer,
        *,
        encode_mode: str = "once",
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        packed: bool = False,
    ) -> "TennsBackbone":
        """The backbone of a model folder; ``packed`` keeps its matrices as they are stored, on the CPU.

        Raises:
            ModelError: the folder is damaged, or was made for another tokenizer.
        """
        if packed:
            small, card = load_packed(folder)
            return cls(small, card, tokenizer, encode_mode=encode_mode)
        model, card = load_model(folder, dtype if dtype in (torch.bfloat16, torch.float16) else torch.float32)
        return cls(model, card, tokenizer, encode_mode=encode_mode, device=device, dtype=dtype)

    @classmethod
    def wrap(
        cls,
        model: TennsModel,
        tokenizer: Tokenizer,
        *,
        name: str = "unnamed",
        encode_mode: str = "once",
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> "TennsBackbone":
        """The backbone of a network in memory, such as one in training; saved and loaded at FP32 it is the same one."""
        digest = weights_digest(model.state_dict())
        card = ModelCard(name=name, tokenizer_sha256=tokenizer.sha256, weights_sha256=digest)
        return cls(model, card, tokenizer, encode_mode=encode_mode, device=device, dtype=dtype)

    @classmethod
    def random(cls, preset: str, tokenizer: Tokenizer, *, seed: int = 0, encode_mode: str = "once") -> "TennsBackbone":
        """An untrained backbone of a preset, the same on every machine."""
        return cls.wrap(build(TennsConfig.preset(preset), seed), tokenizer, name=preset, encode_mode=encode_mode)

    def with_encode_mode(self, encode_mode: str) -> "TennsBackbone":
        """The same network, which reads chunks otherwise; itself where it does so already.

        Raises:
            ModelError: there is no such mode.
        """
        if encode_mode == self.encode_mode:
            return self
        made = copy.copy(self)
        made.encode_mode = encode_mode
        made.spec = replace(self.spec, fingerprint=fingerprint(self.card, self.model.config.to_dict(), encode_mode))
        return made

    @property
    def fingerprint(self) -> str:
        """Hex SHA-256 over weights, config, tokenizer, boundary, chunk-side template and encode mode."""
        return self.spec.fingerprint

    def empty_state(self) -> State:
        """The state of having read nothing."""
        return State.empty(self.spec)

    def reading(self, chunk_ids: Sequence[int]) -> list[int]:
        """The ids read for a chunk: boundary, template and encode mode applied.

        Raises:
            InputError: the chunk is empty or holds a control token.
        """
        return reading_ids(
            chunk_ids, self.tokenizer, encode_mode=self.encode_mode, chunk_template=self.card.chunk_template
        )

    @torch.no_grad()
    def encode_chunks(self, chunks: Sequence[Sequence[int]]) -> list[State]:
        """Boundary states of chunks, read in right-padded batches of similar lengths (law 6).

        Args:
            chunks: token ids of each chunk, without boundary.

        Returns:
            One state per chunk, in the order given.

        Raises:
            InputError: a chunk is empty, or an id is no id of the tokenizer.
        """
        readings = [self.reading(chunk) for chunk in chunks]
        states: list[State | None] = [None] * len(readings)
        order = sorted(range(len(readings)), key=lambda i: (len(readings[i]), i))
        start = 0
        while start < len(order):
            stop = start + 1
            while stop < len(order) and (stop - start + 1) * len(readings[order[stop]]) <= MAX_BATCH_TOKENS:
                stop += 1
            group = order[start:stop]
            if len(readings[group[-1]]) > MAX_PASS_TOKENS:
                states[group[0]] = self._settle(self.prefill(readings[group[0]])[0])
            else:
                for i, state in zip(group, self._encode_batch([readings[i] for i in group]), strict=True):
                    states[i] = state
            start = stop
        return [state for state in states if state is not None]

    def _settle(self, state: State) -> State:
        return state if self.spec.carries_tail else state.at_boundary()

    def _encode_batch(self, readings: list[list[int]]) -> list[State]:
        longest = max(map(len, readings))
        rows = [ids + [0] * (longest - len(ids)) for ids in readings]
        tokens = self._tokens(rows)
        lengths = torch.tensor([len(ids) for ids in readings], device=self.device)
        result = self.model(tokens, lengths=lengths, dtype=self.dtype)
        batch = StateBatch(
            recurrent=result.state,
            tail=result.tail if self.spec.carries_tail else None,
            decay_time=result.decay_time,
            num_tokens=tuple(len(ids) for ids in readings),
            fingerprint=self.fingerprint,
            encoding_dtype=self.encoding_dtype,
        )
        return [batch.row(i) for i in range(len(readings))]

    def open(self, states: Sequence[State]) -> StateBatch:
        """Copies of states as rows of a batch on the device: injection.

        Raises:
            ForeignStateError: a state was made by another model, tokenizer, config, template or encode mode.
            StateError: live and boundary states are mixed, or a shape is wrong.
        """
        for state in states:
            if state.fingerprint != self.fingerprint:
                raise foreign(state.fingerprint, self.fingerprint, self.card.name)
            state.check(self.spec)
        return StateBatch.of(states, self.device)

    def prefill(self, token_ids: Sequence[int], state: State | None = None) -> tuple[State, Float[Tensor, " V"]]:
        """Read tokens from a state.

        Args:
            token_ids: at least one; the first one is the boundary unless the state is live.
            state: where to start; having read nothing when None.

        Returns:
            The live state after the last token (`State.at_boundary` makes it one to store), and FP32 logits [V] of
            the token that would follow.

        Raises:
            BoundaryError: a boundary state continued by something else than the boundary token.
            ForeignStateError: the state is another model's.
            InputError: no token, or an id that does not exist.
        """
        batch, hidden = self.read(
            self.open([self.empty_state() if state is None else state]), self._tokens([token_ids])
        )
        return batch.row(0), self.logits(hidden[0])

    @torch.no_grad()
    def prefill_logits(
        self, token_ids: Sequence[int], state: State | None = None
    ) -> tuple[State, Float[Tensor, "T V"]]:
        """As `prefill`, with the logits [T, V] after every token (V · 4 bytes each)."""
        batch = self.open([self.empty_state() if state is None else state])
        batch, hidden = self._read_all(batch, self._tokens([token_ids]))
        return batch.row(0), self.logits(hidden[0])

    @torch.no_grad()
    def read(self, batch: StateBatch, tokens: Int64[Tensor, "B T"]) -> tuple[StateBatch, Float[Tensor, "B d"]]:
        """Read the same number of tokens in every row, in one parallel pass.

        Returns:
            Live states after the last token and each row's last hidden vector, for `logits` or `scores`.

        Raises:
            BoundaryError: rows at a boundary that do not start with the boundary token.
            StateError: the batch is another model's, or has another number of rows.
            InputError: no token, or an id that does not exist.
        """
        tokens = self._known(tokens)
        self._check(batch, tokens)
        short = self._short_pass(batch, tokens, [tokens.shape[1]] * len(tokens))
        if short is not None:
            return short
        for start in range(0, tokens.shape[1], MAX_PASS_TOKENS):
            batch, hidden = self._pass(batch, tokens[:, start : start + MAX_PASS_TOKENS])
        return batch, hidden[:, -1]

    @torch.no_grad()
    def read_padded(
        self, batch: StateBatch, tokens: Int64[Tensor, "B T"], lengths: Sequence[int]
    ) -> tuple[StateBatch, Float[Tensor, "B d"]]:
        """Read segments of unequal lengths, right-padded with any ids, in one pass that is not cut.

        Raises:
            BoundaryError, StateError, InputError: as `read`.
        """
        tokens = self._known(tokens)
        self._check(batch, tokens)
        if len(lengths) != len(tokens) or not all(1 <= length <= tokens.shape[1] for length in lengths):
            raise InputError("lengths do not fit the tokens", given=list(lengths), expected=f"1 to {tokens.shape[1]}")
        short = self._short_pass(batch, tokens, lengths)
        if short is not None:
            return short
        counts = torch.tensor(list(lengths), device=self.device)
        result = self.model(tokens, state=batch.recurrent, tail=batch.tail, lengths=counts, dtype=self.dtype)
        after = self._after(batch, result.state, result.tail, result.decay_time, lengths)
        return after, result.hidden[torch.arange(len(tokens), device=self.device), counts - 1]

    def _short_pass(
        self, batch: StateBatch, tokens: Tensor, lengths: Sequence[int]
    ) -> tuple[StateBatch, Tensor] | None:
        """A pass that is recorded; None where there is none for it."""
        if self._recorded is None:
            return None
        found = self._recorded.read(tokens, lengths, batch.recurrent, batch.tail)
        if found is None:
            return None
        hidden, recurrent, tail, time = found
        return self._after(batch, recurrent, tail, time, lengths), hidden

    def _read_all(self, batch: StateBatch, tokens: Tensor) -> tuple[StateBatch, Tensor]:
        self._check(batch, tokens)
        parts = []
        for start in range(0, tokens.shape[1], MAX_PASS_TOKENS):
            batch, hidden = self._pass(batch, tokens[:, start : start + MAX_PASS_TOKENS])
            parts.append(hidden)
        return batch, torch.cat(parts, dim=1)

    def _pass(self, batch: StateBatch, tokens: Tensor) -> tuple[StateBatch, Tensor]:
        result = self.model(tokens, state=batch.recurrent, tail=batch.tail, dtype=self.dtype)
        read = [tokens.shape[1]] * len(batch)
        return self._after(batch, result.state, result.tail, result.decay_time, read), result.hidden

    @torch.no_grad()
    def step(self, batch: StateBatch, tokens: Sequence[int]) -> tuple[StateBatch, Float[Tensor, "B d"]]:
        """Read one token per row, without a scan.

        Raises:
            BoundaryError, StateError: as `read`.
        """
        ids = self._tokens([[token] for token in tokens])
        self._check(batch, ids)
        tail = batch.tail
        if tail is None:
            tail = batch.recurrent.new_zeros(self.spec.layers, len(batch), *self.spec.tail_shape)
        given = ids[:, 0], batch.recurrent, tail
        found = None if self._recorded is None else self._recorded.step(*given)
        hidden, recurrent, tail, dt = model_step(self.model, *given, self.dtype) if found is None else found
        return self._after(batch, recurrent, tail, dt, [1] * len(batch)), hidden

    def gates(self, token_ids: Sequence[int]) -> Gates:
        """What every token of a text, read from nothing in one pass, lets live of each coordinate.

        Raises:
            InputError: no token, or an id that does not exist.
        """
        return Gates(*read_gates(self.model, self._tokens([token_ids])[0], self.dtype))

    def states_along(self, token_ids: Sequence[int], cuts: Sequence[int]) -> list[State] | None:
        """Boundary states after some tokens of a segment read from nothing, in one pass.

        Args:
            token_ids: the segment, boundary first and nowhere else.
            cuts: numbers of tokens, rising.

        Returns:
            One state per cut, that after all tokens bit for bit the one `encode_chunks` makes; None where the segment
            is too long for one pass.

        Raises:
            BoundaryError: the segment does not open with the boundary token.
            InputError: no token, an id that does not exist, or a cut outside the segment.
        """
        tokens = self._tokens([token_ids])[0]
        if int(tokens[0]) != BOUNDARY_ID or bool((tokens[1:] == BOUNDARY_ID).any()):
            raise BoundaryError("states are looked at along one segment", expected="a boundary token, at its beginning")
        if not cuts or list(cuts) != sorted(set(cuts)) or cuts[0] < 1 or cuts[-1] > len(tokens):
            raise InputError("cuts must rise within the segment", given=list(cuts), expected=f"1 to {len(tokens)}")
        if len(tokens) > MAX_PASS_TOKENS:
            return None
        recurrent, tail, time = states_along(self.model, tokens, cuts, self.dtype)
        batch = StateBatch(
            recurrent=recurrent,
            tail=tail if self.spec.carries_tail else None,
            decay_time=time,
            num_tokens=tuple(cuts),
            fingerprint=self.fingerprint,
            encoding_dtype=self.encoding_dtype,
        )
        return [batch.row(i) for i in range(len(cuts))]

    def decay(self) -> Decay:
        """The decay rates λ: a text with the time τ leaves exp(λτ) of what was read before it."""
        return read_decay(self.model, self.fingerprint)

    def _after(
        self, batch: StateBatch, recurrent: Tensor, tail: Tensor, decay_time: Tensor, read: Sequence[int]
    ) -> StateBatch:
        return StateBatch(
            recurrent=recurrent,
            tail=tail,
            decay_time=batch.decay_time + decay_time,
            num_tokens=tuple(map(sum, zip(batch.num_tokens, read, strict=True))),
            fingerprint=self.fingerprint,
            encoding_dtype=self.encoding_dtype,
        )

    def _check(self, batch: StateBatch, tokens: Tensor) -> None:
        if batch.fingerprint != self.fingerprint:
            raise foreign(batch.fingerprint, self.fingerprint, self.card.name)
        if len(batch) != tokens.shape[0]:
            raise StateError("one row of tokens per state", given=tokens.shape[0], expected=len(batch))
        if batch.tail is None:
            if self.spec.carries_tail:
                raise StateError("a state lacks the tail that its model carries", given="a boundary state")
            if (tokens[:, 0] != BOUNDARY_ID).any():
                raise BoundaryError(
                    "a boundary state is continued by a new segment only",
                    given=f"token {int(tokens[:, 0].max())}",
                    expected=f"the boundary token {BOUNDARY_ID}",
                    hint="keep the live state to go on in the middle of a segment",
                )

    def _tokens(self, rows: Sequence[Sequence[int]]) -> Int64[Tensor, "B T"]:
        return self._known(torch.tensor([list(row) for row in rows], dtype=torch.int64))

    def _known(self, tokens: Tensor) -> Tensor:
        if tokens.ndim != 2 or not tokens.numel():
            raise InputError("there is nothing to read", given="0 tokens", expected="at least one")
        if tokens.min() < 0 or tokens.max() >= self.model.config.vocabulary:
            given, expected = f"{int(tokens.min())} to {int(tokens.max())}", f"0 to {self.model.config.vocabulary - 1}"
            raise InputError("a token id does not exist", given=given, expected=expected)
        return tokens.to(self.device)

    @torch.no_grad()
    def logits(self, hidden: Float[Tensor, "*any d"]) -> Float[Tensor, "*any V"]:
        """FP32 scores of every token, in main memory."""
        return self._plain(self.model.logits(hidden))

    @torch.no_grad()
    def scores(self, hidden: Float[Tensor, "B d"], token_ids: Int64[Tensor, " n"]) -> Float[Tensor, "B n"]:
        """FP32 scores of some tokens only: a mask of n tokens needs n rows of the head, not V."""
        return self._plain(self.model.scores(hidden, token_ids.to(self.device)))

    @property
    def gives_gradients(self) -> bool:
        """Whether gradients reach a state; packed weights have no backward pass."""
        return not is_packed(self.model)

    def hidden_from(
        self,
        recurrent: Float[Tensor, "L R S"],
        tokens: Int64[Tensor, "R U"],
        lengths: Int64[Tensor, " R"],
        tail: Float[Tensor, "L R J N"] | None = None,
    ) -> Float[Tensor, "R U d"]:
        """Hidden vectors of segments read from states, differentiable in ``recurrent``; the weights are frozen.

        Args:
            recurrent: states, one a row, FP32 (FP64 of an FP64 model), on the model's device.
            tokens: the segments, boundary first, right-padded with any ids.
            lengths: tokens of each row.
            tail: the convolution's last inputs, where states carry them.
        """
        hidden: Tensor = self.model(tokens, state=recurrent, tail=tail, lengths=lengths, dtype=self.dtype).hidden
        return hidden

    def token_scores(self, hidden: Float[Tensor, "*any d"]) -> Float[Tensor, "*any V"]:
        """Scores of every token, FP32 (FP64 of an FP64 model), on the device, differentiable in ``hidden``."""
        scores = self.model.logits(hidden)
        return scores if scores.dtype == torch.float64 else scores.float()

    @staticmethod
    def _plain(scores: Tensor) -> Tensor:
        return scores.cpu() if scores.dtype == torch.float64 else scores.float().cpu()
