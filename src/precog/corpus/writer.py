"""Commit units into a store: states and keys are made here, the model and the encoder working side by side."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float32

from precog.backbones.protocol import Backbone
from precog.corpus.parts import PartOfChunk, readable_parts
from precog.corpus.settings import CorpusSettings
from precog.corpus.sources import title_of
from precog.corpus.unit import Drop, Event, Fail, Finish, Take, Unit
from precog.encoders import Encoder
from precog.engine.suffixes import build_suffix_array
from precog.errors import DamagedCorpusError, ModelError
from precog.questions.found_by import check_keys, key_text
from precog.refine.quality import QualityStates, study_settings
from precog.state import LayerSubset, State, codec_named
from precog.store import Batch, ChunkInfo, CorpusStore, DocumentInfo, Record
from precog.store.remedy import states_anew
from precog.text.chunking.chunk import Chunk
from precog.text.tokenizer import Tokenizer

TokenIds = tuple[int, ...]
Keys = Float32[np.ndarray, "_ E"]
PutState = Callable[[Batch], int]
"""Adds one state to a batch and returns its id."""


@dataclass(frozen=True)
class Reading:
    """A text whose state is wanted: a chunk's, or that of a part of it.

    Attributes:
        take: the chunk.
        part: of the chunk; None for all of it.
    """

    take: Take
    part: PartOfChunk | None = None

    @property
    def token_ids(self) -> TokenIds:
        """What is read, without boundary."""
        return self.take.chunk.token_ids if self.part is None else self.part.token_ids


@runtime_checkable
class StateMaker(Protocol):
    """Where the states of a unit come from."""

    def make(self, readings: Iterable[Reading]) -> dict[TokenIds, PutState]:
        """For each text, by its token ids, what puts its state into a batch."""
        ...


class MadeStates:
    """States made by reading; those of chunks are studied where the corpus asks for it, those of parts are not.

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

    def make(self, readings: Iterable[Reading]) -> dict[TokenIds, PutState]:
        """Reads chunks in one batch of unequal lengths and studies them together, then parts in another."""
        chunks: dict[TokenIds, Chunk] = {}
        parts: dict[TokenIds, PartOfChunk] = {}
        for reading in readings:
            if reading.part is None:
                chunks.setdefault(reading.token_ids, reading.take.chunk)
            else:
                parts.setdefault(reading.token_ids, reading.part)
        texts = [chunk.full_text for chunk in chunks.values()]
        titles = [chunk.context.strip() for chunk in chunks.values()]
        made = dict(zip(chunks, self._states.make(texts, list(chunks), titles), strict=True))
        rest = [ids for ids in parts if ids not in made]
        made |= {ids: (state, False) for ids, state in zip(rest, self._backbone.encode_chunks(rest), strict=True)}
        return {ids: self._put(ids, state, refined) for ids, (state, refined) in made.items()}

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

    def make(self, readings: Iterable[Reading]) -> dict[TokenIds, PutState]:
        """Reads and checks the records."""
        return {reading.token_ids: self._put(reading) for reading in readings}

    def _put(self, reading: Reading) -> PutState:
        ids = reading.token_ids
        record = self._record(reading)
        if record is None:
            return lambda batch: batch.add_unstored_state(ids)
        if tuple(record.token_ids.tolist()) != ids:
            hint = "say where the model is that made it, or another one: --model DIR"
            raise ModelError("the tokenizer of this corpus is not here", given=reading.take.chunk.document, hint=hint)

        def put(batch: Batch) -> int:
            suffixes = record.suffix_array if len(record.suffix_array) else None
            return batch.add_state(
                ids, state=record.state, tau=record.tau, suffix_array=suffixes, refined=record.refined
            )

        return put

    def _record(self, reading: Reading) -> Record | None:
        """The record of a chunk or of a part of it; None where it gave way to a budget."""
        chunk_id = reading.take.copy_of
        assert chunk_id is not None
        if reading.part is None:
            [chunk] = self._store.chunks([chunk_id]).values()
            return self._store.read_state(chunk) if chunk.is_stored else None
        span = reading.part.span
        found = next((part for part in self._store.parts(chunk_id) if part.span == span), None)
        if found is None:
            hint = f"read the stored text again: {states_anew(self._store.path)}"
            raise DamagedCorpusError(
                "a part of a chunk is missing, or another version parted it",
                given=reading.take.chunk.document,
                hint=hint,
            )
        return self._store.read_part(found) if found.is_stored else None


class UnitWriter(AbstractContextManager["UnitWriter"]):
    """Commits units, one at a time; see `unit` for why their bounds matter.

    Args:
        store: open to write.
        states: where the states come from.
        encoder: makes the keys.
        keys: what chunks are found by, as `CorpusSettings.keys` says.
        tokenizer: of the model, where the parts of chunks are read on their own, too; None where they are not.

    Raises:
        UsageError: there is no such kind of keys.

    Attributes:
        num_states: states put into the store so far.
        num_parts: those of them that are states of parts.
        num_tokens: tokens of all chunks so far.
        num_let_go: states that gave way to the corpus's budget.
    """

    def __init__(
        self, store: CorpusStore, states: StateMaker, encoder: Encoder, keys: str, tokenizer: Tokenizer | None = None
    ) -> None:
        check_keys(keys)
        self._tokenizer = tokenizer
        self._store = store
        self._states = states
        self._encoder = encoder
        self._key_kind = keys
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="keys")
        self.num_states = 0
        self.num_parts = 0
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
        readings = [Reading(take) for take in takes]
        if self._tokenizer is not None:
            most = self._store.layout.max_tokens
            readings += [
                Reading(take, part) for take in takes for part in readable_parts(take.chunk, self._tokenizer, most)
            ]
        parts = [reading.part for reading in readings if reading.part is not None]
        future = self._pool.submit(self._keys, takes, parts)
        with self._store.batch() as batch:
            distinct = {reading.token_ids: reading for reading in reversed(readings)}  # of equals the first: the chunk
            unread = [reading for ids, reading in reversed(distinct.items()) if batch.find_state(ids) is None]
            states = self._states.make(unread)
            self._apply(batch, unit.events, readings, states, *future.result())
            if self._budget_bytes is not None:
                self.num_let_go += batch.keep_budget(self._budget_bytes)
        self.num_states += len(unread)
        self.num_parts += sum(reading.part is not None for reading in unread)
        self.num_tokens += sum(len(take.chunk.token_ids) for take in takes)

    def _keys(self, takes: Sequence[Take], parts: Sequence[PartOfChunk]) -> tuple[list[Keys], list[Keys]]:
        """The keys of each chunk and of each part; those of equal texts are made once."""
        chunks = [take.chunk for take in takes]
        texts = [key_text(self._key_kind, c.text, title=title_of(c.document), context=c.context) for c in chunks]
        distinct = list(dict.fromkeys([*texts, *(part.text for part in parts)]))
        found = dict(zip(distinct, self._encoder.encode_passages(distinct), strict=True))
        return [found[text] for text in texts], [found[part.text] for part in parts]

    def _apply(
        self,
        batch: Batch,
        events: Iterable[Event],
        readings: Sequence[Reading],
        states: dict[TokenIds, PutState],
        keys: Sequence[Keys],
        part_keys: Sequence[Keys],
    ) -> None:
        rows: dict[str, int] = {}
        keys_of_next, keys_of_next_part = iter(keys), iter(part_keys)

        def state_of(ids: TokenIds) -> int:
            found = batch.find_state(ids)
            return states[ids](batch) if found is None else found

        def row_of(info: DocumentInfo) -> int:
            if info.source not in rows:
                rows[info.source] = batch.begin_document(info).id
            return rows[info.source]

        for event in events:
            match event:
                case Take(info, chunk):
                    row, state_id = row_of(info), state_of(chunk.token_ids)
                    own = [reading.part for reading in readings if reading.take is event and reading.part is not None]
                    # the chunk's seal holds their number, so that none of them can go unnoticed
                    details: dict[str, object] = {} if self._tokenizer is None else {"parts": len(own)}
                    described = ChunkInfo(chunk.index, chunk.page, chunk.span, chunk.text, chunk.context, details)
                    chunk_id = batch.add_chunk(row, described, state_id=state_id, keys=next(keys_of_next))
                    for ordinal, part in enumerate(own):
                        state_id, vectors = state_of(part.token_ids), next(keys_of_next_part)
                        batch.add_part(chunk_id, ordinal, part.span, state_id=state_id, keys=vectors)
                case Finish(info):
                    batch.finish_document(row_of(info), info)
                    del rows[info.source]
                case Fail(info, reason):
                    batch.fail_document(info, reason)
                    rows.pop(info.source, None)
                case Drop(document_id):
                    batch.delete_document(document_id)
