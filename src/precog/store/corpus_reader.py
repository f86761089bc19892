"""What anybody may ask of an open corpus: documents, chunks, keys, texts and states.

It knows states as bytes, keys as float32 rows and text as text; it knows no model, no encoder and no index.
"""

import contextlib
import hashlib
from collections.abc import Iterable, Iterator, Sequence

from precog.errors import CorpusError, DamagedCorpusError, DamagedStateError
from precog.store.catalogue import Catalogue
from precog.store.folder import CorpusFolder
from precog.store.folder_reader import FolderReader
from precog.store.record import Location, Record
from precog.store.rows import Chunk, ChunkKeys, ChunkText, Document, Part, StoreSize

STATE_BUDGET = "state_budget_bytes"


class CorpusReader(FolderReader):
    """A corpus folder, open to read; safe to use from several threads.

    Attributes:
        corpus_id: random, new with every corpus and every replacement of one.
    """

    FOLDER = CorpusFolder
    _catalogue: Catalogue

    @property
    def corpus_id(self) -> str:
        """The id of the folder."""
        return self.folder_id

    def documents(self, status: str | None = None) -> Iterator[Document]:
        """All documents, or those of one status, in the order they were added."""
        return self._catalogue.documents(status=status)

    def find_documents(self, source: str) -> list[Document]:
        """The rows of one source: the settled one and, while it is being re-read, the unfinished one."""
        return list(self._catalogue.documents(source))

    def state_bytes_of(self, document_id: int) -> int:
        """Bytes of the stored states of a document; what it shares with others counts for each."""
        return self._catalogue.num_states_of(document_id) * self.layout.record_bytes

    def chunks(self, chunk_ids: Sequence[int]) -> dict[int, Chunk]:
        """The chunks of these ids; those forgotten in the meantime are left out."""
        return self._catalogue.chunks(chunk_ids)

    def chunks_of(self, document_id: int) -> Iterator[Chunk]:
        """The chunks of a document in order."""
        return self._catalogue.chunks_of(document_id)

    def checked_chunks_of(self, document_id: int) -> Iterator[Chunk | DamagedCorpusError]:
        """The chunks of a document in order, a damaged one as the error that names it."""
        return self._catalogue.checked_chunks_of(document_id)

    def checked_keys_of(self, document_id: int) -> Iterator[ChunkKeys | DamagedCorpusError]:
        """The keys of a document's chunks, damaged ones as the error that names them."""
        return self._catalogue.checked_keys_of(document_id, self.key_dim)

    def parts(self, chunk_id: int) -> list[Part]:
        """The parts of a chunk in order; none where parts were not read on their own.

        Raises:
            DamagedCorpusError: one is not what was written, or is missing.
        """
        return self._catalogue.parts(chunk_id, self.key_dim)

    def checked_parts_of(self, document_id: int) -> Iterator[Part | DamagedCorpusError]:
        """The parts of a document's chunks, a damaged one as the error that names it."""
        return self._catalogue.checked_parts_of(document_id, self.key_dim)

    def complaints(self) -> Iterator[str]:
        """Everything that is wrong with the catalogue, a line each: the file, the rows of chunks, keys, parts."""
        yield from self._catalogue.complaints()
        for document in self.documents():
            ordinals = []
            for chunk in self.checked_chunks_of(document.id):
                if isinstance(chunk, DamagedCorpusError):
                    yield str(chunk)
                    continue
                ordinals.append(chunk.info.ordinal)
                try:
                    self.parts(chunk.id)
                except DamagedCorpusError as error:
                    yield str(error)
            yield from (str(keys) for keys in self.checked_keys_of(document.id) if isinstance(keys, DamagedCorpusError))
            if ordinals != list(range(document.num_chunks)) and len(ordinals) == document.num_chunks:
                yield f"{document.info.source}: chunks are missing from the catalogue"
        yield from self._catalogue.miscounted()

    def visible_chunk_ids(self) -> Iterator[int]:
        """Ids of the chunks a search may find, rising: those of indexed documents."""
        return self._catalogue.visible_chunk_ids()

    def iter_keys(self, chunk_ids: Sequence[int] | None = None) -> Iterator[ChunkKeys]:
        """Keys of the visible chunks among these, or of all of them, for the dense index; streams."""
        return self._catalogue.keys(chunk_ids, self.key_dim)

    def iter_texts(self, chunk_ids: Sequence[int] | None = None) -> Iterator[ChunkText]:
        """Texts of the visible chunks among these, or of all of them, for the lexical index; streams."""
        return self._catalogue.texts(chunk_ids)

    def read_state(self, chunk: Chunk | int) -> Record:
        """Reads the state of a chunk: one ``pread``, one CRC, and for a mere id one lookup before.

        Raises:
            DamagedStateError: the record is not what was written; names segment and record.
            CorpusError: the chunk has been forgotten, or its state has given way to the budget.
        """
        chunk_id = chunk if isinstance(chunk, int) else chunk.id
        place = self._locate(chunk_id) if isinstance(chunk, int) else (chunk.location, chunk.content_hash)
        if place[0].segment < 0:
            hint = "read its text again, which `precog ask` does by itself"
            raise CorpusError(
                "the state of this chunk is not stored: the corpus has a budget", given=chunk_id, hint=hint
            )
        record = self._read_where_it_is(place, lambda: self._locate_stored(chunk_id))
        assert record is not None  # a chunk that is gone was an error already
        return record

    def read_part(self, part: Part) -> Record:
        """Reads the state of a part of a chunk, as `read_state` reads that of a chunk.

        Raises:
            DamagedStateError: the record is not what was written.
            CorpusError: its document has been forgotten, or its state has given way to the budget.
        """
        if not part.is_stored:
            raise CorpusError("the state of this part is not stored: the corpus has a budget", given=part.id)

        def again() -> tuple[Location, bytes]:
            place = self._catalogue.locate_part(part.id)
            if place is None or place[0].segment < 0:
                raise CorpusError("the state of this part is no longer in the corpus", given=part.id, hint="ask again")
            return place

        record = self._read_where_it_is((part.location, part.content_hash), again)
        assert record is not None  # a part that is gone was an error already
        return record

    def refined(self) -> set[Location]:
        """Where refined states lie, by the headers of all records alone: a few bytes each, no checksum compared.

        Those that cannot be read count as not refined; ``precog verify`` tells of them.
        """
        found = set()
        for _, location, _ in self._catalogue.states():
            with contextlib.suppress(DamagedStateError, DamagedCorpusError):
                if self._reader.is_refined(location):
                    found.add(location)
        return found

    @property
    def state_budget_bytes(self) -> int | None:
        """What the records of states may take together; None for whatever it takes."""
        return None if self._catalogue.get_meta(STATE_BUDGET) is None else self._catalogue.number(STATE_BUDGET)

    def prefetch(self, chunk_ids: Iterable[int]) -> None:
        """Lets the disk start on several states before the first is read."""
        places = [self._locate(chunk_id)[0] for chunk_id in chunk_ids]
        self._reader.prefetch([place for place in places if place.segment >= 0])

    def size(self) -> StoreSize:
        """Counts and bytes."""
        counts = self._catalogue.counts()
        state_bytes = counts["num_states"] * self.layout.record_bytes
        return StoreSize(**counts, state_bytes=state_bytes, disk_bytes=self.disk_bytes)

    def checksum(self) -> str:
        """One sha256 over everything the corpus says: documents, chunks, keys and states, not where they lie.

        Raises:
            DamagedStateError: a record is not what was written.
        """
        digest = hashlib.sha256()
        for document in sorted(self.documents(), key=lambda d: (d.info.source, d.status)):
            digest.update(repr((document.info, document.status, document.reason)).encode("utf-8", "surrogatepass"))
            for chunk in self.chunks_of(document.id):
                digest.update(repr(chunk.info).encode("utf-8", "surrogatepass"))
                digest.update(self._catalogue.key_bytes(chunk.id))
                self._digest_state(digest, chunk.content_hash, self.read_state(chunk.id) if chunk.is_stored else None)
                for part in self.parts(chunk.id):
                    digest.update(repr((part.ordinal, part.span)).encode() + part.keys.tobytes())
                    self._digest_state(digest, part.content_hash, self.read_part(part) if part.is_stored else None)
        return digest.hexdigest()

    @staticmethod
    def _digest_state(digest: "hashlib._Hash", content_hash: bytes, record: Record | None) -> None:
        if record is None:
            digest.update(content_hash)
            return
        for part in (record.state, record.tau, record.token_ids, record.suffix_array):
            digest.update(part.tobytes())
        digest.update(record.content_hash + b"refined" * record.refined)

    def _locate_stored(self, chunk_id: int) -> tuple[Location, bytes]:
        place = self._locate(chunk_id)
        if place[0].segment < 0:
            raise CorpusError("the state of this chunk has just given way", given=chunk_id, hint="ask again")
        return place

    def _locate(self, chunk_id: int) -> tuple[Location, bytes]:
        place = self._catalogue.locate(chunk_id)
        if place is None:
            raise CorpusError("this chunk is no longer in the corpus", given=chunk_id, hint="ask again")
        return place
