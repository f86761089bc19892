"""Questions answered over given paragraphs in every mode, with the engine that answers users.

A paragraph is one chunk, whatever its length (paper appendix, *Evaluation Dataset*). Its state is encoded once, put
through the codec, and injected for every question; `in_context` reads paragraph and question in one pass instead,
without codec or store. Where the parts of paragraphs are kept, too, what is injected is focused on one of them,
as it is where users ask.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from precog.backbones.protocol import Backbone
from precog.engine.confidence import Confidence
from precog.engine.grounded import GroundedSettings, Span
from precog.engine.mask import Source
from precog.engine.modes import Answer, FreeSettings, answer_in_context, answer_inject, answer_none
from precog.engine.templates import question_segment
from precog.evaluate.parts import ENCODE_TOGETHER, Focused, Parts
from precog.evaluate.stored import Stored
from precog.refine.quality import QualityStates
from precog.refine.study import StudySettings
from precog.state import State, compose
from precog.state.codec import codec_named


@dataclass(frozen=True)
class Said:
    """An answer as text, with what it cost.

    Attributes:
        text: as scored.
        confidence: as users are told it, for a grounded answer; NaN for a free one.
        tokens_processed: tokens the model read for it.
        latency_sec: from the question to the whole answer; the passage's state is in memory.
        first_token_sec: from the question to the first token.
    """

    text: str
    confidence: float
    tokens_processed: int
    latency_sec: float
    first_token_sec: float

    def after(self, *chosen: Focused) -> "Said":
        """The same, said when so many states had been focused: what was done between the question and reading it."""
        seconds = math.fsum(one.seconds for one in chosen)
        return replace(
            self,
            latency_sec=self.latency_sec + seconds,
            first_token_sec=self.first_token_sec + seconds,
            tokens_processed=self.tokens_processed + sum(one.tokens_read for one in chosen),
        )

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
        parts: of paragraphs, which injected states are focused on; None where they are injected as they are.

    Attributes:
        states: where the states come from.
        parts: as given.
    """

    def __init__(
        self,
        backbone: Backbone,
        codec: str,
        settings: GroundedSettings | FreeSettings,
        study: StudySettings | None = None,
        once: Backbone | None = None,
        parts: Parts | None = None,
    ) -> None:
        self.backbone = backbone
        self.settings = settings
        self.states = QualityStates(backbone, study)
        self._once = backbone if once is None else once
        self.codec = codec
        self._codec = codec_named(codec)
        self._confidence = Confidence.of_model(backbone.card)
        self._ids: dict[str, tuple[list[int], list[tuple[int, int]]]] = {}
        self._stored: dict[str, Stored] = {}
        self._offline_sec: dict[str, float] = {}
        self.parts = parts

    def _tokens(self, paragraph: str) -> tuple[list[int], list[tuple[int, int]]]:
        if paragraph not in self._ids:
            self._ids[paragraph] = self.backbone.tokenizer.encode_with_offsets(paragraph)
        return self._ids[paragraph]

    def encode(self, paragraphs: Sequence[str]) -> None:
        """Read paragraphs once and keep their states, and those of their parts, as the store would."""
        missing = [p for p in dict.fromkeys(paragraphs) if p not in self._stored]
        for start in range(0, len(missing), ENCODE_TOGETHER):
            group = missing[start : start + ENCODE_TOGETHER]
            started = time.perf_counter()
            made = self.states.make(group, [self._tokens(p)[0] for p in group])
            for paragraph, (state, _) in zip(group, made, strict=True):
                self._stored[paragraph] = Stored.of(state, self._codec, self.backbone.spec)
                if self.parts is not None:
                    self.parts.of(paragraph)
            self._offline_sec |= dict.fromkeys(group, (time.perf_counter() - started) / len(group))

    def state(self, paragraph: str) -> State:
        """The stored state of a paragraph, decoded anew."""
        self.encode([paragraph])
        return self._stored[paragraph].state(self._codec, self.backbone.spec)

    def stored_bytes(self, paragraph: str) -> int:
        """Bytes of the encoded states of a paragraph and its parts."""
        self.encode([paragraph])
        return len(self._stored[paragraph].data) + (0 if self.parts is None else self.parts.num_bytes(paragraph))

    def offline_sec(self, paragraph: str) -> float:
        """Seconds that its states and the keys of its parts took; of paragraphs read together, an equal share."""
        self.encode([paragraph])
        return self._offline_sec[paragraph]

    def focused(self, question: str, paragraph: str) -> Focused:
        """A paragraph's stored state, focused on the part that a question is about; as it is where no parts are kept.

        Args:
            question: that is asked.
            paragraph: whose state it is.
        """
        state = self.state(paragraph)
        return Focused(state) if self.parts is None else self.parts.focused(state, question, paragraph)

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
        found: Sequence[Focused] | None = None,
    ) -> Said:
        """Answer from the states of paragraphs, composed by the paper's softmax mean when there are several.

        Args:
            question: that is asked.
            paragraphs: whose states answer, each focused on one of its parts where these are kept.
            scores: of the paragraphs.
            temperature: of the softmax over them.
            sources: what a grounded answer may be a span of: the last tokens of each paragraph; None for all of them.
            found: what `focused` says of each paragraph; None where nobody has asked it yet.
        """
        if found is None:
            found = [self.focused(question, paragraph) for paragraph in paragraphs]
        state = found[0].state
        if len(found) > 1:
            states = [one.state for one in found]
            state = compose(states, scores, self.backbone.spec, temperature=temperature).state
        focused = [one.is_focused for one in found]
        return self.answer_from(state, question, paragraphs, sources, focused).after(*found)

    def inject_part(self, question: str, paragraph: str, found: Focused) -> Said:
        """Answer from the state of the chosen part alone; the paragraph's own where it has no parts.

        Args:
            question: that is asked.
            paragraph: that the part is of.
            found: what `focused` says of it.
        """
        state = found.state if found.part is None or self.parts is None else self.parts.state(found.part)
        return self.answer_from(state, question, [paragraph]).after(found)

    def inject_other(self, question: str, paragraph: str, found: Focused) -> Said:
        """Answer from the state of another paragraph, of which `focused` says ``found``, under the right one's mask."""
        return self.answer_from(found.state, question, [paragraph], None, [found.is_focused]).after(found)

    def answer_from(
        self,
        state: State,
        question: str,
        paragraphs: Sequence[str],
        sources: Sequence[Source] | None = None,
        focused: Sequence[bool] = (),
    ) -> Said:
        """Answer from any state, under the mask of paragraphs.

        Args:
            state: to answer from.
            question: that is asked.
            paragraphs: that a grounded answer is a span of.
            sources: as for `inject`.
            focused: of each paragraph, whether what it has given to the state was focused, as its confidence needs it.
        """
        ids = question_segment(self.backbone, question)
        given = [self.source(paragraph) for paragraph in paragraphs] if sources is None else sources
        answer = answer_inject(self.backbone, state, ids, sources=given, settings=self.settings)
        return self._said(answer, paragraphs, given, focused)

    def in_context(self, question: str, paragraph: str, source: Source | None = None) -> Said:
        """Answer by reading the paragraph and the question in one pass; ``source`` as for `inject`."""
        return self._read(self.backbone, question, paragraph, source)

    def in_context_once(self, question: str, paragraph: str) -> Said:
        """The same, the paragraph read once though its states have read it twice."""
        return self._read(self._once, question, paragraph, None)

    def in_context_part(self, question: str, paragraph: str, found: Focused) -> Said:
        """The same, the part that ``found`` is focused on read once more behind the paragraph, in one segment."""
        more = () if found.part is None else found.part.token_ids
        return self._read(self.backbone, question, paragraph, None, more).after(found)

    def _read(
        self, backbone: Backbone, question: str, paragraph: str, source: Source | None, more: Sequence[int] = ()
    ) -> Said:
        ids = question_segment(backbone, question)
        given = [self.source(paragraph) if source is None else source]
        read = [[*self._tokens(paragraph)[0], *more]]
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

    def _said(
        self, answer: Answer, paragraphs: Sequence[str], sources: Sequence[Source], focused: Sequence[bool] = ()
    ) -> Said:
        found = answer.grounded
        if found is None:
            text = self.backbone.tokenizer.decode(list(answer.token_ids)).strip()
        else:
            text = self.span_text(found.best, paragraphs[found.best.member], sources[found.best.member])
        confidence = self._confidence.judging(answer, focused).of(answer)
        said = float("nan") if confidence is None else confidence
        return Said(text, said, answer.tokens_processed, answer.total_sec, answer.first_token_sec)

    def span_text(self, span: Span, paragraph: str, source: Source) -> str:
        """The characters of a span of a paragraph's last tokens."""
        every = self._tokens(paragraph)[1]
        start = len(every) - len(source.token_ids) + span.start
        characters = every[start : start + span.length]
        return paragraph[characters[0][0] : characters[-1][1]].strip()
