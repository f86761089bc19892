"""One question, answered from several stored chunks in every way that is to be compared."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray

from precog.backbones.gates import decay_of
from precog.backbones.protocol import Backbone
from precog.engine import (
    Composing,
    FreeSettings,
    GroundedSettings,
    Source,
    answer_composed,
    answer_inject,
    replay,
)
from precog.engine.modes import Answer
from precog.errors import UsageError
from precog.state import RULES as STATE_RULES
from precog.state import State, compose, reading_order
from precog.state.codec import codec_named

READ, BEST = "in_context", "best"
DEFAULT_WAYS = (READ, BEST, "mean", "mean@0.1", "mean+layer", "concat", "permute", "mix", "mix@0.1", "replay")
FREE = FreeSettings(max_tokens=24)


@dataclass(frozen=True)
class Way:
    """One row of the table: ``in_context``, ``best`` (the best chunk alone), or a rule with its settings.

    Attributes:
        name: as it was asked for: ``rule``, then ``@T`` for a temperature and ``+layer`` for renormed layers.
        how: of a rule; None for the two others.
    """

    name: str
    how: Composing | None

    @classmethod
    def parse(cls, text: str) -> "Way":
        """A row by name; T is 1, the paper's, where none is given.

        Raises:
            UsageError: there is no such rule, or a setting is out of range.
        """
        name = text.strip()
        if name in (READ, BEST):
            return cls(name, None)
        rest, plus, renorm = name.partition("+")
        rule, at, temperature = rest.partition("@")
        try:
            chosen = float(temperature) if at else 1.0
        except ValueError as error:
            raise UsageError("--rules: this is no temperature", given=name, expected="such as mean@0.1") from error
        return cls(name, Composing(rule, chosen, renorm if plus else "none"))


@dataclass(frozen=True)
class CompositionSettings:
    """What is measured.

    Attributes:
        ways: rows of the table, in its order.
        num_chunks: n, chunks per question.
        codec: how states are stored.
        grounded: how grounded answers are decoded.
    """

    ways: tuple[Way, ...] = tuple(map(Way.parse, DEFAULT_WAYS))
    num_chunks: int = 3
    codec: str = "fp16"
    grounded: GroundedSettings = field(default_factory=GroundedSettings)

    def __post_init__(self) -> None:
        if self.num_chunks < 2:
            raise UsageError("--chunks is out of range", given=self.num_chunks, expected="at least 2")
        if not self.ways or len({way.name for way in self.ways}) != len(self.ways):
            given = ", ".join(way.name for way in self.ways) or "none"
            raise UsageError("--rules names a rule twice, or none", given=given)


@dataclass(frozen=True)
class Member:
    """A chunk of a question, as the store keeps it.

    Attributes:
        text: of the paragraph.
        token_ids: of it.
        offsets: characters of each token.
        state: decoded from the codec, with its τ.
        refined: whether it was trained on after it was read, so that reading does not give it.
        focused: whether it is focused on a part of the paragraph, which no reading gives either.
    """

    text: str
    token_ids: list[int]
    offsets: list[tuple[int, int]]
    state: State
    refined: bool = False
    focused: bool = False


@dataclass(frozen=True)
class Asked:
    """A question with its chunks, the best first.

    Attributes:
        ids: the question's segment.
        members: its chunks.
        scores: of retrieval, falling.
    """

    ids: list[int]
    members: list[Member]
    scores: list[float]


@dataclass(frozen=True)
class Outcome:
    """What one way did with one question.

    Attributes:
        grounded, free: answers as text.
        latency_sec: from states in memory to the whole grounded answer, composing included.
        first_token_sec: the same until its first token.
        tokens_read: by the model, for the grounded answer.
        bytes_loaded: states, with τ where the rule needs it, and token ids where texts are read.
        state_error: per layer ‖H − H*‖ / ‖H*‖, H* being the judge's state before the question; None for ``mix``.
        logit_error: max |Δlogit| of the answer's first token; None for ``mix``.
    """

    grounded: str
    free: str
    latency_sec: float
    first_token_sec: float
    tokens_read: int
    bytes_loaded: int
    state_error: NDArray[np.float64] | None
    logit_error: float | None


class Composer:
    """A model and the stored chunks of an evaluation.

    Args:
        backbone: the model.
        settings: what is measured.
    """

    def __init__(self, backbone: Backbone, settings: CompositionSettings) -> None:
        self.backbone = backbone
        self.settings = settings
        self._codec = codec_named(settings.codec)
        self._members: dict[str, Member] = {}

    def member(self, text: str) -> Member:
        """A chunk, read and stored once."""
        if text not in self._members:
            ids, offsets = self.backbone.tokenizer.encode_with_offsets(text)
            [read] = self.backbone.encode_chunks([ids])
            state = self._codec.rounded(read, self.backbone.spec)
            self._members[text] = Member(text, ids, offsets, state)
        return self._members[text]

    def outcomes(self, asked: Asked) -> dict[str, Outcome]:
        """Every way's answers to a question."""
        order = reading_order(asked.scores)
        context = [token for j in order for token in self.backbone.reading(asked.members[j].token_ids)]
        begun = time.perf_counter()
        read, _ = self.backbone.prefill(context)
        read_sec = time.perf_counter() - begun
        read = read.at_boundary()
        _, judge = self.backbone.prefill(asked.ids, read)
        done: dict[str, Outcome] = {}
        errors: tuple[NDArray[np.float64] | None, float | None]
        for way in self.settings.ways:
            if way.name == READ:
                made = self._injected(asked, read, range(len(asked.members)), read_sec, len(context))
                errors = self._errors(read, read, judge, asked.ids)
            elif way.how is None:
                made = self._injected(asked, asked.members[0].state, [0], 0.0, 0)
                errors = self._errors(asked.members[0].state, read, judge, asked.ids)
            else:
                made = self._composed(asked, way.how)
                state = self._state(asked, way.how)
                errors = (None, None) if state is None else self._errors(state, read, judge, asked.ids)
            done[way.name] = replace(
                made, bytes_loaded=self._bytes(asked, way), state_error=errors[0], logit_error=errors[1]
            )
        return done

    def _injected(
        self, asked: Asked, state: State, members: Sequence[int], before_sec: float, tokens_before: int
    ) -> Outcome:
        sources = [Source.of(asked.members[j].token_ids) for j in members]
        found = answer_inject(self.backbone, state, asked.ids, sources=sources, settings=self.settings.grounded)
        said = answer_inject(self.backbone, state, asked.ids, settings=FREE)
        return self._outcome(asked, found, said, before_sec, tokens_before)

    def _composed(self, asked: Asked, how: Composing) -> Outcome:
        states = [member.state for member in asked.members]
        chunks = [member.token_ids for member in asked.members]
        sources = [Source.of(chunk) for chunk in chunks]
        found, said = (
            answer_composed(
                self.backbone,
                states,
                asked.scores,
                asked.ids,
                how=how,
                chunks=chunks,
                sources=sources,
                settings=settings,
            )
            for settings in (self.settings.grounded, FREE)
        )
        return self._outcome(asked, found.answer, said.answer, found.compose_sec, 0)

    def _outcome(self, asked: Asked, found: Answer, said: Answer, before_sec: float, tokens_before: int) -> Outcome:
        assert found.grounded is not None
        best = found.grounded.best
        member = asked.members[best.member]
        start, end = member.offsets[best.start][0], member.offsets[best.start + best.length - 1][1]
        return Outcome(
            grounded=member.text[start:end].strip(),
            free=self.backbone.tokenizer.decode(list(said.token_ids)).strip(),
            latency_sec=before_sec + found.total_sec,
            first_token_sec=before_sec + found.first_token_sec,
            tokens_read=tokens_before + found.tokens_processed,
            bytes_loaded=0,
            state_error=None,
            logit_error=None,
        )

    def _state(self, asked: Asked, how: Composing) -> State | None:
        states = [member.state for member in asked.members]
        if how.rule == "replay":
            return replay(self.backbone, states, [member.token_ids for member in asked.members], asked.scores).state
        if how.rule not in STATE_RULES:
            return None
        decay = decay_of(self.backbone)
        return compose(
            states,
            asked.scores,
            self.backbone.spec,
            rule=how.rule,
            temperature=how.temperature,
            renorm=how.renorm,
            decay=decay,
        ).state

    def _errors(
        self, state: State, read: State, judge: torch.Tensor, question_ids: Sequence[int]
    ) -> tuple[NDArray[np.float64], float]:
        truth = read.recurrent.double()
        error = (state.recurrent.double() - truth).norm(dim=1) / truth.norm(dim=1).clamp_min(1e-30)
        _, logits = self.backbone.prefill(question_ids, state)
        return error.numpy(), float((logits - judge).abs().max())

    def _bytes(self, asked: Asked, way: Way) -> int:
        spec = self.backbone.spec
        state = self._codec.encoded_bytes(spec)
        width = 2 if self.backbone.tokenizer.vocab_size <= 1 << 16 else 4
        lengths = [width * len(member.token_ids) for member in asked.members]
        if way.name == READ:
            return sum(lengths)
        if way.how is None:
            return state
        if way.how.rule == "replay":
            return state + sum(lengths) - max(lengths)
        with_time = way.how.rule in ("concat", "permute")
        return len(asked.members) * (state + (spec.decay_time_bytes if with_time else 0))
