"""A conversation ▸ an answer: from what was said in it, from a corpus, or from a memory."""

import time
from dataclasses import dataclass, field, replace
from threading import Event

from precog.backbones.protocol import Backbone
from precog.corpus.ask import AskOptions
from precog.engine import (
    DEFAULT_RULE,
    DEFAULT_TEMPERATURE,
    Composing,
    FreeSettings,
    GroundedSettings,
    OnText,
    Sampling,
    Speech,
    question_segment,
    read_on,
    speak,
)
from precog.engine.speech import unheard
from precog.errors import UsageError
from precog.records import ModelChoice
from precog.server.asking import asking, saved_tokens
from precog.server.conversation import Conversation
from precog.server.extension import Precog
from precog.server.principal import Principal
from precog.server.services import Services
from precog.server.talking import talk
from precog.server.work import Job
from precog.session import SessionOptions
from precog.state import State

MOST_TOKENS = 4096
"""An answer is cut off after so many, whatever is asked for."""
Use = tuple[str, str]
"""A kind of thing, ``corpus`` or ``memory``, and its name; a memory has none."""


@dataclass(frozen=True)
class How:
    """How an answer is to be.

    Attributes:
        max_tokens: of it; None for the model's habit.
        sampling: of free answers; a grounded one is searched for, so that this means nothing there.
        stops: texts before which it ends.
    """

    max_tokens: int | None = None
    sampling: Sampling = field(default_factory=Sampling)
    stops: tuple[str, ...] = ()


@dataclass(frozen=True)
class Said:
    """An answer.

    Attributes:
        text: it.
        finish: ``stop``, or ``length`` where it was cut off.
        read_tokens: read for it, its own left out.
        completion_tokens: of it.
        cached_tokens: that stored states stand for.
        details: for whoever wants to check it.
        uses: what it was made from.
        context: what the model had read before the question; None where the conversation had no part in it.
    """

    text: str
    finish: str
    read_tokens: int
    completion_tokens: int
    cached_tokens: int
    details: dict[str, object]
    uses: frozenset[Use] = frozenset()
    context: State | None = None

    @property
    def prompt_tokens(self) -> int:
        """All that the answer was made from: what was read, and what states stood for instead."""
        return self.read_tokens + self.cached_tokens


@dataclass(frozen=True)
class Answering:
    """What one request may answer from.

    Attributes:
        services: of the server.
        principal: who asks, or for whom.
        model: for the thread that answers.
        cancelled: set when whoever asked has gone.
    """

    services: Services
    principal: Principal
    model: ModelChoice
    cancelled: Event

    @classmethod
    def of(cls, services: Services, principal: Principal, job: Job) -> "Answering":
        """With the model as this job's own.

        Raises:
            LimitError: too many wait for it already.
        """
        return cls(services, principal, services.model(principal, job.cancelled), job.cancelled)

    @property
    def backbone(self) -> Backbone:
        """The model, open."""
        return self.model.load("once")

    def answer(
        self,
        conversation: Conversation,
        how: How,
        extension: Precog | None = None,
        *,
        before: State | None = None,
        say: OnText = unheard,
    ) -> Said:
        """Answers the question of a conversation.

        Args:
            conversation: what was said and asked.
            how: the answer is to be.
            extension: from what else; None for the conversation alone.
            before: what was read before its first turn; nothing when None.
            say: told the answer as it comes.

        Raises:
            PrecogError: it cannot be answered so.
        """
        extension = extension or Precog()
        if extension.inject > extension.top_k:
            raise UsageError("inject is out of range", given=extension.inject, expected=f"1 to top_k {extension.top_k}")
        if extension.memory:
            said = self._from_memory(conversation.question, how, extension, say)
        elif extension.corpus is not None and extension.mode != "none":
            said = self._from_corpus(conversation.question, how, extension, say)
        else:
            _refuse_without_corpus(extension)
            return self._from_conversation(conversation, how, before, say)
        return replace(said, details={**said.details, "conversation_read": False})

    def _from_conversation(self, conversation: Conversation, how: How, before: State | None, say: OnText) -> Said:
        started = time.perf_counter()
        backbone = self.backbone
        opening = conversation.opening(backbone)
        context = read_on(backbone, backbone.empty_state() if before is None else before, opening)
        segment = question_segment(backbone, conversation.question)
        max_tokens = None if how.max_tokens is None else min(how.max_tokens, MOST_TOKENS)
        settings = FreeSettings.of(max_tokens, how.sampling)
        spoken = speak(backbone, context, segment, settings, say, stops=how.stops)
        saved = 0 if before is None else before.num_tokens
        self.services.metrics.answered(spoken.first_token - started, saved)
        processed = len(opening) + len(segment) + spoken.num_tokens
        details: dict[str, object] = {
            "text": spoken.text,
            "model": backbone.card.name,
            "mode": "none" if before is None and not opening else "conversation",
            "tokens_processed": processed,
            "timings_sec": {"total": round(time.perf_counter() - started, 6)},
            "conversation_read": True,
            "grounded": False,  # nothing holds it to a text: the model may have invented it
        }
        return Said(
            spoken.text,
            "length" if spoken.was_cut else "stop",
            len(opening) + len(segment),
            spoken.num_tokens,
            saved,
            details,
            context=context,
        )

    def _from_corpus(self, question: str, how: How, extension: Precog, say: OnText) -> Said:
        assert extension.corpus is not None
        backbone = self.backbone
        options = AskOptions(
            mode=extension.mode or "inject",
            top_k=extension.top_k,
            inject=extension.inject,
            compose=extension.compose or DEFAULT_RULE,
            compose_temperature=extension.compose_temperature or DEFAULT_TEMPERATURE,
            layers=extension.layers,
            free=extension.free,
            min_confidence=extension.min_confidence,
            always_answer=extension.always_answer,
            sampling=how.sampling if extension.free else Sampling(),
            max_tokens=_span_tokens(backbone, how, extension.free),
        )
        speech = Speech(say, stops=how.stops)
        retrieval = extension.retrieval or "hybrid"
        with asking(self.services, self.principal, extension.corpus, self.model, retrieval) as asker:
            answer = asker.ask(question, options, on_text=speech.hear)
        saved = saved_tokens(answer, extension.inject)
        if not answer.abstained:
            self.services.metrics.answered(answer.timings.ttft, saved)
        if not speech.text:
            speech.push(answer.text)
        speech.finish()
        spoken_tokens = len(backbone.tokenizer.encode(speech.text))
        was_cut = extension.free and not answer.abstained and not speech.has_stopped
        limit = options.max_tokens or FreeSettings().max_tokens
        return Said(
            speech.text,
            "length" if was_cut and spoken_tokens >= limit else "stop",
            max(0, answer.tokens_processed - spoken_tokens),
            spoken_tokens,
            saved,
            {**answer.to_json(), "text": speech.text},
            frozenset({("corpus", extension.corpus)}),
        )

    def _from_memory(self, question: str, how: How, extension: Precog, say: OnText) -> Said:
        for name in ("mode", "layers", "retrieval"):
            given = getattr(extension, name)
            if given is not None and (name, given) != ("mode", "inject"):
                hint = f"leave {name} away, or ask a corpus without the memory"
                raise UsageError("memories are answered from injected states", given=f"{name} {given}", hint=hint)
        backbone = self.backbone
        speaks_for = extension.speaker or self.principal.user
        options = SessionOptions(
            top_k=extension.top_k,
            inject=extension.inject,
            composing=Composing(
                extension.compose or DEFAULT_RULE, extension.compose_temperature or DEFAULT_TEMPERATURE
            ),
            free=extension.free,
            min_confidence=extension.min_confidence,
            always_answer=extension.always_answer,
            remember=self._remembers(extension),
            speaker=speaks_for,
        )
        talked = talk(
            self.services,
            self.principal,
            self.model,
            question,
            options,
            cancelled=self.cancelled,
            corpus=extension.corpus,
            stops=how.stops,
            say=say,
        )
        spoken_tokens = len(backbone.tokenizer.encode(talked.text))
        corpora = set() if extension.corpus is None else {("corpus", extension.corpus)}
        return Said(
            talked.text,
            "stop",
            max(0, talked.reply.tokens_processed - spoken_tokens),
            spoken_tokens,
            talked.saved_tokens,
            {**talked.to_json(), "text": talked.text},
            frozenset({("memory", ""), *corpora}),
        )

    def _remembers(self, extension: Precog) -> str:
        """What the memory keeps; a key that may only read has it kept nothing, unless it asks for more."""
        if extension.remember is None:
            return "statements" if "write" in self.principal.scopes else "nothing"
        if extension.remember != "nothing":
            self.principal.check("write")
        return extension.remember


def _refuse_without_corpus(extension: Precog) -> None:
    """Refuses options that nothing is there for."""
    if extension.corpus is None and extension.mode not in (None, "none"):
        raise UsageError("which corpus?", given=f"mode {extension.mode}", expected="precog.corpus, or precog.memory")
    if extension.min_confidence is not None:
        raise UsageError("a free answer has no confidence", hint="leave min_confidence away, or name a corpus")


def _span_tokens(backbone: Backbone, how: How, is_free: bool) -> int | None:
    """Most tokens of an answer from a corpus; a grounded one is never longer than the model's habit."""
    if how.max_tokens is None:
        return None
    if is_free:
        return min(how.max_tokens, MOST_TOKENS)
    return min(how.max_tokens, GroundedSettings.from_card(backbone.card.decoding).max_span_tokens)
