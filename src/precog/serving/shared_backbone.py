"""A model as one asker's own: what it reads is read together with what others read."""

import copy
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from precog.backbones.gates import AlongBackbone, FadingBackbone, GatedBackbone, Gates
from precog.backbones.protocol import Backbone, LearnableBackbone, RereadingBackbone, RoomyBackbone
from precog.engine.conform import JudgedBackbone
from precog.engine.decode import DecodedToken, Ending
from precog.engine.sampling import Sampling
from precog.serving.request import Call, Encode, Read, Request, Step, Stream
from precog.state import Decay, State, StateBatch, foreign

Submit = Callable[[Request[Any], bool], None]


class SharedBackbone:
    """A backbone whose passes are requests to a scheduler; they fail with `CancelledError` once the asker has gone.

    What needs no pass (opening states, scores of hidden vectors) is computed in the asker's own thread.

    Args:
        backbone: the model.
        submit: hands a request to the scheduler; told whether it is the first one of this asker.
        user: who asks.
        cancelled: set when the asker has gone.
    """

    def __init__(self, backbone: Backbone, submit: Submit, user: str, cancelled: threading.Event) -> None:
        self._backbone: Any = backbone  # of more protocols than one
        self._submit_to, self._user, self._cancelled = submit, user, cancelled
        self._has_asked = False
        self._passes_as = backbone.fingerprint  # what the model of the scheduler takes batches for
        self.card = backbone.card
        self.tokenizer = backbone.tokenizer
        self.encode_mode = backbone.encode_mode
        self.spec = backbone.spec
        self.opening = backbone.opening
        self.encoding_dtype = backbone.encoding_dtype
        self.device = backbone.device

    def _submit(self, request: Request[Any]) -> None:
        self._submit_to(request, not self._has_asked)
        self._has_asked = True

    def _asked(self, request: Request[Any]) -> Any:
        self._submit(request)
        return request.wait()

    def _called(self, call: Callable[[], Any]) -> Any:
        return self._asked(Call(self._user, self._cancelled, call))

    def _lent(self, batch: StateBatch) -> StateBatch:
        """A batch as the model takes it: which way its chunks were read makes no difference to what continues them."""
        if self.fingerprint == self._passes_as:
            return batch
        if batch.fingerprint != self.fingerprint:
            raise foreign(batch.fingerprint, self.fingerprint, self.card.name)
        return replace(batch, fingerprint=self._passes_as)

    def _passed(self, request: Read | Step) -> tuple[StateBatch, Tensor]:
        batch, hidden = self._asked(request)
        own = batch if self.fingerprint == self._passes_as else replace(batch, fingerprint=self.fingerprint)
        return own, hidden

    def _as(self, backbone: Any) -> Any:
        """The same asker's share of a variant of the model."""
        if backbone is self._backbone:
            return self
        made = copy.copy(self)
        made._backbone, made.spec, made.encode_mode = backbone, backbone.spec, backbone.encode_mode
        return made

    @property
    def fingerprint(self) -> str:
        """As the backbone's."""
        return self.spec.fingerprint

    def empty_state(self) -> State:
        """As the backbone's."""
        state: State = self._backbone.empty_state()
        return state

    def reading(self, chunk_ids: Sequence[int]) -> list[int]:
        """As the backbone's."""
        ids: list[int] = self._backbone.reading(chunk_ids)
        return ids

    def open(self, states: Sequence[State]) -> StateBatch:
        """As the backbone's."""
        batch: StateBatch = self._backbone.open(states)
        return batch

    def logits(self, hidden: Float[Tensor, "*any d"]) -> Float[Tensor, "*any V"]:
        """As the backbone's."""
        scores: Tensor = self._backbone.logits(hidden)
        return scores

    def scores(self, hidden: Float[Tensor, "B d"], token_ids: Int64[Tensor, " n"]) -> Float[Tensor, "B n"]:
        """As the backbone's."""
        scores: Tensor = self._backbone.scores(hidden, token_ids)
        return scores

    def encode_chunks(self, chunks: Sequence[Sequence[int]]) -> list[State]:
        """As the backbone's."""
        lengths = [len(self.reading(chunk)) for chunk in chunks]
        if not chunks:
            return []
        states: list[State] = self._asked(Encode(self._user, self._cancelled, self._backbone, chunks, lengths))
        return states

    def read(self, batch: StateBatch, tokens: Int64[Tensor, "B T"]) -> tuple[StateBatch, Float[Tensor, "B d"]]:
        """As the backbone's."""
        return self._passed(Read(self._user, self._cancelled, self._lent(batch), tokens))

    def step(self, batch: StateBatch, tokens: Sequence[int]) -> tuple[StateBatch, Float[Tensor, "B d"]]:
        """As the backbone's."""
        return self._passed(Step(self._user, self._cancelled, self._lent(batch), tokens))

    def prefill(self, token_ids: Sequence[int], state: State | None = None) -> tuple[State, Float[Tensor, " V"]]:
        """As the backbone's."""
        start = self.open([self.empty_state() if state is None else state])
        batch, hidden = self.read(start, torch.tensor([list(token_ids)], dtype=torch.int64))
        return batch.row(0), self.logits(hidden[0])

    def prefill_logits(
        self, token_ids: Sequence[int], state: State | None = None
    ) -> tuple[State, Float[Tensor, "T V"]]:
        """As the backbone's."""
        result: tuple[State, Tensor] = self._called(lambda: self._backbone.prefill_logits(token_ids, state))
        return result

    def decode_stream(
        self,
        state: State | None,
        question_ids: Sequence[int],
        max_tokens: int,
        sampling: Sampling,
        whole_sentences: bool,
    ) -> Iterator[DecodedToken]:
        """An answer, its tokens chosen beside those of all others; see `precog.engine.decode.decode`."""
        batch = self._lent(self.open([self.empty_state() if state is None else state]))
        ending = Ending(self.tokenizer, max_tokens, whole_sentences)
        stream = Stream(self._user, self._cancelled, batch, question_ids, ending, sampling)
        self._submit(stream)
        try:
            while (token := stream.next()) is not None:
                yield token
        finally:
            stream.leave()


class _Fading(SharedBackbone):
    def decay(self) -> Decay:
        """As the backbone's."""
        decay: Decay = self._backbone.decay()
        return decay


class _Gated(SharedBackbone):
    def gates(self, token_ids: Sequence[int]) -> Gates:
        """As the backbone's."""
        gates: Gates = self._called(lambda: self._backbone.gates(token_ids))
        return gates


class _Along(SharedBackbone):
    def states_along(self, token_ids: Sequence[int], cuts: Sequence[int]) -> list[State] | None:
        """As the backbone's."""
        states: list[State] | None = self._called(lambda: self._backbone.states_along(token_ids, cuts))
        return states


class _Roomy(SharedBackbone):
    def with_capacity(self, chunk_tokens: int) -> SharedBackbone:
        """As the backbone's; it is still the same asker's."""
        share: SharedBackbone = self._as(self._backbone.with_capacity(chunk_tokens))
        return share


class _Rereading(SharedBackbone):
    def with_encode_mode(self, encode_mode: str) -> SharedBackbone:
        """As the backbone's; it is still the same asker's."""
        share: SharedBackbone = self._as(self._backbone.with_encode_mode(encode_mode))
        return share


class _Judged(SharedBackbone):
    def judge(self, token_ids: Sequence[int]) -> Float[Tensor, "T V"]:
        """As the backbone's."""
        scores: Tensor = self._called(lambda: self._backbone.judge(token_ids))
        return scores


class _Learnable(SharedBackbone):
    @property
    def gives_gradients(self) -> bool:
        """As the backbone's."""
        return bool(self._backbone.gives_gradients)

    def hidden_from(
        self,
        recurrent: Float[Tensor, "L R S"],
        tokens: Int64[Tensor, "R U"],
        lengths: Int64[Tensor, " R"],
        tail: Float[Tensor, "L R J N"] | None = None,
    ) -> Float[Tensor, "R U d"]:
        """As the backbone's."""
        hidden: Tensor = self._called(lambda: self._backbone.hidden_from(recurrent, tokens, lengths, tail))
        return hidden

    def token_scores(self, hidden: Float[Tensor, "*any d"]) -> Float[Tensor, "*any V"]:
        """As the backbone's."""
        scores: Tensor = self._backbone.token_scores(hidden)
        return scores


_CAPABILITIES: tuple[tuple[type, type[SharedBackbone]], ...] = (
    (FadingBackbone, _Fading),
    (GatedBackbone, _Gated),
    (AlongBackbone, _Along),
    (RoomyBackbone, _Roomy),
    (RereadingBackbone, _Rereading),
    (JudgedBackbone, _Judged),
    (LearnableBackbone, _Learnable),
)


def shared_as(backbone: Backbone) -> type[SharedBackbone]:
    """The class of shares that offer what the backbone offers, and nothing that it does not."""
    return _with(tuple(share for protocol, share in _CAPABILITIES if isinstance(backbone, protocol)))


@cache
def _with(shares: tuple[type[SharedBackbone], ...]) -> type[SharedBackbone]:
    return type("SharedBackbone", (*shares, SharedBackbone), {"__doc__": SharedBackbone.__doc__})
