"""Numbers of the paper's main part that follow from its constants."""

import math

from precog.plan.claim import Claim, claim
from precog.plan.claim_reasons import DECIMAL_CACHE, DECIMAL_STATE, OTHER_MODEL, bound, corpus_bytes, premium, ttft
from precog.plan.compute import parameters
from precog.plan.latency import (
    injection_overhead_sec,
    load_sec,
    overhead_speedup,
    prefill_sec,
    ttft_speedup,
)
from precog.plan.paper import Paper
from precog.plan.storage import (
    cache_bytes,
    cache_token_bytes,
    crossover_tokens,
    key_bytes,
    semantic_bytes,
    state_bytes,
)


def claims_of_text(paper: Paper) -> list[Claim]:
    """Abstract, sections 1 to 5 and 7, Figures 1 to 3, Table 2."""
    return [
        *_introduction(paper),
        *_method(paper),
        *_figures(paper),
        *_latency_table(paper),
        *_memory(paper),
        *_conclusion(paper),
    ]


def _introduction(paper: Paper) -> list[Claim]:
    edge, model = paper.edge, paper.model
    long = cache_bytes(paper.llama, edge.long_tokens) / state_bytes(model)
    return [
        claim("Abstract", "hidden state", "192 KB", state_bytes(model), "KB"),
        *_promise("Abstract", paper),
        *_promise("Section 1", paper),
        claim("Section 1", "hidden state", "192 KB", state_bytes(model), "KB"),
        claim("Section 1", "cache over state at 3,000 tokens", "~500×", long, "×"),
        claim("Section 3", "state of a layer", "8 KB", state_bytes(model, 1), "KB"),
        claim("Section 3", "hidden state", "192 KB", state_bytes(model), "KB"),
        claim("Table 1", "state size of a layer", "4,096", model.state_reals),
        claim("Table 1", "parameters", "~1.2B", parameters(model), "B parameters", "Of our `paper` preset."),
    ]


def _promise(where: str, paper: Paper) -> list[Claim]:
    """What abstract and introduction both say."""
    edge = paper.edge
    reading = prefill_sec(edge.chunk_tokens, edge.tok_per_sec)
    labelled = (
        "Reading over injection overhead. In time to the first token it is "
        f"{ttft_speedup(edge):.0f}× (inconsistency 22)."
    )
    return [
        claim(where, "prefill of a 512-token chunk", "~27 s", reading, "s"),
        claim(where, "prefill with a state injected", "<6 ms", injection_overhead_sec(edge), "ms", bound(paper)),
        claim(where, "speedup", "~4500×", overhead_speedup(edge), "×", labelled),
    ]


def _method(paper: Paper) -> list[Claim]:
    edge, model = paper.edge, paper.model
    overhead, flash = injection_overhead_sec(edge), paper.platforms[0].bytes_per_sec
    reading, state = prefill_sec(edge.chunk_tokens, edge.tok_per_sec), state_bytes(model)
    keys = key_bytes(edge.corpus_chunks, edge.key_dim, 4)
    bytewise = key_bytes(edge.corpus_chunks, edge.key_dim, 1) / 1e6
    same = cache_bytes(paper.same_size, edge.chunk_tokens)
    why_keys = f"{bytewise:.2f} MB is one byte a component; at FP32 a component takes four (inconsistency 7)."
    first = "Of injection overhead. The question's own tokens are read before the first token (inconsistency 5)."
    states, caches = corpus_bytes(paper)
    return [
        claim("Figure 1", "first token after retrieval", "~6 ms", overhead, "ms", first),
        claim("Section 4.1", "ingestion of a 512-token chunk", "~27 s", reading, "s"),
        claim("Section 4.2", "state of a chunk", "192 KB", state, "KB"),
        claim("Section 4.2", "states of 10,000 chunks", "1.9 GB", states, "GB", DECIMAL_STATE, decimal=True),
        claim("Section 4.2", "keys of 10,000 chunks", "~3.8 MB", keys, "MB", why_keys, decimal=True),
        claim("Section 4.2", "flash to DRAM", "~50 µs", load_sec(state, flash), "µs"),
        claim("Section 4.2", "overhead against no context", "~6 ms", overhead, "ms"),
        claim("Section 4.2", "in-context ingestion", "~27 s", reading, "s"),
        claim("Section 4.4", "cache of 24 layers, 16 heads of 128, 512 tokens", "~16 MB", same, "MB", OTHER_MODEL),
        claim("Section 4.4", "its premium over a state", "85×", same / state, "×", OTHER_MODEL),
        claim("Section 4.4", "10,000 states", "1.9 GB", states, "GB", DECIMAL_STATE, decimal=True),
        claim("Section 4.4", "10,000 caches", "160 GB", caches, "GB", DECIMAL_CACHE, decimal=True),
    ]


def _figures(paper: Paper) -> list[Claim]:
    edge, model, llama = paper.edge, paper.model, paper.llama
    ratio = cache_bytes(llama, edge.chunk_tokens) / state_bytes(model)
    return [
        claim("Figure 2", "cache of a token", "32 KB", cache_token_bytes(llama), "KB"),
        claim("Figure 2", "state", "192 KB", state_bytes(model), "KB"),
        claim("Figure 2", "crossover", "6 tokens", crossover_tokens(llama, model), "tokens"),
        claim("Figure 2", "cache over state at 512 tokens", "85×", ratio, "×"),
        claim("Figure 3", "prefill in context", "~27 s", prefill_sec(edge.chunk_tokens, edge.tok_per_sec), "s"),
        claim("Figure 3", "TTFT with a state injected", "585 ms", *ttft(paper)),
    ]


def _latency_table(paper: Paper) -> list[Claim]:
    edge, model, where = paper.edge, paper.model, "Table 2"
    reading = prefill_sec(edge.chunk_tokens, edge.tok_per_sec)
    cache, (states, caches) = cache_bytes(paper.llama, edge.chunk_tokens), corpus_bytes(paper)
    loaded = load_sec(cache, paper.platforms[0].bytes_per_sec)
    prefix = (
        "If the cache is computed again. One kept at positions 0 to 511 is valid as a prefix, and loads in "
        f"{1e3 * loaded:.1f} ms; what fails is other positions, several chunks, and its size (inconsistency 8)."
    )
    text, text_why = edge.text_bytes, f"512 tokens have about {edge.counted_text_bytes:,} B (inconsistency 24)."
    return [
        claim(where, "TTFT, PRECOG", "<6 ms", injection_overhead_sec(edge), "ms", bound(paper)),
        claim(where, "TTFT, in-context", "~27 s", reading, "s", "Without the question's own tokens."),
        claim(where, "TTFT, KV cache", "~27 s", reading, "s", prefix),
        claim(where, "storage per chunk, PRECOG", "192 KB", state_bytes(model), "KB"),
        claim(where, "storage per chunk, in-context", "~1 KB", text, "KB", text_why),
        claim(where, "storage per chunk, KV cache", "~16 MB", cache, "MB"),
        claim(where, "10,000 chunks, PRECOG", "1.9 GB", states, "GB", DECIMAL_STATE, decimal=True),
        claim(where, "10,000 chunks, in-context", "~10 MB", edge.corpus_chunks * text, "MB", text_why, decimal=True),
        claim(where, "10,000 chunks, KV cache", "~160 GB", caches, "GB", DECIMAL_CACHE, decimal=True),
        claim(where, "flash to DRAM per query, PRECOG", "192 KB", state_bytes(model), "KB", "Of the top-1 state."),
        claim(where, "flash to DRAM per query, in-context", "~1 KB", text, "KB", text_why),
        claim(where, "flash to DRAM per query, KV cache", "~16 MB", cache, "MB"),
    ]


def _memory(paper: Paper) -> list[Claim]:
    edge, model, memory, where = paper.edge, paper.model, paper.memory, "Section 5"
    trajectory = edge.chunk_tokens * state_bytes(model)
    semantic = semantic_bytes(memory.domains, memory.sub_clusters, model)
    tried = semantic_bytes(memory.domains, memory.experiment_sub_clusters, model)
    why = (
        f"With 4 sub-clusters a domain. The experiment has {memory.experiment_sub_clusters}, "
        f"which take {tried / 1e6:.2f} MB (inconsistency 27)."
    )
    store = edge.corpus_chunks * state_bytes(model)
    orders = "Against 10,000 chunks with one state each. With every state kept it is over five orders."
    return [
        claim(where, "every state of a 512-token chunk", "~96 MB", trajectory, "MB"),
        claim(where, "semantic state of a sub-cluster", "192 KB", state_bytes(model), "KB"),
        claim(where, "semantic memory, M = 5, J = 4", "<4 MB", semantic, "MB", why, decimal=True),
        claim(where, "below the episodic store", "three orders of magnitude", math.log10(store / semantic), "", orders),
        claim(where, "starting a session", "~6 ms", injection_overhead_sec(edge), "ms"),
    ]


def _conclusion(paper: Paper) -> list[Claim]:
    speed = overhead_speedup(paper.edge)
    why = f"The logarithm of {speed:,.0f}, in injection overhead."
    return [
        claim("Section 7", "storage over raw text", "~200×", *premium(paper)),
        claim("Section 7", "hidden state", "192 KB", state_bytes(paper.model), "KB"),
        claim("Section 7", "prefill latency reduced", "four orders of magnitude", math.log10(speed), "", why),
    ]
