"""A corpus and a user's memory on this machine, as other programs use them: opened when needed, one call at a time."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import Any, TypeVar

from precog.backbones.protocol import Backbone
from precog.config import expanded, resolve
from precog.corpus.answer import CorpusAnswer
from precog.corpus.ask import Asker, AskOptions
from precog.corpus.search import Searcher
from precog.encoders import Encoder
from precog.engine import FreeSettings, OnText, Sampling, question_segment, read_on, speak
from precog.errors import BusyError, CancelledError, CorpusError, EncoderError, StateError, StorageError, UsageError
from precog.index import Retrieval
from precog.interrupt import check_asked, leaving_when
from precog.memory.chunking import chunks_of
from precog.memory.contents import Listed, groups_of, listed
from precog.memory.deposit import deposit
from precog.memory.forget import Forgotten, forget
from precog.memory.made_with import encoder_of, settings_of
from precog.memory.opened import OpenMemory
from precog.memory.place import existing_folder, memory_folder
from precog.memory.recall import Recalled, Recaller, refreshed_or_why
from precog.memory.selection import Selection
from precog.memory.utterance import Utterance
from precog.plugins.answering import Asking, Passage, Told
from precog.records import ModelChoice
from precog.server.outside import forget_responses_of_memory
from precog.server.settings import resolve_server
from precog.session import Reply, Session, SessionOptions
from precog.store.memory import Deposit, MemoryFolder, MemoryStore
from precog.text.question import check_question

T = TypeVar("T")
_REPLACED = (CorpusError, EncoderError, StateError, StorageError)
"""What reading raises, among others, where folders were replaced, removed or made anew by another model meanwhile."""
_MAKING = threading.Lock()


class Knowledge:
    """A corpus, a user's memory, or both, with the model; may be used from any thread.

    Attributes:
        corpus: its folder; None for none.
        user: whose memory it is; None for none.
    """

    def __init__(
        self,
        corpus: str | Path | None = None,
        user: str | None = None,
        *,
        model: str | None = None,
        encoder: str | None = None,
    ) -> None:
        """Notes what is to be opened.

        Args:
            corpus: its folder; None for none.
            user: whose memory; None for none.
            model: folder or name; None for what environment and configuration say, else for the one that made them.
            encoder: of sentences; None likewise.

        Raises:
            UsageError: a setting is wrong, or the user has no name.
        """
        self._named = {"corpus": corpus, "user": user, "model": model, "encoder": encoder}
        self._settings = resolve({"model": model, "encoder": encoder})
        self.corpus = None if corpus is None else expanded(corpus)
        self.user = user
        self._folder = None if user is None else memory_folder(self._settings.home, user)
        self._using = threading.RLock()
        self._encoder: str | Encoder | None = self._settings.encoder  # of the memory, open once it was used
        self._loaded: Backbone | None = None
        self._asker: Asker | None = None
        self._session: Session | None = None
        self._searcher: Searcher | None = None

    def __enter__(self) -> "Knowledge":
        return self

    def __reduce__(self) -> tuple[Callable[..., "Knowledge"], tuple[object, ...]]:
        """A copy opens the same by itself."""
        return partial(Knowledge, **self._named), ()  # type: ignore[arg-type]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def is_not_of(self, named: Mapping[str, object]) -> bool:
        """Whether it was made with other arguments."""
        return self._named != named

    def close(self) -> None:
        """Closes what is open; what is used again is opened again."""
        with self._using:
            for part in (self._asker, self._session, self._searcher):
                if part is not None:
                    part.close()
            self._asker = self._session = self._searcher = None

    @property
    def model_name(self) -> str:
        """Name or folder of the model, as it was chosen; "precog" where it is the one that is installed."""
        return self._settings.model or "precog"

    def ask(
        self,
        question: str,
        how: Asking | None = None,
        *,
        before: Sequence[str] = (),
        on_text: OnText | None = None,
        stopped: threading.Event | None = None,
    ) -> Told:
        """Answers from the memory and the corpus; where there is neither, from the model alone.

        Args:
            question: in words.
            how: the answer is to be.
            before: what was said before, which the model reads where it is asked alone.
            on_text: told the answer piece by piece where it is a free one, else in one piece.
            stopped: set when nobody waits for the answer any more: the model stops at its next token.

        Raises:
            CancelledError: it was set.
            PrecogError: it cannot be answered; the error says why.
        """
        how = how or Asking()
        check_question(question)
        has_spoken = False

        def speaking(text: str) -> None:
            nonlocal has_spoken
            has_spoken = True
            if on_text is not None:
                on_text(text)

        def answer() -> Told:
            if self._folder is not None:
                return self._from_session(question, how, speaking)
            if self.corpus is not None:
                return self._from_corpus(question, how, speaking)
            return self._from_model(question, how, before, speaking)

        with self._using, leaving_when(stopped):
            check_asked()
            return self._of_what_is_there(answer, may_repeat=lambda: not has_spoken)

    def stream(self, question: str, how: Asking | None = None, *, before: Sequence[str] = ()) -> Iterator[str | Told]:
        """The same as `ask`: pieces of the text as they come, and at last all that is known of the answer.

        Whoever closes the iterator stops the model at its next token.
        """
        pieces: SimpleQueue[str | Told | BaseException] = SimpleQueue()
        gone = threading.Event()

        def work() -> None:
            try:
                pieces.put(self.ask(question, how, before=before, on_text=pieces.put, stopped=gone))
            except BaseException as error:
                pieces.put(error)

        thread = threading.Thread(target=work, name="answer", daemon=True)
        thread.start()
        try:
            while True:
                piece = pieces.get()
                if isinstance(piece, BaseException):
                    raise piece
                if piece:
                    yield piece
                if isinstance(piece, Told):
                    return
        finally:
            gone.set()
            thread.join()

    def search(
        self, query: str, top_k: int, *, retrieval: Retrieval = "hybrid", stopped: threading.Event | None = None
    ) -> list[dict[str, object]]:
        """The best chunks of the corpus, without a model, as the command line prints them.

        Args:
            query: in words.
            top_k: most chunks.
            retrieval: by meaning, by words, or both.
            stopped: set when nobody waits for them any more: it ends before its next stage.

        Raises:
            CancelledError: it was set.
            UsageError: there is no corpus, or nothing is asked.
            CorpusError, EncoderError: it cannot be searched.
        """
        if self.corpus is None:
            raise UsageError("which corpus?", expected="the folder of one")
        corpus = self.corpus

        def hits() -> list[dict[str, object]]:
            if self._searcher is None:
                self._searcher = Searcher(corpus, encoder=self._settings.encoder)
            check_asked()
            return [found.to_json() for found in self._searcher.search(query, top_k, retrieval=retrieval).found]

        with self._using, leaving_when(stopped):
            check_asked()
            return self._of_what_is_there(hits)

    def passages(self, query: str, top_k: int, *, retrieval: Retrieval = "hybrid") -> list[Passage]:
        """What bears on a query, without a model: chunks of the corpus, or, where there is none, what was said.

        Raises:
            PrecogError: it cannot be searched.
        """
        if self.corpus is not None or self._folder is None:
            return [Passage.of(found) for found in self.search(query, top_k, retrieval=retrieval)]
        check_question(query)
        recalled = self.recall(query, top_k).evidence if self.has_memory else ()
        return [Passage.of(found.to_json()) for found in recalled]

    @property
    def has_memory(self) -> bool:
        """Whether anything was ever remembered."""
        return self._folder is not None and MemoryFolder(self._folder).exists

    def recall(self, query: str, top_k: int, *, stopped: threading.Event | None = None) -> Recalled:
        """What was said that bears on a question, without a model.

        Args:
            query: in words.
            top_k: most deposits.
            stopped: set when nobody waits for them any more: it ends before its next stage.

        Raises:
            CancelledError: it was set.
            CorpusError: nothing is remembered.
            PrecogError: the memory cannot be searched.
        """

        def recalled() -> Recalled:
            with self._reading() as store:
                settings = settings_of(store)
                self._encoder = encoder = encoder_of(settings, self._encoder)
                check_asked()
                return Recaller(store, encoder).recall(query, top_k, probes=settings.probes)

        with self._using, leaving_when(stopped):
            check_asked()
            return self._of_what_is_there(recalled)

    def listed(self, limit: int, *, speaker: str | None = None, before: int | None = None) -> Listed:
        """The newest deposits, the newest last.

        Raises:
            CorpusError: nothing is remembered.
        """
        with self._using, self._reading() as store:
            return listed(store, speaker=speaker, limit=limit, before=before)

    def turns(self, limit: int | None) -> list[Utterance]:
        """What was said, the newest last, parts of long turns put together; nothing where nothing is remembered.

        Args:
            limit: most turns, the newest ones; None for all.
        """
        if not self.has_memory:
            return []
        with self._using, self._reading() as store:
            whole = _whole_turns(store.deposits(only_sound=True))
        return whole if limit is None else whole[-limit:]

    def remember(
        self, said: Sequence[Utterance], *, importance: float = 0.0, stopped: threading.Event | None = None
    ) -> dict[str, object]:
        """Remembers turns, and makes the memory where there is none; as the command line prints it.

        Args:
            said: the turns.
            importance: of two stored states the less important expires first.
            stopped: set when no more of it is to be remembered.

        Raises:
            CancelledError: it was set; what is complete stays.
            UsageError: there is no user.
            BusyError: another process goes on writing.
            PrecogError: the memory or the model cannot be used.
        """
        with self._using, self._writing(create=True, stopped=stopped) as memory:
            chunks = chunks_of(said, memory.backbone.tokenizer, max_tokens=memory.settings.chunk_tokens)
            try:
                done = deposit(memory, chunks, importance=importance, stopped=stopped)
            except KeyboardInterrupt as error:
                if stopped is None or not stopped.is_set():
                    raise
                hint = "remember the same again: what is there is kept once"
                raise CancelledError(
                    "it was stopped; the parts that were complete are remembered", hint=hint
                ) from error
            refreshed_or_why(memory.store, memory.settings.encoder_fingerprint)
            return {**done.to_json(), "groups": groups_of(memory.store, done.ids)}

    def forget(self, selection: Selection, *, proof: bool = True, stopped: threading.Event | None = None) -> Forgotten:
        """Forgets deposits with all that was made of them, and searches every byte for what they left.

        Stored responses of this machine's server that have read the memory go, too.

        Args:
            selection: which.
            proof: search for what they left.
            stopped: set when nobody waits for it any more: what has not begun does not begin, what has is finished.

        Raises:
            CancelledError: it was set before anything was forgotten.
            CorpusError: nothing is remembered.
            InputError: nothing fits.
            PrecogError: the memory or the model cannot be used.
        """
        server = resolve_server()
        with self._using, self._writing(stopped=stopped) as memory:
            with leaving_when(stopped):
                chosen = selection.find(memory.store, Recaller(memory.store, memory.encoder))
                damaged = selection.damaged(memory.store)
                check_asked()
            done = forget(memory, chosen, damaged=damaged, proof=proof)
        assert self._folder is not None
        forget_responses_of_memory(server, self._folder)
        return done

    def forget_all(self) -> None:
        """Forgets everything that is remembered, without a proof; nothing is done where nothing is.

        Raises:
            PrecogError: the memory or the model cannot be used.
        """
        if self.has_memory and self.listed(1).total:
            self.forget(Selection(everything=True), proof=False)

    @property
    def _choice(self) -> ModelChoice:
        return replace(ModelChoice.of(self._settings), loaded=self._loaded)

    def _user(self) -> str:
        if self.user is None:
            raise UsageError("whose memory?", expected="the name of a user")
        return self.user

    def _of_what_is_there(self, work: Callable[[], T], *, may_repeat: Callable[[], bool] = lambda: True) -> T:
        """Does it; once more with all opened anew where what was open may not be what is there now."""
        parts = (self._asker, self._session, self._searcher, self._loaded)
        was_open = isinstance(self._encoder, Encoder) or any(part is not None for part in parts)
        try:
            return work()
        except BusyError:  # what was open is still right
            raise
        except _REPLACED:
            self._let_go()
            if not was_open or not may_repeat():
                raise
        try:
            return work()
        except _REPLACED:
            self._let_go()
            raise

    def _let_go(self) -> None:
        """Closes all, model and encoder as well: they may be no longer those that made what is there."""
        self.close()
        self._loaded, self._encoder = None, self._settings.encoder

    @contextmanager
    def _reading(self) -> Iterator[MemoryStore]:
        with MemoryStore.open(existing_folder(self._settings.home, self._user())) as store:
            yield store

    @contextmanager
    def _writing(self, *, create: bool = False, stopped: threading.Event | None = None) -> Iterator[OpenMemory]:
        """A memory that is open to write; whoever goes leaves the line of those who wait for it."""
        home, user = self._settings.home, self._user()
        folder = memory_folder(home, user) if create else existing_folder(home, user)
        with leaving_when(stopped):
            check_asked()
            opened = self._of_what_is_there(
                lambda: OpenMemory.open(folder, self._choice, encoder=self._encoder, create=create)
            )
        with opened as memory:
            self._loaded, self._encoder = memory.backbone, memory.encoder
            yield memory

    def _from_session(self, question: str, how: Asking, on_text: OnText) -> Told:
        assert self._folder is not None
        if how.max_tokens is not None or how.sampling != Sampling():
            raise UsageError("answers from a memory are neither sampled nor cut", expected="no temperature, no limit")
        if self._session is None:
            self._session = Session(self._folder, model=self._choice, encoder=self._encoder, corpus=self.corpus)
            self._loaded = self._session.backbone
        session = self._session
        check_asked()
        session.options = SessionOptions(
            top_k=how.top_k,
            free=how.free,
            min_confidence=how.min_confidence,
            always_answer=how.always_answer,
            remember="nothing",
        )
        has_said = False

        def say(text: str) -> None:
            nonlocal has_said
            has_said = True
            on_text(text)

        reply = session.say(question, on_text=say)
        if not has_said:  # it comes as a whole, or nothing was found
            on_text(reply.text)
        return _told_by(reply, session.backbone.card.name)

    def _from_corpus(self, question: str, how: Asking, on_text: OnText) -> Told:
        if self._asker is None:
            settings = self._settings
            self._asker = Asker(self.corpus, model=self._choice, encoder=settings.encoder, home=settings.home)
        check_asked()
        options = AskOptions(
            top_k=how.top_k,
            free=how.free,
            min_confidence=how.min_confidence,
            always_answer=how.always_answer,
            max_tokens=how.max_tokens,
            sampling=how.sampling if how.free else Sampling(),
        )
        answer = self._asker.ask(question, options, on_text=on_text)
        return _told_of(answer)

    def _from_model(self, question: str, how: Asking, before: Sequence[str], on_text: OnText) -> Told:
        if self._loaded is None:
            self._loaded = self._choice.load("once")
        backbone = self._loaded
        opening: list[int] = []
        for text in before:
            if text.strip():
                opening += backbone.reading(backbone.tokenizer.encode(text.strip()))
        context = read_on(backbone, backbone.empty_state(), opening)
        segment = question_segment(backbone, question)
        spoken = speak(backbone, context, segment, FreeSettings.of(how.max_tokens, how.sampling), on_text)
        name = backbone.card.name
        processed = len(opening) + len(segment) + spoken.num_tokens
        details = {"text": spoken.text, "model": name, "mode": "none", "tokens_processed": processed}
        return Told(spoken.text, name, (), details)


def knowledge_of(
    owner: Any,
    *,
    corpus: str | None = None,
    user: str | None = None,
    model: str | None = None,
    encoder: str | None = None,
) -> Knowledge:
    """What an object of another program works on, kept in its ``_knowledge``.

    Fields of such objects are changed, and copies are made with others: what was made of former ones is not theirs.
    """
    named = {"corpus": corpus, "user": user, "model": model, "encoder": encoder}
    with _MAKING:
        made: Knowledge | None = owner._knowledge
        if made is None or made.is_not_of(named):
            owner._knowledge = made = Knowledge(corpus, user, model=model, encoder=encoder)
        return made


def _whole_turns(deposits: Iterable[Deposit]) -> list[Utterance]:
    turns: list[Utterance] = []
    for found in deposits:
        info = found.info
        if info.details.get("part") and turns:
            turns[-1] = replace(turns[-1], text=f"{turns[-1].text} {info.text}")
        else:
            turns.append(Utterance(info.text, info.time, info.speaker, info.place))
    return turns


def _told_of(answer: CorpusAnswer) -> Told:
    passages = tuple(Passage.of(found.to_json()) for found in answer.sources)
    return Told(answer.text, answer.model, passages, answer.to_json())


def _told_by(reply: Reply, model: str) -> Told:
    passages = tuple(Passage.of(entry.to_json()) for entry in reply.cited)
    return Told(reply.text, model, passages, reply.to_json())
