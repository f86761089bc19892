"""A user's memory as a conversation needs it: open to read, and to write only while a turn is deposited.

Nothing is made where nothing is remembered yet; what another process remembers, forgets or begins meanwhile is seen at
the next turn, and a memory that was purged or replaced is refused.
"""

import contextlib
import datetime
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float32

from precog.backbones.protocol import Backbone
from precog.encoders import Encoder, load_encoder
from precog.engine import Source
from precog.engine.suffixes import build_suffix_array
from precog.errors import (
    BusyError,
    CorpusError,
    DamagedCorpusError,
    InputError,
    PrecogError,
    StateError,
    StorageError,
    UsageError,
)
from precog.memory.chunking import chunks_of
from precog.memory.consolidate import kept_record, read_again, refold
from precog.memory.damage import Damage, lost_prototypes
from precog.memory.deposit import deposit
from precog.memory.forget import Forgotten, forget
from precog.memory.made_with import encoder_of, prototypes_of, settings_of
from precog.memory.opened import OpenMemory, check_model, first_settings
from precog.memory.preceding import Said, reply_to
from precog.memory.prototypes import Prototypes, own_prototypes
from precog.memory.recall import Evidence, Recalled, Recaller, refresh_index
from precog.memory.selection import Selection
from precog.memory.settings import MemorySettings
from precog.memory.supersede import supersede
from precog.memory.utterance import Utterance
from precog.records import ModelChoice, StateReader
from precog.state import State
from precog.store.memory import Deposit, Group, MemoryStore, Semantic

WAIT_SEC = 5.0
"""For another writer, such as another conversation, which holds the memory for as long as a turn takes to deposit."""

_MEANWHILE = {
    "removed": "the memory was purged meanwhile",
    "made anew": "the memory was purged meanwhile, and another one begun",
    "replaced": "the memory was replaced meanwhile, by `precog memory reindex` or by one begun after a purge",
}


class MemorySide:
    """The memory of one user, there or not yet.

    Attributes:
        settings: its own; where there is none, those it would be made with.
        backbone: the model.
        encoder: of its keys.
        prototypes: that it routes by now, or would.
    """

    def __init__(self, folder: Path, model: ModelChoice, encoder: str | Encoder | None) -> None:
        """Opens what is there.

        Raises:
            CorpusError: something else is in its place, or it is damaged.
            ModelError, EncoderError: a part is missing.
            ForeignStateError: another model made the memory.
        """
        self._folder = folder
        self._store: MemoryStore | None = None
        self._recaller: Recaller | None = None
        self._generation = -1
        self._has_remembered = False
        self._last: tuple[int, ...] = ()
        self._damage = Damage()
        if MemoryStore.FOLDER(folder).exists:
            self._store = MemoryStore.open(folder)
        try:
            if self._store is not None:
                made_with = settings_of(self._store)
                self.backbone: Backbone = model.open(made_with.model, "once")
                self.encoder: Encoder = encoder_of(made_with, encoder)
                self._take(self._store)
            else:
                self.backbone, self.encoder = model.load("once"), load_encoder(encoder)
                self.settings: MemorySettings = first_settings(model, self.backbone, encoder, self.encoder)
                self.prototypes: Prototypes = own_prototypes(self.encoder)
        except BaseException:
            self.close()
            raise

    @property
    def folder(self) -> Path:
        """Where it is, there or not."""
        return self._folder

    def close(self) -> None:
        """Closes the memory, and writes its index once for all that was remembered."""
        if self._store is not None:
            self._store.close()
        if self._has_remembered:
            self._has_remembered = False
            # whoever opens the memory brings older files up to date for himself: they only save him that
            with contextlib.suppress(PrecogError), self._to_index() as store:
                refresh_index(store, self.encoder.fingerprint)

    def _to_index(self) -> MemoryStore:
        return MemoryStore.open(self._folder, write=True, wait_sec=1.0, allow_damaged=True)

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """What is read and written inside is of the memory that was opened, or begun since; else it says so.

        Raises:
            CorpusError: the memory was purged or replaced.
        """
        try:
            self._look()
            yield
        except (CorpusError, StateError, StorageError):
            self._refuse_another()  # what is gone reads like damage
            raise

    @property
    def generation(self) -> int:
        """Rises with every change of the memory; -1 while there is none."""
        return -1 if self._store is None else self._store.generation

    def take_damage(self) -> Damage:
        """What was found damaged since it was asked for last; its texts stood in for it where they could."""
        found, self._damage = self._damage, Damage()
        return found

    def semantic(self, group: Group) -> Semantic | None:
        """The semantic state of a sub-cluster: one row, or folded anew from its deposits where that is damaged."""
        store = self._store
        if store is None:
            return None
        try:
            return store.semantic(*group)
        except DamagedCorpusError as error:
            self._refuse_another()
            self._damage += Damage(others=(str(error),))
            members = store.deposits(domain=group[0], subcluster=group[1], only_sound=True)
            alpha = self.settings.alpha
            return refold(store, members, group, alpha, self.backbone, self._reader, self._note_state)

    def _note_state(self, deposit_id: int) -> None:
        self._refuse_another()  # what is gone reads like damage, and is not read again
        self._damage += Damage(states=(deposit_id,))

    def recall(self, question: str, k: int, key: Float32[np.ndarray, " E"]) -> Recalled:
        """The k best deposits for a question; none where nothing is remembered."""
        if self._recaller is None:
            return Recalled((), (), 0.0, 0.0, 0.0)
        recalled = self._recaller.recall(question, k, probes=self.settings.probes, key=key)
        self._damage += recalled.damage
        return recalled

    def reply_to(self, asked: Evidence, key: Float32[np.ndarray, " E"]) -> Evidence | None:
        """What somebody else said next after a deposit, and holds; compared with the key of the question."""
        store, number = self._store, asked.deposit.id
        assert store is not None
        later = store.deposits(from_id=number + 1, superseded=False, only_sound=True)
        found = reply_to(Said.of_deposit(asked.deposit), ((deposit, Said.of_deposit(deposit)) for deposit in later))
        if found is None:
            return None
        cosines = [float((entry.keys @ key).max()) for entry in store.iter_keys([found.id], only_sound=True)]
        return Evidence(found, asked.score, cosines[0] if cosines else asked.cosine)

    @property
    def keeps_states(self) -> bool:
        """Whether stored states count as what reading leaves."""
        return self._reader.keeps_states

    def state(self, evidence: Evidence) -> tuple[State, Source]:
        """The state after a deposit, and the tokens it has read."""
        assert self._store is not None
        record = kept_record(self._store, evidence.deposit, self._note_state)
        if record is not None:
            return self._reader.state(record), Source.of(record.token_ids, record.suffix_array)
        ids, state = read_again(evidence.deposit, self.backbone, self._reader)  # its state has expired or is damaged
        return state, Source.of(ids, build_suffix_array(ids))

    def remember(self, text: str, at: datetime.datetime, speaker: str | None) -> int:
        """Deposits a turn in a short transaction, and makes the memory where there is none.

        Returns:
            The id of its first deposit.

        Raises:
            BusyError: another process went on writing; nothing of the turn is remembered.
            StorageError: the disk is full or refuses.
        """
        said = Utterance(text, at.replace(microsecond=0), speaker)
        chunks = list(chunks_of([said], self.backbone.tokenizer, max_tokens=self.settings.chunk_tokens))
        try:
            with self._opened_to_write() as memory:
                done = deposit(memory, chunks)
                self._damage += memory.damage
        except BusyError as error:
            hint = "it was not remembered: say it again in a moment"
            raise BusyError(error.message, given=error.given, hint=hint) from error
        self._has_remembered = True
        self._last = tuple(dict.fromkeys(done.ids))
        return done.ids[0]

    def newest(self, count: int) -> list[Deposit]:
        """The deposits that were made last, the newest of them last."""
        if self._store is None or not count:
            return []
        return list(deque(self._store.deposits(), maxlen=count))

    def forget(self, ids: Sequence[int] = ()) -> Forgotten:
        """Forgets deposits, and what was made of them.

        Args:
            ids: of the deposits; none for all parts of the turn that was remembered last in this conversation.

        Raises:
            UsageError: no ids, and nothing that was remembered in this conversation is left.
            InputError: a deposit is not there.
            BusyError: another process went on writing, or reads what is to go.
            StorageError: the disk refuses.
        """
        chosen = tuple(ids) or self._last
        if not chosen:
            hint = "name the number of a deposit"
            raise UsageError("nothing of this conversation is remembered, or it is forgotten already", hint=hint)
        if self._store is None:
            raise InputError("there is no such deposit", given=chosen[0], hint="nothing is remembered yet")
        with self._opened_to_write() as memory:
            found = Selection(ids=chosen).find(memory.store, Recaller(memory.store, memory.encoder))
            done = forget(memory, found, proof=False)
        self._last = tuple(number for number in self._last if number not in done.ids)
        return done

    def supersede(self, old: int, new: int) -> None:
        """Lets one deposit hold instead of another.

        Raises:
            InputError: see `precog.memory.supersede`; or nothing is remembered yet.
            BusyError: another process went on writing.
            StorageError: the disk refuses.
        """
        if self._store is None:
            raise InputError("there is no such deposit", given=old, hint="nothing is remembered yet")
        with self._opened_to_write() as memory:
            supersede(memory.store, old, new)
        self._has_remembered = True

    def _opened_to_write(self) -> OpenMemory:
        if self._store is None:
            return OpenMemory.begin(
                self._folder,
                self.settings,
                self.backbone,
                self.encoder,
                prototypes=self.prototypes,
                wait_sec=WAIT_SEC,
            )
        store = MemoryStore.open(self._folder, write=True, wait_sec=WAIT_SEC, allow_damaged=True)
        try:
            if store.memory_id != self._store.memory_id:
                self._refuse_another()
            return OpenMemory(store, self.settings, self.backbone, self.encoder)
        except BaseException:
            store.close()
            raise

    def _look(self) -> None:
        if self._store is not None:
            self._refuse_another()
        elif MemoryStore.FOLDER(self._folder).exists:  # begun since, here or by another process
            store = MemoryStore.open(self._folder)
            try:
                self._take(store)
            except BaseException:
                store.close()
                raise
            self._store = store
        if self._store is not None and self._generation != self._store.generation:
            self._route_anew(self._store)

    def _take(self, store: MemoryStore) -> None:
        """Reads a memory that has been opened.

        Raises:
            ForeignStateError, EncoderError: it was made by another model or encoder.
        """
        settings = settings_of(store)
        check_model(store, settings, self.backbone)
        encoder = encoder_of(settings, self.encoder)
        self._route_anew(store)
        self.settings, self._recaller = settings, Recaller(store, encoder)
        self._reader = StateReader(settings.form, self.backbone)

    def _route_anew(self, store: MemoryStore) -> None:
        self._generation = store.generation
        # whoever made it may have been interrupted before they were written; if it holds deposits, they are lost
        self._damage += Damage(others=lost_prototypes(store))
        self.prototypes = prototypes_of(store) if store.has_prototypes else own_prototypes(self.encoder)

    def _refuse_another(self) -> None:
        fate = "there" if self._store is None else self._store.fate
        if fate != "there":
            hint = "this turn is not remembered, and nothing that was to be kept is lost; start again"
            raise CorpusError(_MEANWHILE[fate], given=self._folder, hint=hint)
