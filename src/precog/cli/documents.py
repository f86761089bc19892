"""``precog list``: the documents of a corpus."""

from precog.cli import options
from precog.cli.output import counted, human_bytes, out, print_json, shown
from precog.config import resolve
from precog.store import CorpusStore, Document


def documents(corpus: options.Corpus = None, as_json: options.Json = False) -> int:
    """List the documents of a corpus."""
    settings = resolve({"corpus": corpus})
    with CorpusStore.open(settings.corpus_folder) as store:
        rows = sorted(store.documents(), key=lambda row: (row.info.source, row.status))
    if as_json:
        print_json({"documents": [_json(row) for row in rows]})
        return 0
    for row in rows:
        what = (
            counted(row.num_chunks, "chunk")
            if row.status == "indexed"
            else row.reason or "not finished: index it again"
        )
        colour = {"indexed": "green", "failed": "red", "indexing": "yellow"}[row.status]
        detail = f"{human_bytes(row.info.size_bytes)}, {shown(what)}"
        out.print(f"[{colour}]{row.status:<8}[/] {shown(row.info.source)}  [dim]{detail}[/]")
    return 0


def _json(row: Document) -> dict[str, object]:
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
