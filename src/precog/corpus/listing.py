"""What is said of a document and of a chunk of it, wherever they are listed."""

from precog.store import Chunk, Document


def document_json(row: Document) -> dict[str, object]:
    """What the catalogue says of a document."""
    return {
        "document": row.info.source,
        "status": row.status,
        "chunks": row.num_chunks,
        "reason": row.reason,
        "media_type": row.info.media_type,
        "bytes": row.info.size_bytes,
        "sha256": row.info.raw_sha256.hex(),
        "warnings": row.info.details.get("warnings", []),
    }


def chunk_json(chunk: Chunk) -> dict[str, object]:
    """What the catalogue says of a chunk."""
    info = chunk.info
    return {
        "ordinal": info.ordinal,
        "page": info.page,
        "span": list(info.span),
        "context": info.context,
        "text": info.text,
        "tokens": chunk.num_tokens,
        "stored": chunk.is_stored,
    }
