"""``precog list``: the documents of a corpus."""

from precog.cli import options
from precog.cli.output import counted, human_bytes, out, print_json, shown
from precog.config import resolve
from precog.corpus.corpus import settings_of
from precog.corpus.listing import document_json
from precog.store import Chunk, CorpusStore, Document, Location


def documents(corpus: options.Corpus = None, as_json: options.Json = False) -> int:
    """List the documents of a corpus."""
    settings = resolve({"corpus": corpus})
    with CorpusStore.open(settings.corpus_folder) as store:
        rows = sorted(store.documents(), key=lambda row: (row.info.source, row.status))
        made_with = settings_of(store)
        places = store.refined() if made_with.is_trained else set()
        refined = {row.id: _num_refined(store, row, places) for row in rows} if places else {}
    if as_json:
        documents = [{**document_json(row), "refined": refined.get(row.id, 0)} for row in rows]
        print_json({"quality": made_with.quality, "documents": documents})
        return 0
    for row in rows:
        what = (
            counted(row.num_chunks, "chunk")
            if row.status == "indexed"
            else row.reason or "not finished: index it again"
        )
        colour = {"indexed": "green", "failed": "red", "indexing": "yellow"}[row.status]
        if row.id in refined and row.status == "indexed":
            what += f", {refined[row.id]} refined"
        detail = f"{human_bytes(row.info.size_bytes)}, {shown(what)}"
        out.print(f"[{colour}]{row.status:<8}[/] {shown(row.info.source)}  [dim]{detail}[/]")
    return 0


def _num_refined(store: CorpusStore, row: Document, places: set[Location]) -> int:
    """Chunks of a document whose state is refined."""
    chunks = store.checked_chunks_of(row.id)
    return sum(chunk.location in places for chunk in chunks if isinstance(chunk, Chunk))
