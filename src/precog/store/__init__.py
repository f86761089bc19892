"""States on flash, the catalogue that knows them, integrity and deletion."""

from precog.store.batch import Batch
from precog.store.corpus_store import CorpusStore
from precog.store.layout import RecordLayout
from precog.store.needles import Needles
from precog.store.proof import SearchReport, search_folder
from precog.store.record import Location, Record, content_hash
from precog.store.rows import Chunk, ChunkInfo, ChunkKeys, ChunkText, Document, DocumentInfo, Part, StoreSize

__all__ = [
    "Batch",
    "Chunk",
    "ChunkInfo",
    "ChunkKeys",
    "ChunkText",
    "CorpusStore",
    "Document",
    "DocumentInfo",
    "Location",
    "Needles",
    "Part",
    "Record",
    "RecordLayout",
    "SearchReport",
    "StoreSize",
    "content_hash",
    "search_folder",
]
