"""Commit units into a store: states and keys are made here, the model and the encoder working side by side."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float32

from precog.backbones.protocol import Backbone
from precog.corpus.settings import CorpusSettings
from precog.corpus.sources import title_of
from precog.corpus.unit import Drop, Event, Fail, Finish, Take, Unit
from precog.encoders import Encoder
from precog.engine.suffixes import build_suffix_array
from precog.errors import ModelError
from precog.questions.found_by import check_keys, key_text
from precog.refine.quality import QualityStates, study_settings
from precog.state import LayerSubset, State, codec_named
from precog.store import Batch, ChunkInfo, CorpusStore, DocumentInfo
from precog.text.chunking.chunk import Chunk

TokenIds = tuple[int, ...]
Keys = Float32[np.ndarray, "_ E"]
PutState = Callable[[Batch], int]
"""Adds one state to a batch and returns its id."""


@runtime_checkable
class StateMaker(Protocol):
    """Where the states of a unit come from."""

    def make(self, takes: Iterable[Take]) -> dict[TokenIds, PutState]:
        """For each chunk, by its token ids, what puts its state into a batch."""
        ...


class MadeStates:
    """States made by reading the chunks and, where the corpus is studied, by training each on its chunk's own text.

    Attributes:
        tally: what studying made of them so far.
    """

    def __init__(self, backbone: Backbone, settings: CorpusSettings) -> None:
        """Prepares for a corpus.

        Raises:
            UsageError, ModelError: its states are to be studied, and the model cannot be studied with.
        """
        self._backbone = backbone
        self._states = QualityStates(backbone, study_settings(backbone, settings.quality, settings.study_limits))
        self.tally = self._states.tally
        self._codec = codec_named(settings.codec)
        self._layers = LayerSubset.parse(settings.layers, backbone.spec.layers)

    def make(self, takes: Iterable[Take]) -> dict[TokenIds, PutState]:
        """Reads the chunks in one batch of unequal lengths, then studies them together."""
        wanted: dict[TokenIds, Chunk] = {}
        for take in takes:
            wanted.setdefault(take.chunk.token_ids, take.chunk)
        texts = [chunk.full_text for chunk in wanted.values()]
        titles = [chunk.context.strip() for chunk in wanted.values()]
        made = self._states.make(texts, list(wanted), titles)
        return {ids: self._put(ids, state, refined) for ids, (state, refined) in zip(wanted, made, strict=True)}

    def _put(self, ids: TokenIds, state: State, refined: bool) -> PutState:
        def put(batch: Batch) -> int:
            data = self._codec.encode(state, self._backbone.spec, self._layers)
            tau, suffixes = state.decay_time.numpy(), build_suffix_array(ids)
            return batch.add_state(ids, state=data, tau=tau, suffix_array=suffixes, refined=refined)

        return put


class CopiedStates:
    """States that another store of the same model holds already, by the chunk that a `Take` is a copy of."""

    def __init__(self, store: CorpusStore) -> None:
        self._store = store

    def make(self, takes: Iterable[Take]) -> dict[TokenIds, PutState]:
        """Reads and checks the records."""
        return {take.chunk.token_ids: self._put(take) for take in takes}

    def _put(self, take: Take) -> PutState:
        assert take.copy_of is not None
        [chunk] = self._store.chunks([take.copy_of]).values()
        if not chunk.is_stored:
            return lambda batch: batch.add_unstored_state(take.chunk.token_ids)
        record = self._store.read_state(chunk)
        if tuple(record.token_ids.tolist()) != take.chunk.token_ids:
            hint = "say where the model is that made it, or another one: --model DIR"
            raise ModelError("the tokenizer of this corpus is not here", given=take.chunk.document, hint=hint)

        def put(batch: Batch) -> int:
            suffixes = record.suffix_array if len(record.suffix_array) else None
            return batch.add_state(
                take.chunk.token_ids,
                state=record.state,
                tau=record.tau,
                suffix_array=suffixes,
                refined=record.refined,
            )

        return put


class UnitWriter(AbstractContextManager["UnitWriter"]):
    """Commits units, one at a time; see `unit` for why their bounds matter.

    Args:
        store: open to write.
        states: where the states come from.
        encoder: makes the keys.
        keys: what chunks are found by, as `CorpusSettings.keys` says.

    Raises:
        UsageError: there is no such kind of keys.

    Attributes:
        num_states: states put into the store so far.
        num_tokens: tokens of all chunks so far.
        num_let_go: states that gave way to the corpus's budget.
    """

    def __init__(self, store: CorpusStore, states: StateMaker, encoder: Encoder, keys: str) -> None:
        check_keys(keys)
        self._store = store
        self._states = states
        self._encoder = encoder
        self._key_kind = keys
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="keys")
        self.num_states = 0
        self.num_tokens = 0
        self.num_let_go = 0
        self._budget_bytes = store.state_budget_bytes

    def keep_budget(self) -> None:
        """Keeps the corpus's budget where nothing was committed, as after it was made smaller."""
        if (
            self._budget_bytes is not None
            and self._store.size().num_states > self._budget_bytes // self._store.layout.record_bytes
        ):
            with self._store.batch() as batch:
                self.num_let_go += batch.keep_budget(self._budget_bytes)

    def __enter__(self) -> "UnitWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)

    def commit(self, unit: Unit) -> None:
        """Makes what a unit needs and applies its events in one step.

        Raises:
            StorageError: the disk is full or refuses; the unit is undone.
        """
        takes = unit.takes
        distinct = {take.chunk.token_ids: take for take in takes}
        future = self._pool.submit(self._keys, takes)
        with self._store.batch() as batch:
            unread = [take for ids, take in distinct.items() if batch.find_state(ids) is None]
            states = self._states.make(unread)
            self._apply(batch, unit.events, states, future.result())
            if self._budget_bytes is not None:
                self.num_let_go += batch.keep_budget(self._budget_bytes)
        self.num_states += len(unread)
        self.num_tokens += sum(len(take.chunk.token_ids) for take in takes)

    def _keys(self, takes: Sequence[Take]) -> list[Keys]:
        """The keys of each chunk; those of equal texts are made once."""
        chunks = [take.chunk for take in takes]
        texts = [key_text(self._key_kind, c.text, title=title_of(c.document), context=c.context) for c in chunks]
        distinct = list(dict.fromkeys(texts))
        found = dict(zip(distinct, self._encoder.encode_passages(distinct), strict=True))
        return [found[text] for text in texts]

    def _apply(
        self, batch: Batch, events: Iterable[Event], states: dict[TokenIds, PutState], keys: Sequence[Keys]
    ) -> None:
        rows: dict[str, int] = {}
        keys_of_next = iter(keys)

        def row_of(info: DocumentInfo) -> int:
            if info.source not in rows:
                rows[info.source] = batch.begin_document(info).id
            return rows[info.source]

        for event in events:
            match event:
                case Take(info, chunk):
                    row = row_of(info)
                    state_id = batch.find_state(chunk.token_ids)
                    if state_id is None:
                        state_id = states[chunk.token_ids](batch)
                    described = ChunkInfo(chunk.index, chunk.page, chunk.span, chunk.text, chunk.context)
                    batch.add_chunk(row, described, state_id=state_id, keys=next(keys_of_next))
                case Finish(info):
                    batch.finish_document(row_of(info), info)
                    del rows[info.source]
                case Fail(info, reason):
                    batch.fail_document(info, reason)
                    rows.pop(info.source, None)
                case Drop(document_id):
                    batch.delete_document(document_id)
