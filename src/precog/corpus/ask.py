"""A question ▸ an answer from stored states: search, one read of the store, injection, decoding.

Nothing of the documents is read by the model: it continues from what it remembers of them, and grounded decoding lets
it say only what stands in the retrieved chunk (its stored token ids and suffix array).
"""

import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType

from precog.backbones.protocol import Backbone
from precog.config import resolve
from precog.corpus.answer import (
    NOT_FOUND,
    Citation,
    CorpusAnswer,
    Mixture,
    Timings,
    characters_of,
    decoding_times,
)
from precog.corpus.context import Planner, Text, injected, longest_of
from precog.corpus.model import open_model, state_reader
from precog.corpus.parts import nearest_parts
from precog.corpus.search import Found, Searcher, SearchResult
from precog.encoders import Encoder
from precog.engine.composed import DEFAULT_RULE, DEFAULT_TEMPERATURE, Composing, answer_composed
from precog.engine.confidence import Confidence
from precog.engine.grounded import GroundedSettings
from precog.engine.mask import Source
from precog.engine.modes import Answer, FreeSettings, OnToken, answer_in_context, answer_none
from precog.engine.sampling import Sampling
from precog.engine.speaking import telling
from precog.engine.speech import OnText
from precog.engine.templates import question_segment
from precog.errors import CorpusError, DamagedCorpusError, UsageError
from precog.index import Retrieval
from precog.plan import Need, Plan
from precog.records import ModelChoice
from precog.store import Part
from precog.text.question import check_question

MODES = ("auto", "inject", "resume", "in-context", "none")


@dataclass(frozen=True)
class AskOptions:
    """How a question is answered.

    Attributes:
        mode: ``inject`` stored states, ``resume`` from the longest text's state and read the others, read all of them
            ``in-context``, or use ``none``; ``auto`` is the quickest way to the same context on this machine.
        top_k: chunks that are retrieved and cited.
        inject: states of the best of them that are composed, or texts that are read.
        compose: rule of composition: ``mean``, ``concat``, ``permute``, ``mix`` or ``replay``.
        compose_temperature: T of the softmax over scores, for the rules that weigh members by it (ERRATA 11).
        compose_renorm: ``layer`` scales each layer of a composed state to the mean norm of its members (ERRATA 15).
        layers: subset of the stored layers to inject; None for all.
        free: let the model say what it likes, not only what stands in the chunks.
        min_confidence: below it the answer is that there is none; None for the model's own threshold. Only of grounded
            answers: a free one has no confidence.
        always_answer: answer whatever the confidence.
        sampling: how free tokens are chosen.
        max_tokens: most tokens of an answer; None for the model's or the engine's own.
    """

    mode: str = "inject"
    top_k: int = 3
    inject: int = 1
    compose: str = DEFAULT_RULE
    compose_temperature: float = DEFAULT_TEMPERATURE
    compose_renorm: str = "none"
    layers: str | None = None
    free: bool = False
    min_confidence: float | None = None
    always_answer: bool = False
    sampling: Sampling = field(default_factory=Sampling)
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise UsageError("--mode: no such mode", given=self.mode, expected=", ".join(MODES))
        if self.top_k < 1:
            raise UsageError("--top-k is out of range", given=self.top_k, expected="at least 1")
        if not 1 <= self.inject <= self.top_k:
            raise UsageError("--inject is out of range", given=self.inject, expected=f"1 to --top-k {self.top_k}")
        Composing(self.compose, self.compose_temperature, self.compose_renorm)  # refuses rules that do not exist
        if self.max_tokens is not None and self.max_tokens < 1:
            raise UsageError("--max-tokens is out of range", given=self.max_tokens, expected="at least 1")
        if self.min_confidence is not None and not 0 <= self.min_confidence <= 1:
            raise UsageError("--min-confidence is out of range", given=self.min_confidence, expected="0 to 1")
        if self.min_confidence is not None and self.speaks_freely:
            raise UsageError("a free answer has no confidence", hint="leave --min-confidence away, or --free")
        if self.min_confidence is not None and self.always_answer:
            hint = "leave --min-confidence away, or --always-answer"
            raise UsageError("a least confidence and an answer whatever it is contradict each other", hint=hint)
        if not self.speaks_freely and self.sampling != Sampling():
            hint = "add --free, or leave --temperature, --top-p, --sample-top-k and --seed away"
            raise UsageError("a grounded answer is searched, not sampled", hint=hint)

    @property
    def speaks_freely(self) -> bool:
        """Whether the answer may be anything: asked for, or nothing there to ground it in."""
        return self.free or self.mode == "none"


class Asker:
    """A model and a corpus, open for any number of questions.

    Attributes:
        backbone: the model.
        searcher: the corpus; None where only the model is asked.
        confidence: how sure the model's answers are.
    """

    def __init__(
        self,
        corpus: Path | Searcher | None,
        *,
        model: ModelChoice | None = None,
        encoder: str | Encoder | None = None,
        retrieval: Retrieval = "hybrid",
        started_sec: float | None = None,
        home: Path | None = None,
    ) -> None:
        """Opens both.

        Args:
            corpus: its folder, or one that is open, which others may ask meanwhile, and which stays open; None to ask
                the model without context.
            model: which model; None for the corpus's own.
            encoder: where the sentence encoder is, or one that is open; None for the corpus's own.
            retrieval: by meaning, by words, or both.
            started_sec: ``time.perf_counter()`` when the user began to wait.
            home: where it is kept how fast this machine is; the home folder of the settings when None.

        Raises:
            CorpusError, ModelError, EncoderError: a part is missing or damaged.
            ForeignStateError: another model made the corpus.
        """
        started = time.perf_counter() if started_sec is None else started_sec
        choice = model or ModelChoice()
        self._home = resolve().home if home is None else home
        self._retrieval: Retrieval = retrieval
        self._owned: Searcher | None = None
        self.searcher: Searcher | None = None
        if corpus is None:
            self.backbone: Backbone = choice.load("once")
            self._grounded = GroundedSettings.from_card(self.backbone.card.decoding)
            self.confidence = Confidence.of_model(self.backbone.card)
        else:
            if isinstance(corpus, Searcher):
                self.searcher = corpus
            else:
                self.searcher = self._owned = Searcher(corpus, encoder=encoder, retrieval=retrieval)
            try:
                self.backbone = open_model(self.searcher.settings, choice)
                self._states = state_reader(
                    self.searcher.store, self.searcher.settings, self.backbone, named=choice.name
                )
                self._grounded = GroundedSettings.from_card(self.backbone.card.decoding)
                self.confidence = Confidence.of_model(self.backbone.card)
            except BaseException:
                self.close()
                raise
        self._startup_sec = time.perf_counter() - started

    def __enter__(self) -> "Asker":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the corpus, unless it was handed over open."""
        if self._owned is not None:
            self._owned.close()

    def ask(self, question: str, options: AskOptions | None = None, *, on_text: OnText | None = None) -> CorpusAnswer:
        """Answers one question.

        Args:
            question: as the user wrote it.
            options: how.
            on_text: called with the answer's text piece by piece, as soon as it is certain to be said.

        Raises:
            UsageError: the question is empty, or an option is out of range.
            CorpusError: there is nothing in the corpus.
            DamagedStateError: a state is not what was written.
        """
        options = options or AskOptions()
        check_question(question)
        startup_sec, self._startup_sec = self._startup_sec, 0.0
        started = time.perf_counter()
        if options.mode == "none":
            answered = self._without_context(question, options, on_text)
        else:
            answered = self._from_corpus(question, options, on_text)
        timings = replace(answered.timings, startup=startup_sec, total=startup_sec + time.perf_counter() - started)
        return replace(answered, timings=timings)

    def _without_context(self, question: str, options: AskOptions, on_text: OnText | None) -> CorpusAnswer:
        settings = FreeSettings.of(options.max_tokens, options.sampling)
        segment = question_segment(self.backbone, question)
        with telling(self.backbone.tokenizer, on_text) as on_token:
            answer = answer_none(self.backbone, segment, settings=settings, on_token=on_token)
        timings = decoding_times(answer, Timings())
        text = self.backbone.tokenizer.decode(answer.token_ids).strip()
        return CorpusAnswer(
            text,
            self.backbone.card.name,
            "none",
            tokens_processed=answer.tokens_processed,
            timings=timings,
        )

    def _from_corpus(self, question: str, options: AskOptions, on_text: OnText | None) -> CorpusAnswer:
        if self.searcher is None:
            raise UsageError("which corpus?", expected="--corpus DIR, PRECOG_CORPUS, or --mode none")
        result = self.searcher.search(question, options.top_k, retrieval=self._retrieval)
        timings = Timings(encode=result.encode_sec, search=result.search_sec)
        if not result.found:
            return self._nothing_retrieved(options, timings)
        members = result.found[: options.inject]
        store = self.searcher.store
        looking = time.perf_counter()
        asked = question_segment(self.backbone, question)
        texts = self._texts(question, asked, result, options)
        timings = replace(timings, search=timings.search + time.perf_counter() - looking)
        plan = self._plan(texts, options)
        rule = "replay" if plan.way == "resume" else options.compose
        begun = time.perf_counter()
        loaded = injected(texts, plan.way, rule)
        store.prefetch([text.found.chunk.id for text in loaded[1:]])
        for text in loaded:
            text.record, text.part_records  # noqa: B018  # read and checked here, so that their time is told apart
        timings = replace(timings, load=time.perf_counter() - begun)
        # a grounded answer is shown when it is known whether it is confident enough; a free one streams
        with telling(self.backbone.tokenizer, on_text if options.free else None) as on_token:
            if plan.way == "in-context":
                answer, mixture = self._by_reading(asked, texts, options, on_token)
            else:
                answer, mixture, inject_sec = self._from_states(asked, texts, loaded, rule, options, on_token)
                timings = replace(timings, inject=inject_sec)
        done = self._finish(answer, result, members, mixture, options, timings, on_text)
        return replace(done, plan=plan)

    def _by_reading(
        self, asked: list[int], texts: list[Text], options: AskOptions, on_token: OnToken | None
    ) -> tuple[Answer, Mixture]:
        """The answer after reading the texts again."""
        answer = answer_in_context(
            self.backbone,
            [text.token_ids for text in reversed(texts)],  # what was read last is remembered best
            asked,
            sources=_sources(texts, options),
            settings=self._settings(options),
            on_token=on_token,
        )
        return answer, Mixture("read", True, tuple(1.0 for _ in texts))

    def _from_states(
        self,
        asked: list[int],
        texts: list[Text],
        loaded: list[Text],
        rule: str,
        options: AskOptions,
        on_token: OnToken | None,
    ) -> tuple[Answer, Mixture, float]:
        """The answer from the texts' states, and how many seconds they took to be opened and composed."""
        started = time.perf_counter()
        subset = None if options.layers is None else self.backbone.spec.kept_layers(options.layers)
        used = [longest_of(texts)] if rule == "replay" else texts  # one is injected; the others stand for themselves
        opened = [text.open(asked, subset) for text in used]
        states = [one.state for one in opened]
        opened_sec = time.perf_counter() - started
        composed = answer_composed(
            self.backbone,
            states * len(texts) if rule == "replay" else states,
            [text.found.hit.score for text in texts],
            asked,
            how=Composing(rule, options.compose_temperature, options.compose_renorm),
            chunks=[text.token_ids for text in texts] if rule == "replay" else (),
            sources=_sources(texts, options),
            settings=self._settings(options),
            on_token=on_token,
        )
        refined = tuple(text in loaded and text.record.refined for text in texts)
        whole = (subset is None or subset.is_all) and self._states.keeps_states
        exact = composed.exact and whole and not any(refined) and not any(text.parts for text in texts)
        mixture = Mixture(rule, exact, composed.weights, refined, tuple(one.focus for one in opened))
        read = sum(one.tokens_read for one in opened)
        answer = replace(composed.answer, tokens_processed=composed.answer.tokens_processed + read)
        return answer, mixture, opened_sec + composed.compose_sec

    def plan(self, question: str, options: AskOptions) -> tuple[Plan | None, list[Need]]:
        """How a question's context would come into the model, and of what it is made; nothing is read for it.

        Returns:
            The plan, None where nothing is found; and the texts, best first.

        Raises:
            UsageError, CorpusError: as `ask` does.
        """
        if self.searcher is None:
            raise UsageError("which corpus?")
        result = self.searcher.search(question, options.top_k, retrieval=self._retrieval)
        if not result.found:
            self._nothing_retrieved(options, Timings())
            return None, []
        texts = self._texts(question, question_segment(self.backbone, question), result, options)
        return self._plan(texts, options), [self.planner.need(text) for text in texts]

    @property
    def planner(self) -> Planner:
        """What chooses between loading and reading."""
        assert self.searcher is not None
        return Planner(self.backbone, self.searcher.store, self.searcher.settings, self._home)

    def _texts(self, question: str, asked: list[int], result: SearchResult, options: AskOptions) -> list[Text]:
        assert self.searcher is not None
        store = self.searcher.store
        return [
            Text(found, store, self._states, self.backbone, self._parts_of(found, question, asked, result, options))
            for found in result.found[: options.inject]
        ]

    def _parts_of(
        self, found: Found, question: str, asked: list[int], result: SearchResult, options: AskOptions
    ) -> list[tuple[Part, float]]:
        """The parts of a chunk that its states are focused on; none where texts are read, or nothing was studied."""
        assert self.searcher is not None
        if options.mode in ("in-context", "resume") or not self.searcher.settings.is_studied:
            return []
        store = self.searcher.store
        return nearest_parts(store, found.chunk, question, asked, result.key, options.compose, self.backbone)

    def _plan(self, texts: list[Text], options: AskOptions) -> Plan:
        """How the texts come into the model: as asked, or the quickest way to the same context."""
        assert self.searcher is not None
        if options.mode != "auto":
            return Plan(options.mode, "asked for", {})
        if options.layers is not None:
            return Plan("inject", "some layers alone were asked for", {})
        if not self._states.keeps_all_layers:
            kept = self.searcher.settings.layers
            return Plan("inject", f"only some layers are stored ({kept}), which reading would not give", {})
        if any(text.parts for text in texts):
            return Plan("inject", "states are focused on a part of the text, which reading would not give", {})
        if self.searcher.settings.is_trained and any(text.is_refined for text in texts):
            return Plan("inject", "states are refined, which reading would not give", {})
        return self.planner.plan(texts, options.compose)

    def _finish(
        self,
        answer: Answer,
        result: SearchResult,
        members: list[Found],
        mixture: Mixture,
        options: AskOptions,
        timings: Timings,
        on_text: OnText | None,
    ) -> CorpusAnswer:
        grounded = answer.grounded
        sure = self.confidence.judging(answer, mixture.focused)
        confidence, least = sure.of(answer), _least(sure, options)
        done = CorpusAnswer(
            NOT_FOUND,
            self.backbone.card.name,
            answer.mode,
            mixture=mixture,
            confidence=confidence,
            threshold=None if confidence is None else least,
            tokens_processed=answer.tokens_processed,
            mask_bytes=0 if grounded is None else grounded.mask_bytes,
            mask_sec=0.0 if grounded is None else grounded.mask_sec,
            timings=decoding_times(answer, timings),
        )
        if not options.always_answer and sure.withholds(confidence, least):
            if on_text is not None:
                on_text(NOT_FOUND)
            cites_nothing = replace(mixture, weights=())
            return replace(done, abstained=True, mixture=cites_nothing, looked_at=result.found)
        text, citation = self._text_of(answer, members)
        if on_text is not None and grounded is not None:
            on_text(text)
        return replace(done, text=text, citation=citation, sources=result.found)

    def _text_of(self, answer: Answer, members: list[Found]) -> tuple[str, Citation | None]:
        """The answer's characters: those of the document itself where it is grounded."""
        if answer.grounded is None:
            return self.backbone.tokenizer.decode(answer.token_ids).strip(), None
        span = answer.grounded.best
        text = ""
        for member, first in span.occurrences:
            chunk = members[member].chunk
            read = chunk.info.context + chunk.info.text
            ids, offsets = self.backbone.tokenizer.encode_with_offsets(read)
            if tuple(ids[first : first + span.length]) != span.token_ids:
                raise DamagedCorpusError(
                    "a chunk's text is not what its state has read",
                    given=f"{chunk.source}, chunk {chunk.info.ordinal}",
                    hint="index the documents again into a new folder",
                )
            start, end = offsets[first][0], offsets[first + span.length - 1][1]
            text = text or read[start:end].strip()
            place = characters_of(chunk, start, end)
            if place is not None:  # prefer an occurrence in the text to one in a repeated heading
                return read[start:end].strip(), Citation(member, chunk.source, chunk.info.page, place)
        return text, None

    def _nothing_retrieved(self, options: AskOptions, timings: Timings) -> CorpusAnswer:
        assert self.searcher is not None
        if self.searcher.store.size().num_chunks == 0:
            hint = "precog index PATH… --corpus DIR"
            raise CorpusError("there is nothing in this corpus yet", given=self.searcher.store.path, hint=hint)
        return CorpusAnswer(
            NOT_FOUND,
            self.backbone.card.name,
            "inject",
            confidence=0.0,
            threshold=_least(self.confidence, options),
            abstained=True,
            timings=timings,
        )

    def _settings(self, options: AskOptions) -> GroundedSettings | FreeSettings:
        """Of an answer from texts."""
        if options.free:
            return FreeSettings.of(options.max_tokens, options.sampling)
        if options.max_tokens is None:
            return self._grounded
        return replace(self._grounded, max_span_tokens=options.max_tokens)


def _least(sure: Confidence, options: AskOptions) -> float:
    """The confidence below which there is no answer."""
    return sure.threshold if options.min_confidence is None else options.min_confidence


def _sources(texts: list[Text], options: AskOptions) -> list[Source]:
    """What a grounded answer may be a span of."""
    return [] if options.free else [text.source() for text in texts]
