"""The paper's figures of its device: pipeline, storage, waterfall, load time, roofline, trade-off, in virtual time."""

from typing import Any, cast

from precog import figures
from precog.evaluate.paper.findings import Drawing
from precog.evaluate.paper.report import Picture
from precog.plan import curves
from precog.plan.paper import PAPER
from precog.plan.storage import state_bytes

__all__ = ["device_figures"]

_WAYS = {
    "inject": "state injected",
    "in-context": "read in context",
    "kv-cache": "KV cache loaded as a prefix",
    "kv-recomputed": "KV cache computed again",
}


def device_figures() -> tuple[list[Picture], list[Drawing]]:
    """Figures 1 to 6, from the calculations."""
    made = [
        (*_pipeline(), "The pipeline: what is done once, and what a question costs."),
        (*_storage(), "Bytes of a chunk by its length: a cache grows, a state does not."),
        (*_waterfall(), "Stages until the first token on the paper's device, a question of 10 tokens."),
        (*_loading(), "Loading a chunk of 512 tokens at each platform's bandwidth."),
        (*_roofline(), "Tokens a second that bandwidth allows, by the context that was read."),
        (*_trade_off(), "What states cost to store, and what they save."),
    ]
    pictures = [Picture(name, caption, alt) for name, _, caption, alt in made]
    return pictures, [Drawing(name, picture) for name, picture, _, _ in made]


def _pipeline() -> tuple[str, figures.Picture, str]:
    rows = {row["way"]: row for row in curves.waterfall()}
    stages = {
        stage["name"]: stage["end_sec"] - stage["start_sec"]
        for stage in cast(list[dict[str, Any]], rows["inject"]["stages"])
    }
    drawn = figures.Pipeline(
        "PRECOG on the paper's device",
        chunk_tokens=PAPER.edge.chunk_tokens,
        state_bytes=state_bytes(PAPER.model),
        question_tokens=PAPER.edge.query_tokens,
        stages_sec={name: stages[name] for name in ("encode", "load", "inject") if name in stages},
    )
    return "figure-1-pipeline", drawn, "Figure 1. Seconds of the paper's device, in virtual time."


def _storage() -> tuple[str, figures.Picture, str]:
    found = cast(dict[str, Any], curves.storage_scaling())
    state, crossover, chunk = found["state_bytes"][0], found["crossover_tokens"], found["chunk_tokens"]
    drawn = figures.StorageScaling(
        "What a chunk takes",
        found["tokens"],
        [
            figures.Stored("KV cache of Llama-3.2-1B", found["cache_bytes"]),
            figures.Stored("state of the paper's model", found["state_bytes"]),
        ],
        [
            figures.Mark(f"equal at {crossover:g} tokens", crossover, state),
            figures.Mark(f"{found['ratio_at']:.1f} times", chunk, found["ratio_at"] * state),
        ],
        chunk,
    )
    return "figure-2-storage", drawn, "Figure 2. Calculated; both axes logarithmic."


def _waterfall() -> tuple[str, figures.Picture, str]:
    ways = []
    for row in curves.waterfall():
        stages = [
            figures.Stage(stage["name"], stage["end_sec"] - stage["start_sec"])
            for stage in cast(list[dict[str, Any]], row["stages"])
        ]
        ways.append(figures.Way(_WAYS[cast(str, row["way"])], stages))
    caption = (
        "Figure 3. Virtual time: 19 tokens a second, UFS 4.0. The paper leaves out the third way: a cache that was "
        "kept "
        "is valid as a prefix, and loads in 4 ms (inconsistency 8)."
    )
    return "figure-3-first-token", figures.Waterfall("Time to the first token, the paper's device", ways), caption


def _loading() -> tuple[str, figures.Picture, str]:
    rows = cast(list[dict[str, Any]], curves.loading())
    drawn = figures.LoadTime(
        "Loading a chunk of 512 tokens",
        [row["platform"] for row in rows],
        [
            figures.Artefact("KV cache, 16 MB", [row["cache_sec"] for row in rows]),
            figures.Artefact("state, 192 KB", [row["state_sec"] for row in rows]),
        ],
    )
    return (
        "figure-4-load",
        drawn,
        "Figure 4. Bytes over bandwidth; real disks reach 50 to 80 % of it and wait 50 to 200 µs.",
    )


def _roofline() -> tuple[str, figures.Picture, str]:
    found = cast(dict[str, Any], curves.roofline())
    drawn = figures.Roofline(
        "Tokens a second that bandwidth allows",
        found["tokens"],
        [
            figures.PlatformSpeed(row["platform"], row["cache_tok_per_sec"], row["state_tok_per_sec"])
            for row in found["platforms"]
        ],
        found["halving_tokens"],
        "Llama-3.2-1B with its cache",
        "the paper's model with its state",
    )
    caption = (
        "Figure 5. Weights at FP16, for only those give the paper's 73K tokens; at the INT4 of its Table 1 speed "
        "halves "
        "at 18.3K."
    )
    return "figure-5-roofline", drawn, caption


def _trade_off() -> tuple[str, figures.Picture, str]:
    found = cast(dict[str, Any], curves.trade_off())
    chunks, tokens = found["corpus_chunks"], found["chunk_tokens"]
    drawn = figures.TradeOff(
        "Storage against latency",
        [
            figures.Line("KV caches", chunks, found["cache_bytes"]),
            figures.Line("states", chunks, found["state_bytes"]),
            figures.Line("text", chunks, found["text_bytes"]),
        ],
        [
            figures.Line("reading adds", tokens, found["in_context_sec"]),
            figures.Line("injecting adds", tokens, found["inject_sec"]),
            figures.Line("reading, TTFT", tokens, found["in_context_ttft_sec"]),
            figures.Line("injecting, TTFT", tokens, found["inject_ttft_sec"]),
        ],
    )
    at_128, at_512 = (found["ratio"][tokens.index(count)] for count in (128, 512))
    caption = (
        f"Figure 6. The paper says more than 10,000 times at every length; it is {at_128:,.0f} times at 128 tokens and "
        f"{at_512:,.0f} at 512, in overhead alone (inconsistency 25). With the question read it is above one second."
    )
    return "figure-6-trade-off", drawn, caption
