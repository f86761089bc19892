"""The catalogue: which documents, chunks, keys and states a corpus holds, in one SQLite file.

Nothing outside this room knows that it is SQLite. A catalogue knows where a state lies, never what is in it.
"""

import json
from collections.abc import Iterator, Sequence
from functools import cached_property

from precog.errors import CorpusError, DamagedCorpusError
from precog.store.database import PAGE_OF_ROWS, Database
from precog.store.kind import CORPUS
from precog.store.record import Location
from precog.store.row_builder import Row, chunk_of, document_of, keys_of, part_of, parts_missing, shown, text_of, to_sql
from precog.store.rows import Chunk, ChunkInfo, ChunkKeys, ChunkText, Document, DocumentInfo, Part
from precog.store.seal import seal_of_chunk, seal_of_keys, seal_of_part

NOWHERE = -1  # the segment of states whose bytes are not kept

_DOCUMENT = """SELECT d.id, d.source, d.media_type, d.raw_sha256, d.size_bytes, d.mtime_ns, d.details, d.status,
    d.reason, (SELECT count(*) FROM chunks c WHERE c.document_id = d.id) FROM documents d"""
_CHUNK = """SELECT c.id, c.document_id, d.source, c.ordinal, c.page, c.span_start, c.span_end, c.text, c.context,
    c.details, c.seal, c.state_id, s.num_tokens, s.segment, s.slot, s.content_hash
    FROM chunks c JOIN documents d ON d.id = c.document_id LEFT JOIN states s ON s.id = c.state_id"""
_KEYS = """SELECT c.id, d.source, c.ordinal, c.seal, k.num_windows, k.vectors, k.seal
    FROM chunks c JOIN documents d ON d.id = c.document_id LEFT JOIN keys k ON k.chunk_id = c.id"""
_PART = """SELECT p.id, p.chunk_id, p.ordinal, p.start, p.stop, p.num_windows, p.vectors, p.seal,
    s.num_tokens, s.segment, s.slot, s.content_hash, c.seal, d.source, c.ordinal, length(c.text)
    FROM parts p JOIN chunks c ON c.id = p.chunk_id JOIN documents d ON d.id = c.document_id
    LEFT JOIN states s ON s.id = p.state_id"""

_VISIBLE = "FROM chunks c JOIN documents d ON d.id = c.document_id WHERE d.status = 'indexed'"


class Catalogue(Database):
    """One connection to the catalogue of a corpus."""

    KIND = CORPUS

    @cached_property
    def _knows_parts(self) -> bool:
        """Whether it has the table; one of an older version gets it from the next writer."""
        return self._one("SELECT 1 FROM sqlite_master WHERE name = 'parts'") is not None

    @cached_property
    def _parts_anew(self) -> str:
        """The hint of a part that is damaged: the text it is made from is the chunk's."""
        return self.KIND.states_anew(self._path.parent.parent)

    def add_document(self, info: DocumentInfo, status: str, reason: str | None) -> int:
        """Adds a row; the caller has made room for its source."""
        sql = """INSERT INTO documents (source, media_type, raw_sha256, size_bytes, mtime_ns, status, reason, details)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""
        reason_value = None if reason is None else to_sql(reason)
        values = (info.media_type, info.raw_sha256, info.size_bytes, info.mtime_ns, status, reason_value)
        return self._insert(sql, (to_sql(info.source), *values, _json(info.details)))

    def update_document(self, document_id: int, info: DocumentInfo, status: str, reason: str | None) -> None:
        """Replaces what is known of a document; its source stays."""
        sql = """UPDATE documents SET media_type = ?, raw_sha256 = ?, size_bytes = ?, mtime_ns = ?, status = ?,
            reason = ?, details = ? WHERE id = ?"""
        reason_value = None if reason is None else to_sql(reason)
        values = (info.media_type, info.raw_sha256, info.size_bytes, info.mtime_ns, status, reason_value)
        self._run(sql, (*values, _json(info.details), document_id))

    def delete_document(self, document_id: int) -> None:
        """Removes a document, its chunks and keys, and every state that no other chunk has read."""
        self._run("DELETE FROM documents WHERE id = ?", (document_id,))

    def delete_unused_states(self) -> None:
        """Removes the rows of states that no chunk or part names, leaving tombstones for their bytes."""
        self._run("DELETE FROM states WHERE num_references = 0")

    def documents(self, source: str | None = None, status: str | None = None) -> Iterator[Document]:
        """Documents in the order they were added."""
        sql = f"{_DOCUMENT} WHERE d.id > ?"
        values: list[object] = []
        if source is not None:
            sql, values = f"{sql} AND d.source = ?", [*values, to_sql(source)]
        if status is not None:
            sql, values = f"{sql} AND d.status = ?", [*values, status]
        return (document_of(row) for row in self._paged(f"{sql} ORDER BY d.id LIMIT {PAGE_OF_ROWS}", values))

    def document(self, document_id: int) -> Document | None:
        """The document of that id."""
        row = self._one(f"{_DOCUMENT} WHERE d.id = ?", (document_id,))
        return None if row is None else document_of(row)

    def add_state(self, content_hash: bytes, location: Location, num_tokens: int) -> int:
        """Records where a new state lies."""
        sql = "INSERT INTO states (content_hash, segment, slot, num_tokens) VALUES (?, ?, ?, ?)"
        return self._insert(sql, (content_hash, location.segment, location.slot, num_tokens))

    def add_unstored_state(self, content_hash: bytes, num_tokens: int) -> int:
        """Records a state whose bytes are not kept."""
        sql = "INSERT INTO states (content_hash, segment, slot, num_tokens) VALUES (?, ?, -1, ?)"
        state_id = self._insert(sql, (content_hash, NOWHERE, num_tokens))
        self._run("UPDATE states SET slot = id WHERE id = ?", (state_id,))
        return state_id

    def let_go(self, most_states: int) -> int:
        """Lets the bytes of states go until so many are left: first those whose loss costs the fewest tokens to read.

        All records are of one size, so that saved tokens alone decide: those of the text times the chunks that share
        it; of equals the oldest goes.

        Returns:
            How many went.
        """
        row = self._one("SELECT count(*) FROM states WHERE segment >= 0")
        surplus = self._int(row[0]) - most_states if row is not None else 0
        if surplus <= 0:
            return 0
        sql = """SELECT id, segment, slot FROM states WHERE segment >= 0
            ORDER BY num_tokens * num_references, id LIMIT ?"""
        for state_id, segment, slot in self._all(sql, (surplus,)):
            self._run("INSERT INTO tombstones VALUES (?, ?)", (segment, slot))
            self._run("UPDATE states SET segment = ?, slot = id WHERE id = ?", (NOWHERE, state_id))
        return surplus

    def find_state(self, content_hash: bytes) -> int | None:
        """The state of that name, if it is stored."""
        row = self._one("SELECT id FROM states WHERE content_hash = ?", (content_hash,))
        return None if row is None else self._int(row[0])

    def add_chunk(self, document_id: int, info: ChunkInfo, state_id: int, num_windows: int, vectors: bytes) -> int:
        """Adds a chunk with its keys (float32, little-endian), both sealed with a checksum."""
        sql = """INSERT INTO chunks
            (document_id, ordinal, page, span_start, span_end, text, context, details, state_id, seal)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
        named = self._one("SELECT source FROM documents WHERE id = ?", (document_id,))
        read = self._one("SELECT content_hash FROM states WHERE id = ?", (state_id,))
        if named is None or read is None:
            raise CorpusError("a chunk needs its document and its state", given=f"{document_id}, {state_id}")
        place, details = (info.ordinal, info.page, *info.span), _json(info.details)
        seal = seal_of_chunk(text_of(named[0]), place, info.text, info.context, details, self._bytes(read[0]))
        text = (to_sql(info.text), to_sql(info.context), details)
        chunk_id = self._insert(sql, (document_id, *place, *text, state_id, seal))
        keys = (chunk_id, num_windows, vectors, seal_of_keys(seal, num_windows, vectors))
        self._run("INSERT INTO keys VALUES (?, ?, ?, ?)", keys)
        return chunk_id

    def add_part(
        self, chunk_id: int, ordinal: int, span: tuple[int, int], state_id: int, num_windows: int, vectors: bytes
    ) -> int:
        """Adds a part of a chunk with its keys (float32, little-endian), sealed with a checksum."""
        chunk = self._one("SELECT seal FROM chunks WHERE id = ?", (chunk_id,))
        read = self._one("SELECT content_hash FROM states WHERE id = ?", (state_id,))
        if chunk is None or read is None:
            raise CorpusError("a part needs its chunk and its state", given=f"{chunk_id}, {state_id}")
        place = (ordinal, *span)
        seal = seal_of_part(self._bytes(chunk[0]), place, self._bytes(read[0]), num_windows, vectors)
        sql = """INSERT INTO parts (chunk_id, ordinal, start, stop, state_id, num_windows, vectors, seal)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""
        return self._insert(sql, (chunk_id, *place, state_id, num_windows, vectors, seal))

    def parts(self, chunk_id: int, dim: int) -> list[Part]:
        """The parts of a chunk in order; none where it has none, or none are kept.

        Raises:
            DamagedCorpusError: one or their chunk is not what was written, or one is missing.
        """
        parts = [part_of(row, dim, self._parts_anew) for row in self._part_rows("p.chunk_id", chunk_id)]
        chunk = self.chunks([chunk_id]).get(chunk_id)  # looked up last: it is forgotten together with its parts
        number = None if chunk is None else chunk.info.num_parts
        if [part.ordinal for part in parts] != list(range(len(parts) if number is None else number)):
            name = f"chunk {chunk_id}" if chunk is None else f"chunk {chunk.info.ordinal} of {shown(chunk.source)}"
            raise parts_missing(name, [part.ordinal for part in parts], number, self._parts_anew)
        return parts

    def checked_parts_of(self, document_id: int, dim: int) -> Iterator[Part | DamagedCorpusError]:
        """The parts of a document's chunks, a damaged one as the error that names it."""
        return (_part_or_error(row, dim, self._parts_anew) for row in self._part_rows("c.document_id", document_id))

    def locate_part(self, part_id: int) -> tuple[Location, bytes] | None:
        """Where the state of a part lies, and its content hash."""
        sql = """SELECT s.segment, s.slot, s.content_hash FROM parts p JOIN states s ON s.id = p.state_id
            WHERE p.id = ?"""
        row = self._one(sql, (part_id,))
        return None if row is None else (self._place(row[:2]), self._bytes(row[2]))

    def _part_rows(self, column: str, number: int) -> Iterator[Row]:
        sql = f"{_PART} WHERE p.id > ? AND {column} = ? ORDER BY p.id LIMIT {PAGE_OF_ROWS}"
        return self._paged(sql, [number]) if self._knows_parts else iter(())

    def chunks(self, chunk_ids: Sequence[int]) -> dict[int, Chunk]:
        """The chunks of these ids; those that are gone are left out."""
        found: dict[int, Chunk] = {}
        for start in range(0, len(chunk_ids), PAGE_OF_ROWS):
            part = chunk_ids[start : start + PAGE_OF_ROWS]
            rows = self._all(f"{_CHUNK} WHERE c.id IN ({', '.join('?' * len(part))})", part)
            found.update((chunk.id, chunk) for chunk in map(chunk_of, rows))
        return {chunk_id: found[chunk_id] for chunk_id in chunk_ids if chunk_id in found}

    def chunks_of(self, document_id: int) -> Iterator[Chunk]:
        """A document's chunks in order.

        Raises:
            DamagedCorpusError: one is not what was written.
        """
        return map(chunk_of, self._chunk_rows(document_id))

    def checked_chunks_of(self, document_id: int) -> Iterator[Chunk | DamagedCorpusError]:
        """A document's chunks in order, a damaged one as the error that names it."""
        return (_chunk_or_error(row) for row in self._chunk_rows(document_id))

    def checked_keys_of(self, document_id: int, dim: int) -> Iterator[ChunkKeys | DamagedCorpusError]:
        """The keys of a document's chunks, damaged ones as the error that names them."""
        rows = self._paged(
            f"{_KEYS} WHERE c.id > ? AND c.document_id = ? ORDER BY c.id LIMIT {PAGE_OF_ROWS}", [document_id]
        )
        return (_keys_or_error(row, dim, self._remedy) for row in rows)

    def _chunk_rows(self, document_id: int) -> Iterator[Row]:
        sql = f"{_CHUNK} WHERE c.id > ? AND c.document_id = ? ORDER BY c.id LIMIT {PAGE_OF_ROWS}"
        return self._paged(sql, [document_id])

    def num_states_of(self, document_id: int) -> int:
        """How many stored states a document's chunks and parts start from; one that others share counts, too."""
        chunks = "SELECT state_id FROM chunks WHERE document_id = ?"
        parts = "SELECT p.state_id FROM parts p JOIN chunks c ON c.id = p.chunk_id WHERE c.document_id = ?"
        used = f"{chunks} UNION {parts}" if self._knows_parts else chunks
        sql = f"SELECT count(*) FROM states WHERE segment >= 0 AND id IN ({used})"
        row = self._one(sql, (document_id,) * (1 + self._knows_parts))
        return 0 if row is None else self._int(row[0])

    def locate(self, chunk_id: int) -> tuple[Location, bytes] | None:
        """Where the state of a chunk lies, and its content hash."""
        sql = """SELECT s.segment, s.slot, s.content_hash FROM chunks c JOIN states s ON s.id = c.state_id
            WHERE c.id = ?"""
        row = self._one(sql, (chunk_id,))
        return None if row is None else (self._place(row[:2]), self._bytes(row[2]))

    def visible_chunk_ids(self) -> Iterator[int]:
        """Ids of all chunks of indexed documents, rising."""
        sql = f"SELECT c.id {_VISIBLE} AND c.id > ? ORDER BY c.id LIMIT {PAGE_OF_ROWS}"
        return (self._int(row[0]) for row in self._paged(sql, []))

    def keys(self, chunk_ids: Sequence[int] | None, dim: int) -> Iterator[ChunkKeys]:
        """Keys of the visible chunks among these, or of all of them by rising id."""
        return (keys_of(row, dim, self._remedy) for row in self._visible(_KEYS, chunk_ids))

    def key_bytes(self, chunk_id: int) -> bytes:
        """The keys of one chunk, float32 little-endian."""
        row = self._one("SELECT vectors FROM keys WHERE chunk_id = ?", (chunk_id,))
        return b"" if row is None else self._bytes(row[0])

    def texts(self, chunk_ids: Sequence[int] | None) -> Iterator[ChunkText]:
        """Texts of the visible chunks among these, or of all of them by rising id."""
        chunks = map(chunk_of, self._visible(_CHUNK, chunk_ids))
        return (ChunkText(chunk.id, chunk.info.text, chunk.info.context, chunk.source) for chunk in chunks)

    def miscounted(self) -> Iterator[str]:
        """States of which more or fewer chunks and parts are counted than there are, a line each."""
        parts = "(SELECT count(*) FROM parts p WHERE p.state_id = s.id)" if self._knows_parts else "0"
        sql = f"""SELECT id FROM states s
            WHERE num_references <> (SELECT count(*) FROM chunks c WHERE c.state_id = s.id) + {parts}"""
        for row in self._all(sql):
            yield f"the catalogue is damaged: state {row[0]} is counted wrongly"

    def counts(self) -> dict[str, int]:
        """Documents, failures, chunks, parts, states, tokens, and bytes of keys and text."""
        parts, vectors = "0", "0"
        if self._knows_parts:
            parts = "(SELECT count(*) FROM parts)"
            vectors = "(SELECT coalesce(sum(length(vectors)), 0) FROM parts)"
        sql = f"""SELECT (SELECT count(*) FROM documents WHERE status = 'indexed'),
            (SELECT count(*) FROM documents WHERE status = 'failed'), (SELECT count(*) FROM chunks),
            {parts},
            (SELECT count(*) FROM states WHERE segment >= 0), (SELECT count(*) FROM states WHERE segment < 0),
            (SELECT coalesce(sum(s.num_tokens), 0) FROM chunks c JOIN states s ON s.id = c.state_id),
            (SELECT coalesce(sum(length(vectors)), 0) FROM keys) + {vectors},
            (SELECT coalesce(sum(length(CAST(text AS BLOB))), 0) FROM chunks)"""
        row = self._one(sql) or ()
        names = (
            "num_documents",
            "num_failed",
            "num_chunks",
            "num_parts",
            "num_states",
            "num_unstored",
            "num_tokens",
            "key_bytes",
            "text_bytes",
        )
        return dict(zip(names, map(self._int, row), strict=True))

    def _visible(self, sql: str, chunk_ids: Sequence[int] | None) -> Iterator[Row]:
        sql = f"{sql} WHERE d.status = 'indexed'"
        if chunk_ids is None:
            yield from self._paged(f"{sql} AND c.id > ? ORDER BY c.id LIMIT {PAGE_OF_ROWS}", [])
            return
        for chunk_id in chunk_ids:
            row = self._one(f"{sql} AND c.id = ?", (chunk_id,))
            if row is not None:
                yield row


def _chunk_or_error(row: Row) -> Chunk | DamagedCorpusError:
    try:
        return chunk_of(row)
    except DamagedCorpusError as error:
        return error


def _keys_or_error(row: Row, dim: int, hint: str) -> ChunkKeys | DamagedCorpusError:
    try:
        return keys_of(row, dim, hint)
    except DamagedCorpusError as error:
        return error


def _part_or_error(row: Row, dim: int, hint: str) -> Part | DamagedCorpusError:
    try:
        return part_of(row, dim, hint)
    except DamagedCorpusError as error:
        return error


def _json(value: dict[str, object]) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=True)
