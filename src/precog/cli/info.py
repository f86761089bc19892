"""``precog info``: what a corpus holds, what made it, and what it costs."""

from dataclasses import asdict

from precog.backbones.registry import find_model
from precog.backbones.tenns.checkpoint import read_card
from precog.cli import options
from precog.cli.output import counted, human_bytes, out, print_json, shown
from precog.config import resolve
from precog.corpus.corpus import settings_of
from precog.corpus.unfinished import unfinished
from precog.errors import ModelError
from precog.store import CorpusStore

_FOUND_BY = {
    "text": "its text",
    "title": "its text and title",
    "questions": "its text and title, and the words of questions made from it",
}


def info(corpus: options.Corpus = None, as_json: options.Json = False) -> int:
    """Say what a corpus holds and what made it."""
    settings = resolve({"corpus": corpus})
    with CorpusStore.open(settings.corpus_folder) as store:
        size, made_with = store.size(), settings_of(store)
        layout, fingerprint, generation = store.layout, store.fingerprint.hex(), store.generation
        budget_bytes = store.state_budget_bytes
        change = unfinished(store)
        num_refined = len(store.refined()) if made_with.is_trained else 0
    own_chunk_tokens = _chunk_tokens_of(made_with.model)
    if as_json:
        counts = asdict(size)
        sizes = {key.removesuffix("_bytes"): counts.pop(key) for key in list(counts) if key.endswith("_bytes")}
        print_json(
            {
                "corpus": str(settings.corpus_folder),
                **{key.removeprefix("num_"): value for key, value in counts.items()},
                "bytes": sizes,
                "record_bytes": layout.record_bytes,
                "state_bytes": layout.state_bytes,
                "state_budget_bytes": budget_bytes,
                "state_room_tokens": layout.note.get("room_tokens"),
                "quality": made_with.quality,
                "refined": num_refined,
                "unfinished": None if change is None else change.to_json(),
                "settings": made_with.to_json(),
                "model_chunk_tokens": own_chunk_tokens,
                "fingerprint": fingerprint,
                "generation": generation,
            }
        )
        return 0
    total = size.num_documents + size.num_failed
    failed = f", {size.num_failed} of them failed" if size.num_failed else ""
    encoder = made_with.encoder or "all-MiniLM-L6-v2 (INT8)"
    strategy = made_with.strategy
    if own_chunk_tokens not in (None, made_with.chunk_tokens):
        strategy += f"; its model's own length is {own_chunk_tokens}"
    each = "chunks and sentences, each " if made_with.is_studied else ""
    kept = f"{made_with.codec}, layers {made_with.layers}, {each}read {made_with.encode_mode}"
    if made_with.is_trained:
        seconds = f", {made_with.study_seconds:g} s" if made_with.study_seconds else ""
        kept += f", studied at most {counted(made_with.study_steps, 'step')}{seconds} each: {num_refined:,} refined"
    room_tokens = layout.note.get("room_tokens")
    if room_tokens:
        kept += f"; with keys and values of attention of up to {room_tokens} tokens"
    parts = f"text {human_bytes(size.text_bytes)}, keys {human_bytes(size.key_bytes)}"
    states = f"{size.num_states:,} × {human_bytes(layout.state_bytes)} ({kept})"
    if budget_bytes is not None:
        states += f"; budget {human_bytes(budget_bytes)}, {size.num_unstored:,} gave way and are read again when needed"
        states += ", not studied" if made_with.is_trained and size.num_unstored else ""
    sentences = f", and {size.num_parts:,} of their sentences" if made_with.is_studied else ""
    lines = [
        ("documents", f"{total:,}{failed}"),
        ("chunks", f"{size.num_chunks:,} of at most {made_with.chunk_tokens} tokens ({strategy}){sentences}"),
        ("tokens", f"{size.num_tokens:,}"),
        ("quality", made_with.quality),
        ("states", states),
        ("on disk", f"{human_bytes(size.disk_bytes)}: states {human_bytes(size.state_bytes)}, {parts}"),
        ("model", f"{made_with.model}, fingerprint {fingerprint[:12]}"),
        ("encoder", f"{encoder}, fingerprint {made_with.encoder_fingerprint[:12]}"),
        ("found by", _FOUND_BY[made_with.keys]),
    ]
    if change is not None:
        done = f"{change.num_chunks:,} of {size.num_chunks:,} chunks are done"
        lines.append(("unfinished", f"a change, {done}; to go on: {change.command}"))
    for name, value in lines:
        out.print(f"[bold]{name:<10}[/] {shown(value)}")
    return 0


def _chunk_tokens_of(model: str) -> int | None:
    """The chunk length on a model's card; None where there is none, or no such model any more."""
    if not model:
        return None
    try:
        card, _ = read_card(find_model(model))
    except ModelError:
        return None
    return card.chunk_tokens or None
