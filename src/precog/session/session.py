"""A conversation: it starts from one semantic state, is answered from stored ones, and is remembered.

Joint retrieval (Section 5.3, Eq. 8): memory and corpus are searched side by side with one key, the best of both become
the context, weighed by the softmax over their cosines; the semantic state of the session lies under them with the share
λ (ERRATA 32).
"""

import datetime
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType

import numpy as np
from jaxtyping import Float32

from precog.backbones.protocol import Backbone
from precog.corpus.answer import Timings, decoding_times
from precog.corpus.context import Text
from precog.corpus.corpus import open_encoder, settings_of
from precog.corpus.model import state_reader
from precog.corpus.parts import nearest_parts
from precog.corpus.search import Searcher
from precog.corpus.settings import CorpusSettings
from precog.encoders import Encoder
from precog.engine import Composing, FreeSettings, GroundedSettings, OnText, Source, answer_composed, telling
from precog.engine.confidence import Confidence
from precog.engine.templates import question_segment
from precog.errors import EncoderError, UsageError
from precog.memory.consolidate import semantic_state
from precog.memory.domains import OTHERS
from precog.memory.forget import Forgotten
from precog.memory.recall import Evidence
from precog.records import ModelChoice
from precog.session.memory_side import MemorySide
from precog.session.ranking import DEPTH, answers_first, joint_order
from precog.session.reply import NOTED, NOTHING, REMEMBERED, Reply, SessionEvidence, Start
from precog.session.spoken import spans_for
from precog.state import State
from precog.store import CorpusStore
from precog.store.memory import Deposit, Group, MemoryFolder, Semantic
from precog.text.question import check_question, is_filler, is_question

REMEMBER = ("statements", "all", "nothing")


@dataclass(frozen=True)
class SessionOptions:
    """How a session answers.

    Attributes:
        top_k: deposits and chunks that are retrieved and shown.
        inject: of the best of them whose states are the context.
        composing: rule, temperature and the share of the semantic state.
        free: let the model say what it likes.
        min_confidence: below it there is no answer; None for the model's own. A free answer has no confidence.
        always_answer: answer whatever the confidence.
        remember: which utterances are deposited: ``statements`` (all but questions, which would come back as evidence
            for themselves, and words such as "thanks"), ``all`` or ``nothing``.
        speaker: who the user is, in the deposits' headers.
    """

    top_k: int = 3
    inject: int = 1
    composing: Composing = field(default_factory=Composing)
    free: bool = False
    min_confidence: float | None = None
    always_answer: bool = False
    remember: str = "statements"
    speaker: str | None = None

    def __post_init__(self) -> None:
        if self.top_k < 1:
            raise UsageError("--top-k is out of range", given=self.top_k, expected="at least 1")
        if not 1 <= self.inject <= self.top_k:
            raise UsageError("--inject is out of range", given=self.inject, expected=f"1 to --top-k {self.top_k}")
        if self.min_confidence is not None and not 0 <= self.min_confidence <= 1:
            raise UsageError("--min-confidence is out of range", given=self.min_confidence, expected="0 to 1")
        if self.min_confidence is not None and self.free:
            raise UsageError("a free answer has no confidence", hint="leave --min-confidence away, or --free")
        if self.min_confidence is not None and self.always_answer:
            hint = "leave --min-confidence away, or --always-answer"
            raise UsageError("a least confidence and an answer whatever it is contradict each other", hint=hint)
        if self.remember not in REMEMBER:
            raise UsageError("--remember: no such choice", given=self.remember, expected=", ".join(REMEMBER))

    def is_remembered(self, utterance: str) -> bool:
        """Whether an utterance is deposited."""
        if self.remember == "statements":
            return not (is_question(utterance) or is_filler(utterance))
        return self.remember == "all"

    def is_answered(self, utterance: str) -> bool:
        """Whether an utterance wants an answer: what only tells something is remembered, and that is all."""
        return self.remember != "statements" or is_question(utterance)


@dataclass(frozen=True)
class _Loaded:
    """A member of an answer.

    Attributes:
        state: it starts from.
        source: what a grounded answer may be taken from.
        as_read: whether the state is what reading the source gives.
        is_refined: whether it was trained on after it was read.
        tokens_read: to make states again that gave way, and to choose the part that it is focused on.
        opened_sec: seconds that its record took to become its state, and what was read for it.
        is_focused: whether it is focused on a part of the source.
    """

    state: State
    source: Source
    as_read: bool
    is_refined: bool = False
    tokens_read: int = 0
    opened_sec: float = 0.0
    is_focused: bool = False


class Session:
    """One user's conversation; open until it is closed.

    Attributes:
        options: how it answers.
        memory: the user's.
        backbone: the model.
        start: how it began; None before the first utterance.
    """

    def __init__(
        self,
        folder: Path,
        *,
        model: ModelChoice,
        encoder: str | Encoder | None = None,
        corpus: Path | Searcher | None = None,
        options: SessionOptions | None = None,
        started_sec: float | None = None,
    ) -> None:
        """Opens the memory, where there is one, the model, and the corpus.

        Args:
            folder: of the user's memory; it is made when there is something to keep.
            model: that was chosen.
            encoder: that was named, or is open already.
            corpus: its folder, or one that is open, which others may search meanwhile, and which stays open; None to
                talk without one.
            options: how to answer.
            started_sec: ``time.perf_counter()`` when the user began to wait.

        Raises:
            CorpusError, ModelError, EncoderError: a part is missing or damaged.
            ForeignStateError: another model made memory or corpus.
            UsageError: the corpus was read otherwise than memories are.
        """
        started = time.perf_counter() if started_sec is None else started_sec
        self.options = options or SessionOptions()
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="corpus")
        self._searcher: Searcher | None = None
        self._owned: Searcher | None = None
        if isinstance(corpus, Path):
            with CorpusStore.open(corpus) as store:  # that it is not there is told before a model is loaded
                if not MemoryFolder(folder).exists:  # a memory used beside it has the same keys and the same model
                    made_with = settings_of(store)
                    encoder = encoder or made_with.encoder or None
                    model = model.or_maker(made_with.model, made_with.template)
        self.memory = MemorySide(folder, model, encoder)
        try:
            self.backbone, self._encoder = self.memory.backbone, self.memory.encoder
            self._grounded = GroundedSettings.from_card(self.backbone.card.decoding)
            self._confidence = Confidence.of_model(self.backbone.card)
            self._semantic: State | None = None
            self._semantic_generation = -1
            self.start: Start | None = None
            if corpus is not None:
                self._searcher = _opened(corpus, self._encoder)
                self._owned = self._searcher if isinstance(corpus, Path) else None
                _check_reading(self._searcher.settings, self.backbone)
                self._chunk_states = state_reader(
                    self._searcher.store, self._searcher.settings, self.backbone, named=model.name
                )
        except BaseException:
            self.close()
            raise
        self._startup_sec = time.perf_counter() - started

    def __enter__(self) -> "Session":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the memory, whose index is written once for all that was remembered, and a corpus of its own."""
        self._pool.shutdown(cancel_futures=True)
        if self._owned is not None:
            self._owned.close()
        self.memory.close()

    @property
    def semantic(self) -> State | None:
        """The semantic state that lies under what is retrieved; None where the sub-cluster has none."""
        return self._semantic

    def begin(self, opening: str) -> Start:
        """Route the opening utterance and take up the semantic state of its sub-cluster: one row, one state."""
        with self.memory.turn():
            return self._begin(self._encoder.encode_query(opening))

    def _begin(self, key: Float32[np.ndarray, " E"]) -> Start:
        started = time.perf_counter()
        settings = self.memory.settings
        prototypes = self.memory.prototypes
        [routed] = settings.route(key[None], prototypes)
        found = self._take_up((routed.domain, routed.subcluster))
        num_bytes = 0 if found is None else found.recurrent.nbytes + found.decay_time.nbytes
        num_deposits = 0 if found is None else found.num_deposits
        sec = time.perf_counter() - started
        self.start = Start(routed.domain, routed.subcluster, num_deposits, num_bytes, sec)
        return self.start

    def _take_up(self, group: Group) -> Semantic | None:
        """The semantic state of a sub-cluster as it is now: what was forgotten meanwhile is not in it."""
        self._semantic_generation = self.memory.generation
        found = None if group[1] == OTHERS else self.memory.semantic(group)
        dtype = self.memory.settings.encoding_dtype
        self._semantic = None if found is None else semantic_state(found, self.backbone, dtype)
        return found

    def say(self, utterance: str, at: datetime.datetime | None = None, *, on_text: OnText | None = None) -> Reply:
        """Answer an utterance from memory and corpus, then remember it.

        Args:
            utterance: what is said.
            at: when; now by default.
            on_text: called with the text of a free answer piece by piece, as soon as it is certain to be said.

        Raises:
            UsageError: it is empty.
            InputError: it is not valid Unicode.
            CorpusError: memory or corpus were purged or replaced meanwhile.
            DamagedStateError: a state of the corpus is not what was written.
            BusyError: another process goes on writing to the memory; the utterance is not remembered.
            StorageError: the disk is full or refuses; the utterance is not remembered.
        """
        check_question(utterance)
        startup_sec, self._startup_sec = self._startup_sec, 0.0
        started = time.perf_counter()
        with self.memory.turn():
            key = self._encoder.encode_query(utterance)
            encoded = time.perf_counter()
            if self.start is None:
                self._begin(key)
            elif self.memory.generation != self._semantic_generation:
                self._take_up((self.start.domain, self.start.subcluster))
            found = self._search(utterance, key)
            timings = Timings(startup=startup_sec, encode=encoded - started, search=time.perf_counter() - encoded)
            if self.options.is_answered(utterance):
                reply = self._answer(utterance, key, found, timings, on_text)
            else:
                said = REMEMBERED if self.options.is_remembered(utterance) else NOTED
                reply = Reply(said, tuple(found), "none", False, 0.0, None, True, None, 0, timings)
            remembered = None
            if self.options.is_remembered(utterance):
                at = at or datetime.datetime.now().astimezone()
                remembered = self.memory.remember(utterance, at, self.options.speaker)
                if reply.abstained:
                    reply = replace(reply, text=REMEMBERED)
        timings = replace(reply.timings, total=startup_sec + time.perf_counter() - started)
        return replace(reply, remembered=remembered, timings=timings, damage=self.memory.take_damage())

    def forget(self, ids: Sequence[int] = ()) -> Forgotten:
        """Forget deposits of the memory; without ids, what this conversation remembered last.

        Raises:
            UsageError: without ids, and nothing of this conversation is left.
            InputError: a deposit is not there.
            CorpusError: the memory was purged or replaced meanwhile.
            BusyError: another process went on writing, or reads what is to go.
            StorageError: the disk refuses.
        """
        with self.memory.turn():
            return self.memory.forget(ids)

    def supersede(self, old: int, new: int) -> None:
        """Let one deposit hold instead of another, which is kept as history.

        Raises:
            InputError: one of them is not there, or the old one is history already.
            CorpusError: the memory was purged or replaced meanwhile.
            BusyError: another process went on writing.
            StorageError: the disk refuses.
        """
        with self.memory.turn():
            self.memory.supersede(old, new)

    def newest(self, count: int) -> list[Deposit]:
        """The deposits that were made last, at most so many, the newest of them last.

        Raises:
            CorpusError: the memory was purged or replaced meanwhile.
        """
        with self.memory.turn():
            return self.memory.newest(count)

    def _search(self, utterance: str, key: Float32[np.ndarray, " E"]) -> list[SessionEvidence]:
        top_k = self.options.top_k
        if self._searcher is None:
            return self._said(utterance, key)[:top_k]
        chunks = self._pool.submit(self._searcher.search, utterance, max(top_k, DEPTH), key=key)
        said = self._said(utterance, key)
        stored = [SessionEvidence(entry.hit.dense, corpus=entry) for entry in chunks.result().found]
        return joint_order([said, stored])[:top_k]

    def _said(self, utterance: str, key: Float32[np.ndarray, " E"]) -> list[SessionEvidence]:
        """What the memory has, at least `DEPTH` of it: what only asks makes room for what tells."""
        found = self.memory.recall(utterance, max(self.options.top_k, DEPTH), key).evidence
        deposits = {entry.deposit.id: entry for entry in found}

        def reply_to(asked: Evidence) -> Evidence | None:
            reply = self.memory.reply_to(asked, key)
            return None if reply is None else deposits.get(reply.deposit.id, reply)

        told = answers_first(found, lambda entry: entry.deposit.info.text, reply_to)
        return [SessionEvidence(entry.cosine, memory=entry) for entry in told]

    def _answer(
        self,
        utterance: str,
        key: Float32[np.ndarray, " E"],
        found: list[SessionEvidence],
        timings: Timings,
        on_text: OnText | None,
    ) -> Reply:
        if not found:
            return Reply(NOTHING, (), "none", False, 0.0, 0.0, True, None, 0, timings)
        begun = time.perf_counter()
        members = found[: self.options.inject]
        asked = question_segment(self.backbone, utterance)
        loaded = [self._load(entry, utterance, key, asked) for entry in members]
        opened_sec = sum(one.opened_sec for one in loaded)
        timings = replace(timings, load=time.perf_counter() - begun - opened_sec)
        settings = FreeSettings() if self.options.free else self._grounded
        with telling(self.backbone.tokenizer, on_text if self.options.free else None) as on_token:
            composed = answer_composed(
                self.backbone,
                [one.state for one in loaded],
                [entry.score for entry in members],
                asked,
                how=self.options.composing,
                chunks=[one.source.token_ids.tolist() for one in loaded],
                semantic_state=self._semantic,
                sources=[] if self.options.free else self._spans(utterance, members, [one.source for one in loaded]),
                settings=settings,
                on_token=on_token,
            )
        answer = composed.answer
        refined = any(one.is_refined for one in loaded)
        sure = self._confidence.judging(answer, [one.is_focused for one in loaded])
        confidence = sure.of(answer)
        is_withheld = sure.withholds(confidence, self.options.min_confidence)
        abstained = is_withheld and not self.options.always_answer
        weighed = [replace(entry, weight=weight) for entry, weight in zip(members, composed.weights, strict=True)]
        return Reply(
            NOTHING if abstained else self.backbone.tokenizer.decode(answer.token_ids).strip(),
            (*weighed, *found[len(members) :]),
            self.options.composing.rule,
            composed.exact and all(one.as_read for one in loaded),
            composed.baseline,
            confidence,
            abstained,
            None,
            answer.tokens_processed + sum(one.tokens_read for one in loaded),
            decoding_times(answer, replace(timings, inject=opened_sec + composed.compose_sec)),
            refined=refined,
        )

    def _load(
        self, entry: SessionEvidence, utterance: str, key: Float32[np.ndarray, " E"], question_ids: list[int]
    ) -> "_Loaded":
        """A member's state, the tokens it has read, and whether it is what reading gives."""
        if entry.memory is not None:
            state, source = self.memory.state(entry.memory)
            return _Loaded(state, source, self.memory.keeps_states)
        assert entry.corpus is not None
        assert self._searcher is not None
        store = self._searcher.store
        parts = []
        if self._searcher.settings.is_studied:
            rule = self.options.composing.rule
            parts = nearest_parts(store, entry.corpus.chunk, utterance, question_ids, key, rule, self.backbone)
        text = Text(entry.corpus, store, self._chunk_states, self.backbone, parts)
        is_refined = text.is_refined
        as_read = self._chunk_states.keeps_states and not parts and not is_refined
        _ = text.part_records  # read and checked here, as its own is, so that their time is told apart
        started = time.perf_counter()
        opened = text.open(question_ids)
        opened_sec = time.perf_counter() - started
        is_focused = opened.focus is not None
        return _Loaded(opened.state, text.source(), as_read, is_refined, opened.tokens_read, opened_sec, is_focused)

    def _spans(self, utterance: str, members: list[SessionEvidence], read: list[Source]) -> list[Source]:
        tokenizer = self.backbone.tokenizer
        return [
            source
            if entry.memory is None
            else spans_for(utterance, source, entry.memory.deposit.info.header, tokenizer)
            for entry, source in zip(members, read, strict=True)
        ]


def _opened(corpus: Path | Searcher, encoder: Encoder) -> Searcher:
    """A corpus, searched with the memory's encoder."""
    try:
        if isinstance(corpus, Searcher):
            open_encoder(corpus.store, corpus.settings, encoder)
            return corpus
        return Searcher(corpus, encoder=encoder)
    except EncoderError as error:
        raise EncoderError(
            "memory and corpus were made with different sentence encoders, so their scores cannot be compared",
            given=error.given,
            expected=error.expected,
            hint="precog reindex --encoder … the corpus, or precog memory reindex --encoder … the memory",
        ) from error


def _check_reading(settings: CorpusSettings, backbone: Backbone) -> None:
    """Refuses a corpus whose chunks were read twice: an answer has states of one reading only, the memory's."""
    if settings.encode_mode != backbone.encode_mode:
        raise UsageError(
            "this corpus was read otherwise than a memory is, so that no answer is from both",
            given=f"chunks read {settings.encode_mode}",
            expected=f"read {backbone.encode_mode}",
            hint="ask the corpus or the memory alone, or reindex the corpus with the quality fast",
        )
