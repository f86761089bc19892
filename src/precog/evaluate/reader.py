"""Questions answered over given paragraphs in every mode, with the engine that answers users.

A paragraph is one chunk, whatever its length (paper appendix, *Evaluation Dataset*). Its state is encoded once, put
through the codec, and injected for every question; `in_context` reads paragraph and question in one pass instead,
without codec or store.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from precog.backbones.protocol import Backbone
from precog.engine.confidence import Confidence
from precog.engine.grounded import GroundedSettings, Span
from precog.engine.mask import Source
from precog.engine.modes import Answer, FreeSettings, answer_in_context, answer_inject, answer_none
from precog.engine.templates import question_segment
from precog.refine.quality import QualityStates
from precog.refine.study import StudySettings
from precog.state import State, compose
from precog.state.codec import codec_named

ENCODE_TOGETHER = 16


@dataclass(frozen=True)
class Said:
    """An answer as text, with what it cost.

    Attributes:
        text: as scored.
        confidence: as users are told it, for a grounded answer; NaN for a free one.
        tokens_processed: tokens the model read for it.
        latency_sec: from the question to the whole answer.
    """

    text: str
    confidence: float
    tokens_processed: int
    latency_sec: float

    def to_json(self) -> dict[str, object]:
        """Plain data; a confidence that is no number is None."""
        confidence = None if math.isnan(self.confidence) else self.confidence
        return {**asdict(self), "confidence": confidence}


class ParagraphReader:
    """Paragraphs of an evaluation, their tokens and their stored states.

    Args:
        backbone: the model.
        codec: name of the codec that states are stored in.
        settings: how answers are decoded.
        study: how states are studied; None where they are only read. Nothing but a paragraph goes into its state.
        once: the model reading every paragraph once, for `in_context_once`; None where it reads so anyway.

    Attributes:
        states: where the states come from.
    """

    def __init__(
        self,
        backbone: Backbone,
        codec: str,
        settings: GroundedSettings | FreeSettings,
        study: StudySettings | None = None,
        once: Backbone | None = None,
    ) -> None:
        self.backbone = backbone
        self.settings = settings
        self.states = QualityStates(backbone, study)
        self._once = backbone if once is None else once
        self.codec = codec
        self._codec = codec_named(codec)
        self._confidence = Confidence.of_model(backbone.card)
        self._ids: dict[str, tuple[list[int], list[tuple[int, int]]]] = {}
        self._stored: dict[str, tuple[bytes, int, str]] = {}

    def _tokens(self, paragraph: str) -> tuple[list[int], list[tuple[int, int]]]:
        if paragraph not in self._ids:
            self._ids[paragraph] = self.backbone.tokenizer.encode_with_offsets(paragraph)
        return self._ids[paragraph]

    def encode(self, paragraphs: Sequence[str]) -> None:
        """Read paragraphs once and keep their states as the store would."""
        missing = [p for p in dict.fromkeys(paragraphs) if p not in self._stored]
        for start in range(0, len(missing), ENCODE_TOGETHER):
            group = missing[start : start + ENCODE_TOGETHER]
            made = self.states.make(group, [self._tokens(p)[0] for p in group])
            for paragraph, (state, _) in zip(group, made, strict=True):
                stored = self._codec.encode(state, self.backbone.spec)
                self._stored[paragraph] = (stored, state.num_tokens, state.encoding_dtype)

    def state(self, paragraph: str) -> State:
        """The stored state of a paragraph, decoded anew."""
        self.encode([paragraph])
        stored, num_tokens, dtype = self._stored[paragraph]
        return self._codec.decode(stored, self.backbone.spec, num_tokens=num_tokens, encoding_dtype=dtype)

    def source(self, paragraph: str) -> Source:
        """What an answer from a paragraph may be a span of: all its tokens."""
        return Source.of(self._tokens(paragraph)[0])

    def inject(
        self,
        question: str,
        paragraphs: Sequence[str],
        scores: Sequence[float],
        temperature: float,
        sources: Sequence[Source] | None = None,
    ) -> Said:
        """Answer from the states of paragraphs, composed by the paper's softmax mean when there are several.

        Args:
            question: that is asked.
            paragraphs: whose states answer.
            scores: of the paragraphs.
            temperature: of the softmax over them.
            sources: what a grounded answer may be a span of: the last tokens of each paragraph; None for all of them.
        """
        states = [self.state(paragraph) for paragraph in paragraphs]
        state = (
            states[0]
            if len(states) == 1
            else compose(states, scores, self.backbone.spec, temperature=temperature).state
        )
        return self.answer_from(state, question, paragraphs, sources)

    def inject_other(self, question: str, paragraph: str, other: str) -> Said:
        """Answer from the state of another paragraph, under the mask of the right one."""
        return self.answer_from(self.state(other), question, [paragraph])

    def answer_from(
        self, state: State, question: str, paragraphs: Sequence[str], sources: Sequence[Source] | None = None
    ) -> Said:
        """Answer from any state, under the mask of paragraphs; ``sources`` as for `inject`."""
        ids = question_segment(self.backbone, question)
        given = [self.source(paragraph) for paragraph in paragraphs] if sources is None else sources
        answer = answer_inject(self.backbone, state, ids, sources=given, settings=self.settings)
        return self._said(answer, paragraphs, given)

    def in_context(self, question: str, paragraph: str, source: Source | None = None) -> Said:
        """Answer by reading the paragraph and the question in one pass; ``source`` as for `inject`."""
        return self._read(self.backbone, question, paragraph, source)

    def in_context_once(self, question: str, paragraph: str) -> Said:
        """The same, the paragraph read once though its states have read it twice."""
        return self._read(self._once, question, paragraph, None)

    def _read(self, backbone: Backbone, question: str, paragraph: str, source: Source | None) -> Said:
        ids = question_segment(backbone, question)
        given = [self.source(paragraph) if source is None else source]
        read = [self._tokens(paragraph)[0]]
        answer = answer_in_context(backbone, read, ids, sources=given, settings=self.settings)
        return self._said(answer, [paragraph], given)

    def mask_only(self, question: str, paragraph: str) -> Said:
        """Answer from the empty state under the paragraph's mask: what the mask alone gives away."""
        ids = question_segment(self.backbone, question)
        sources = [self.source(paragraph)]
        return self._said(
            answer_none(self.backbone, ids, sources=sources, settings=self.settings), [paragraph], sources
        )

    def none(self, question: str) -> Said:
        """Answer freely, without any context."""
        settings = self.settings if isinstance(self.settings, FreeSettings) else FreeSettings(max_tokens=24)
        return self._said(
            answer_none(self.backbone, question_segment(self.backbone, question), settings=settings), [], []
        )

    def _said(self, answer: Answer, paragraphs: Sequence[str], sources: Sequence[Source]) -> Said:
        found = answer.grounded
        if found is None:
            text = self.backbone.tokenizer.decode(list(answer.token_ids)).strip()
        else:
            text = self.span_text(found.best, paragraphs[found.best.member], sources[found.best.member])
        confidence = self._confidence.of(answer)
        said = float("nan") if confidence is None else confidence
        return Said(text, said, answer.tokens_processed, answer.total_sec)

    def span_text(self, span: Span, paragraph: str, source: Source) -> str:
        """The characters of a span of a paragraph's last tokens."""
        every = self._tokens(paragraph)[1]
        start = len(every) - len(source.token_ids) + span.start
        characters = every[start : start + span.length]
        return paragraph[characters[0][0] : characters[-1][1]].strip()
