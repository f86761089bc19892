"""A conversation: it starts from one semantic state, is answered from stored ones, and is remembered.

Joint retrieval (Section 5.3, Eq. 8): memory and corpus are searched side by side, the best of both by cosine become
the context, the semantic state of the session lies under them with the share λ (ERRATA 32).
"""

import contextlib
import datetime
import math
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType

from precog.corpus.corpus import state_reader
from precog.corpus.search import Found, Searcher
from precog.engine import Composing, FreeSettings, GroundedSettings, Source, answer_composed
from precog.engine.modes import Answer
from precog.engine.suffixes import build_suffix_array
from precog.engine.templates import question_segment
from precog.errors import EncoderError, PrecogError, UsageError
from precog.memory.chunking import chunks_of
from precog.memory.consolidate import read_again, semantic_state
from precog.memory.deposit import deposit
from precog.memory.domains import OTHERS
from precog.memory.opened import OpenMemory, settings_of
from precog.memory.recall import Evidence, Recaller, refresh_index
from precog.memory.routing import route
from precog.memory.utterance import Utterance
from precog.records import ModelChoice
from precog.session.reply import NOTHING, REMEMBERED, Reply, SessionEvidence, Start
from precog.state import State, titled
from precog.store.memory import Group, MemoryStore, Semantic

REMEMBER = ("statements", "all", "nothing")


@dataclass(frozen=True)
class SessionOptions:
    """How a session answers.

    Attributes:
        top_k: deposits and chunks that are retrieved and shown.
        inject: of the best of them whose states are the context.
        composing: rule, temperature and the share of the semantic state.
        free: let the model say what it likes.
        min_confidence: below it there is no answer; None for the model's own.
        always_answer: answer whatever the confidence.
        remember: which utterances are deposited: ``statements`` (all but questions, which would come back as evidence
            for themselves), ``all`` or ``nothing``.
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
        if self.remember not in REMEMBER:
            raise UsageError("--remember: no such choice", given=self.remember, expected=", ".join(REMEMBER))

    def is_remembered(self, utterance: str) -> bool:
        """Whether an utterance is deposited."""
        is_question = utterance.rstrip().endswith(("?", "？"))
        return self.remember == "all" or (self.remember == "statements" and not is_question)


class Session:
    """One user's conversation; open until it is closed."""

    def __init__(
        self,
        folder: Path,
        *,
        model: ModelChoice,
        encoder: str | None = None,
        corpus: Path | None = None,
        options: SessionOptions | None = None,
    ) -> None:
        """Opens the memory, which is made where there is none, the model, and the corpus.

        Raises:
            CorpusError, ModelError, EncoderError: a part is missing or damaged.
            ForeignStateError: another model made memory or corpus.
        """
        self.options = options or SessionOptions()
        self._folder = folder
        with OpenMemory.open(folder, model, encoder=encoder, create=True) as made:
            self.backbone, self._encoder = made.backbone, made.encoder
            self._settings, self._prototypes, self._reader = made.settings, made.prototypes, made.reader
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="corpus")
        self._searcher: Searcher | None = None
        self._has_remembered = False
        self._store = MemoryStore.open(folder)
        try:
            self._recaller = Recaller(self._store, self._encoder)
            self._grounded = GroundedSettings.from_card(self.backbone.card.decoding)
            self._semantic: State | None = None
            self._semantic_generation = -1
            self.start: Start | None = None
            if corpus is not None:
                self._searcher = Searcher(corpus)
                self._check_encoder(self._searcher)
                self._chunk_states = state_reader(
                    self._searcher.store, self._searcher.settings, self.backbone, named=model.name
                )
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Session":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes memory and corpus, and writes the index once for all that was remembered."""
        self._pool.shutdown(cancel_futures=True)
        if self._searcher is not None:
            self._searcher.close()
        self._store.close()
        if self._has_remembered:
            # whoever opens the memory brings older files up to date for himself: they only save him that
            with contextlib.suppress(PrecogError), MemoryStore.open(self._folder, write=True, wait_sec=1.0) as store:
                refresh_index(store, self._encoder.fingerprint)
            self._has_remembered = False

    def begin(self, opening: str) -> Start:
        """Route the opening utterance and take up the semantic state of its sub-cluster: one row, one state."""
        started = time.perf_counter()
        key = self._encoder.encode_query(opening)
        settings = self._settings
        routed = route(key, self._prototypes, temperature=settings.temperature, threshold=settings.threshold)
        found = self._take_up((routed.domain, routed.subcluster))
        num_bytes = 0 if found is None else found.recurrent.nbytes + found.decay_time.nbytes
        num_deposits = 0 if found is None else found.num_deposits
        sec = time.perf_counter() - started
        self.start = Start(routed.domain, routed.subcluster, num_deposits, num_bytes, sec)
        return self.start

    def _take_up(self, group: Group) -> Semantic | None:
        """The semantic state of a sub-cluster as it is now: what was forgotten meanwhile is not in it."""
        self._semantic_generation = self._store.generation
        found = None if group[1] == OTHERS else self._store.semantic(*group)
        dtype = self._settings.encoding_dtype
        self._semantic = None if found is None else semantic_state(found, self.backbone, dtype)
        return found

    def say(self, utterance: str, at: datetime.datetime | None = None) -> Reply:
        """Answer an utterance from memory and corpus, then remember it.

        Raises:
            UsageError: it is empty.
            InputError: it is not valid Unicode.
            DamagedStateError: a state is not what was written.
            BusyError: another process is writing to the memory.
        """
        started = time.perf_counter()
        if self.start is None:
            self.begin(utterance)
        elif self._store.generation != self._semantic_generation:
            self._take_up((self.start.domain, self.start.subcluster))
        found, encode_sec, search_sec = self._search(utterance)
        reply = self._answer(utterance, found, encode_sec, search_sec)
        remembered = None
        if self.options.is_remembered(utterance):
            remembered = self._remember(utterance, at or datetime.datetime.now().astimezone())
            if reply.abstained:
                reply = replace(reply, text=REMEMBERED)
        timings = {**reply.timings_sec, "total": time.perf_counter() - started}
        return replace(reply, remembered=remembered, timings_sec=timings)

    def _search(self, utterance: str) -> tuple[list[SessionEvidence], float, float]:
        begun = time.perf_counter()
        chunks = None
        if self._searcher is not None:
            chunks = self._pool.submit(self._searcher.search, utterance, self.options.top_k)
        recalled = self._recaller.recall(utterance, self.options.top_k, probes=self._settings.probes)
        found = [SessionEvidence(entry.cosine, memory=entry) for entry in recalled.evidence]
        if chunks is not None:
            found += [SessionEvidence(entry.hit.dense, corpus=entry) for entry in chunks.result().found]
        if chunks is not None:  # alone, the memory's own order by words and meaning stands
            found.sort(key=lambda entry: -entry.score)
        spent = time.perf_counter() - begun
        return found[: self.options.top_k], recalled.encode_sec, spent - recalled.encode_sec

    def _answer(self, utterance: str, found: list[SessionEvidence], encode_sec: float, search_sec: float) -> Reply:
        timings = {"encode": encode_sec, "search": search_sec}
        if not found:
            return Reply(NOTHING, (), "none", False, 0.0, 0.0, True, None, 0, timings)
        begun = time.perf_counter()
        members = found[: self.options.inject]
        loaded = [self._load(entry) for entry in members]
        timings["load"] = time.perf_counter() - begun
        settings = FreeSettings() if self.options.free else self._grounded
        composed = answer_composed(
            self.backbone,
            [state for state, _ in loaded],
            [entry.score for entry in members],
            question_segment(self.backbone, utterance),
            how=self.options.composing,
            chunks=[source.token_ids.tolist() for _, source in loaded],
            semantic_state=self._semantic,
            sources=[] if self.options.free else [source for _, source in loaded],
            settings=settings,
        )
        answer = composed.answer
        timings |= {"inject": composed.compose_sec, "first_token": answer.first_token_sec}
        timings["ttft"] = sum(timings.values())
        confidence = _confidence(answer)
        threshold = self.options.min_confidence
        if threshold is None:
            threshold = 0.0 if self.options.free else self._grounded.min_confidence
        abstained = confidence < threshold and not self.options.always_answer
        weighed = [replace(entry, weight=weight) for entry, weight in zip(members, composed.weights, strict=True)]
        return Reply(
            NOTHING if abstained else self.backbone.tokenizer.decode(answer.token_ids).strip(),
            (*weighed, *found[len(members) :]),
            self.options.composing.rule,
            composed.exact,
            composed.baseline,
            confidence,
            abstained,
            None,
            answer.tokens_processed,
            timings,
        )

    def _load(self, entry: SessionEvidence) -> tuple[State, Source]:
        """A member's state, and the tokens it has read."""
        if entry.memory is not None:
            return self._memory_state(entry.memory)
        assert entry.corpus is not None
        return self._chunk_state(entry.corpus)

    def _memory_state(self, evidence: Evidence) -> tuple[State, Source]:
        record = self._store.read_state(evidence.deposit.id)
        if record is not None:
            return self._reader.state(record), Source.of(record.token_ids, record.suffix_array)
        ids, state = read_again(evidence.deposit, self.backbone, self._reader)  # its state has expired
        return state, Source.of(ids, build_suffix_array(ids))

    def _chunk_state(self, found: Found) -> tuple[State, Source]:
        assert self._searcher is not None
        record = self._searcher.store.read_state(found.chunk)
        suffixes = record.suffix_array if len(record.suffix_array) else None
        return self._chunk_states.state(record), Source.of(record.token_ids, suffixes)

    def _remember(self, text: str, at: datetime.datetime) -> int:
        with MemoryStore.open(self._folder, write=True, wait_sec=30.0) as store:
            memory = OpenMemory(store, settings_of(store), self.backbone, self._encoder)
            said = Utterance(text, at.replace(microsecond=0), self.options.speaker)
            tokenizer, most = self.backbone.tokenizer, memory.settings.chunk_tokens
            done = deposit(memory, chunks_of([said], tokenizer, max_tokens=most))
        self._has_remembered = True
        return done.ids[0]

    def _check_encoder(self, searcher: Searcher) -> None:
        made_by = searcher.settings.encoder_fingerprint
        if made_by != self._encoder.fingerprint:
            raise EncoderError(
                "memory and corpus were made with different sentence encoders, so their scores cannot be compared",
                given=titled("the corpus", made_by),
                expected=titled(self._encoder.name, self._encoder.fingerprint),
                hint="precog reindex --encoder … the corpus, or precog memory reindex --encoder … the memory",
            )


def _confidence(answer: Answer) -> float:
    if answer.grounded is not None:
        return answer.grounded.confidence
    return math.exp(answer.log_probability / len(answer.token_ids)) if answer.token_ids else 0.0
