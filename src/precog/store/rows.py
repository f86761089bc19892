"""What the catalogue says about documents and chunks, as frozen data."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from jaxtyping import Float32

from precog.store.record import Location

Status = Literal["indexing", "indexed", "failed"]


@dataclass(frozen=True)
class DocumentInfo:
    """What is known of a document before its first chunk.

    Attributes:
        source: where it came from: a path, or a name such as ``stdin``; surrogate escapes are kept.
        media_type: for instance ``application/pdf``.
        raw_sha256: 32 bytes over the file as it was read.
        size_bytes: of the file.
        mtime_ns: of the file, nanoseconds.
        details: JSON-able extras of the loader: title, pages, pages without text.
    """

    source: str
    media_type: str
    raw_sha256: bytes
    size_bytes: int
    mtime_ns: int
    details: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Document:
    """A document of the catalogue.

    Attributes:
        id: never used twice.
        info: what it was when it was read.
        status: ``indexing`` (not yet visible to a search), ``indexed`` or ``failed``.
        reason: why it failed, in one line.
        num_chunks: chunks committed so far.
    """

    id: int
    info: DocumentInfo
    status: Status
    reason: str | None
    num_chunks: int


@dataclass(frozen=True)
class ChunkInfo:
    """A chunk's text and where it stood.

    Attributes:
        ordinal: 0, 1, 2 … within the document.
        page: 1-based, or None where the format has no pages.
        span: first character and the one after the last, in the document's text.
        text: what the model has read, without the context.
        context: headings or a table's header row put before the text, "" if none.
        details: JSON-able extras: ``parts``, how many parts of it are read on their own, where that was looked for.
    """

    ordinal: int
    page: int | None
    span: tuple[int, int]
    text: str
    context: str = ""
    details: dict[str, object] = field(default_factory=dict)

    @property
    def num_parts(self) -> int | None:
        """How many parts it was written with; None where that was not written down."""
        found = self.details.get("parts")
        return found if isinstance(found, int) else None


@dataclass(frozen=True)
class Chunk:
    """A chunk of the catalogue.

    Attributes:
        id: never used twice; the index knows chunks by it.
        document_id: the document it belongs to.
        source: of that document.
        info: its text and where it stood.
        state_id: several chunks that read the same tokens share one state.
        num_tokens: tokens its state has read.
        location: where the state lay when this row was read.
        content_hash: of the state.
    """

    id: int
    document_id: int
    source: str
    info: ChunkInfo
    state_id: int
    num_tokens: int
    location: Location
    content_hash: bytes

    @property
    def is_stored(self) -> bool:
        """Whether its state is on the disk; not where a budget made it give way."""
        return self.location.segment >= 0


@dataclass(frozen=True)
class Part:
    """A part of a chunk, one of its sentences, read alone.

    Attributes:
        id: never used twice.
        chunk_id: of the chunk.
        ordinal: 0, 1, 2 … within the chunk.
        span: first character and the one after the last, in the chunk's text.
        keys: one row per window of the sentence encoder, unit norm.
        num_tokens: tokens its state has read.
        location: where the state lay when this row was read.
        content_hash: of the state, which chunks and parts that read the same tokens share.
    """

    id: int
    chunk_id: int
    ordinal: int
    span: tuple[int, int]
    keys: Float32[np.ndarray, "_ E"]
    num_tokens: int
    location: Location
    content_hash: bytes

    @property
    def is_stored(self) -> bool:
        """Whether its state is on the disk; not where a budget made it give way."""
        return self.location.segment >= 0


@dataclass(frozen=True)
class ChunkKeys:
    """The keys of one chunk, one row per window of the sentence encoder, unit norm."""

    chunk_id: int
    keys: Float32[np.ndarray, "_ E"]


@dataclass(frozen=True)
class ChunkText:
    """What the lexical index reads of one chunk."""

    chunk_id: int
    text: str
    context: str
    source: str


@dataclass(frozen=True)
class StoreSize:
    """Counts and bytes of a corpus, for ``precog info``; unstored states gave way to a budget.

    States and bytes of keys are those of chunks and their parts, tokens those of chunks.
    """

    num_documents: int
    num_failed: int
    num_chunks: int
    num_parts: int
    num_states: int
    num_unstored: int
    num_tokens: int
    state_bytes: int
    key_bytes: int
    text_bytes: int
    disk_bytes: int
