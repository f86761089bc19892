"""Every number of the paper that follows from others, by table, figure and section: printed, computed, and why.

Scores that have to be measured are not here; their differences are (`precog.plan.claims_of_scores`).
"""

import math

from precog.plan.claim import Claim, claim
from precog.plan.claims_of_scores import claims_of_scores
from precog.plan.compute import parameters, training_flops, training_readings
from precog.plan.latency import (
    halving_tokens,
    injection_overhead_most_sec,
    injection_overhead_sec,
    load_sec,
    overhead_speedup,
    prefill_sec,
    tokens_per_joule,
    ttft_sec,
    ttft_speedup,
    weight_bytes,
)
from precog.plan.load_table import load_claims
from precog.plan.paper import PAPER, Paper
from precog.plan.storage import (
    cache_bytes,
    cache_token_bytes,
    crossover_tokens,
    key_bytes,
    semantic_bytes,
    state_bytes,
    ungrouped_ratio,
)

SCALING = (
    (6, "192 KB", "KB", "1×"),
    (128, "4 MB", "MB", "21×"),
    (512, "16 MB", "MB", "85×"),
    (2_048, "64 MB", "MB", "341×"),
    (8_192, "256 MB", "MB", "1,365×"),
    (32_768, "1 GB", "GB", "5,461×"),
    (131_072, "4 GB", "GB", "21,845×"),
)
"""Table 4: tokens, the cache as printed and its unit, the ratio as printed."""

_BOUND = (
    "Appendix D's parts are 5 ms and about 1 ms: 6 ms, which is not below 6. Section 4.2's bounds allow {most:.2f} ms. "
    "And this is injection overhead: the question's own tokens are read after it (ERRATA 5)."
)
_DECIMAL_STATE = "The printed number takes a state as 192,000 B. It has 196,608 B."
_MIXED = "The printed number takes 16 MB as 16,000,000 B. 512 tokens have 16,777,216 B."
_OTHER_MODEL = (
    "16 MB is the cache of Llama-3.2-1B (16 layers, 8 key heads of 64). "
    "The model named here, 24 layers with 16 heads of 128, keeps 96 MB (ERRATA 6)."
)
_LOGITS = (
    "It counts a pass for the first token, but the pass of the last query token already gives its logits. "
    "A SQuAD question in the template has {tokens} tokens, not {printed}; then it is {sec:.2f} s (ERRATA 23)."
)


def claims(paper: Paper = PAPER) -> list[Claim]:
    """One row for every printed number, in the order of the paper's sections.

    Args:
        paper: the constants; others show what depends on what.
    """
    return [
        *_introduction(paper),
        *_method(paper),
        *_figures_2_and_3(paper),
        *_latency_table(paper),
        *_memory(paper),
        *claims_of_scores(paper),
        *_roofline(paper),
        *_listings(paper),
        *load_claims(paper),
        *_training_and_data(paper),
        *_hardware(paper),
    ]


def _bound(paper: Paper) -> str:
    most = injection_overhead_most_sec(paper.edge, paper.model, paper.platforms[0].bytes_per_sec)
    return _BOUND.format(most=1e3 * most)


def _introduction(paper: Paper) -> list[Claim]:
    edge, model = paper.edge, paper.model
    overhead, reading = injection_overhead_sec(edge), prefill_sec(edge.chunk_tokens, edge.tok_per_sec)
    labelled = (
        f"Reading over injection overhead. In time to the first token it is {ttft_speedup(edge):.0f}× (ERRATA 22)."
    )
    long = cache_bytes(paper.llama, edge.long_tokens) / state_bytes(model)
    return [
        claim("Abstract", "hidden state", "192 KB", state_bytes(model), "KB"),
        claim("Abstract", "prefill of a 512-token chunk", "~27 s", reading, "s"),
        claim("Abstract", "prefill with a state injected", "<6 ms", overhead, "ms", _bound(paper)),
        claim("Abstract", "speedup", "~4500×", overhead_speedup(edge), "×", labelled),
        claim("Section 1", "cache over state at 3,000 tokens", "~500×", long, "×"),
        claim("Section 3", "state of a layer", "8 KB", state_bytes(model, 1), "KB"),
        claim("Table 1", "state size of a layer", "4,096", model.state_reals),
        claim("Table 1", "parameters", "~1.2B", parameters(model), "B parameters", "Of our `paper` preset."),
    ]


def _method(paper: Paper) -> list[Claim]:
    edge, model = paper.edge, paper.model
    overhead, flash = injection_overhead_sec(edge), paper.platforms[0].bytes_per_sec
    keys = key_bytes(edge.corpus_chunks, edge.key_dim, 4)
    bytewise = key_bytes(edge.corpus_chunks, edge.key_dim, 1) / 1e6
    same = cache_bytes(paper.same_size, edge.chunk_tokens)
    why_keys = f"{bytewise:.2f} MB is one byte a component; at FP32 a component takes four (ERRATA 7)."
    states, caches = _corpus_bytes(paper)
    speed = overhead_speedup(edge)
    return [
        claim("Section 4.2", "states of 10,000 chunks", "1.9 GB", states, "GB", _DECIMAL_STATE, decimal=True),
        claim("Section 4.2", "keys of 10,000 chunks", "~3.8 MB", keys, "MB", why_keys, decimal=True),
        claim("Section 4.2", "flash to DRAM", "~50 µs", load_sec(state_bytes(model), flash), "µs"),
        claim("Section 4.2", "overhead against no context", "~6 ms", overhead, "ms"),
        claim("Section 4.2", "in-context ingestion", "~27 s", prefill_sec(edge.chunk_tokens, edge.tok_per_sec), "s"),
        claim("Section 4.4", "cache of 24 layers, 16 heads of 128, 512 tokens", "~16 MB", same, "MB", _OTHER_MODEL),
        claim("Section 4.4", "its premium over a state", "85×", same / state_bytes(model), "×", _OTHER_MODEL),
        claim("Section 4.4", "10,000 states", "1.9 GB", states, "GB", _DECIMAL_STATE, decimal=True),
        claim("Section 4.4", "10,000 caches", "160 GB", caches, "GB", _MIXED, decimal=True),
        claim("Section 7", "storage over raw text", "~200×", *_premium(paper)),
        claim(
            "Section 7",
            "prefill latency reduced",
            "four orders of magnitude",
            math.log10(speed),
            "",
            f"The logarithm of {speed:,.0f}, in injection overhead.",
        ),
    ]


def _corpus_bytes(paper: Paper) -> tuple[int, int]:
    chunks = paper.edge.corpus_chunks
    return chunks * state_bytes(paper.model), chunks * cache_bytes(paper.llama, paper.edge.chunk_tokens)


def _premium(paper: Paper) -> tuple[float, str, str]:
    edge, state = paper.edge, state_bytes(paper.model)
    why = (
        f"Against 1 KB. 512 tokens are about {edge.counted_text_bytes:,} B: {state / edge.counted_text_bytes:.0f}×. "
        f"A SQuAD paragraph has {edge.paragraph_bytes} B: {state / edge.paragraph_bytes:.0f}× (ERRATA 24)."
    )
    return state / edge.text_bytes, "×", why


def _ttft(paper: Paper) -> tuple[float, str, str]:
    edge = paper.edge
    counted = ttft_sec(edge, edge.counted_query_tokens, first_token_pass=False)
    why = _LOGITS.format(tokens=edge.counted_query_tokens, printed=edge.query_tokens, sec=counted)
    return ttft_sec(edge, edge.query_tokens, first_token_pass=True), "ms", why


def _figures_2_and_3(paper: Paper) -> list[Claim]:
    edge, model, llama = paper.edge, paper.model, paper.llama
    ratio = cache_bytes(llama, edge.chunk_tokens) / state_bytes(model)
    return [
        claim("Figure 2", "cache of a token", "32 KB", cache_token_bytes(llama), "KB"),
        claim("Figure 2", "state", "192 KB", state_bytes(model), "KB"),
        claim("Figure 2", "crossover", "6 tokens", crossover_tokens(llama, model), "tokens"),
        claim("Figure 2", "cache over state at 512 tokens", "85×", ratio, "×"),
        claim("Figure 3", "prefill in context", "~27 s", prefill_sec(edge.chunk_tokens, edge.tok_per_sec), "s"),
        claim("Figure 3", "TTFT with a state injected", "585 ms", *_ttft(paper)),
    ]


def _latency_table(paper: Paper) -> list[Claim]:
    edge, model, where = paper.edge, paper.model, "Table 2"
    reading = prefill_sec(edge.chunk_tokens, edge.tok_per_sec)
    cache, (states, caches) = cache_bytes(paper.llama, edge.chunk_tokens), _corpus_bytes(paper)
    loaded = load_sec(cache, paper.platforms[0].bytes_per_sec)
    prefix = (
        "If the cache is computed again. One kept at positions 0 to 511 is valid as a prefix, and loads in "
        f"{1e3 * loaded:.1f} ms; what fails is other positions, several chunks, and its size (ERRATA 8)."
    )
    text, text_why = edge.text_bytes, f"512 tokens have about {edge.counted_text_bytes:,} B (ERRATA 24)."
    return [
        claim(where, "TTFT, PRECOG", "<6 ms", injection_overhead_sec(edge), "ms", _bound(paper)),
        claim(where, "TTFT, in-context", "~27 s", reading, "s", "Without the question's own tokens."),
        claim(where, "TTFT, KV cache", "~27 s", reading, "s", prefix),
        claim(where, "storage per chunk, PRECOG", "192 KB", state_bytes(model), "KB"),
        claim(where, "storage per chunk, in-context", "~1 KB", text, "KB", text_why),
        claim(where, "storage per chunk, KV cache", "~16 MB", cache, "MB"),
        claim(where, "10,000 chunks, PRECOG", "1.9 GB", states, "GB", _DECIMAL_STATE, decimal=True),
        claim(where, "10,000 chunks, in-context", "~10 MB", edge.corpus_chunks * text, "MB", text_why, decimal=True),
        claim(where, "10,000 chunks, KV cache", "~160 GB", caches, "GB", _MIXED, decimal=True),
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
        f"which take {tried / 1e6:.2f} MB; ERRATA 27 counts 192 KB as 192,000 B and says 9.6 MB."
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


def _roofline(paper: Paper) -> list[Claim]:
    edge, model = paper.edge, paper.model
    rates = [platform.bytes_per_sec for platform in paper.platforms]
    ratio = cache_bytes(paper.llama, edge.chunk_tokens) / state_bytes(model)
    halving = halving_tokens(paper.llama, weight_bytes(model, 16))
    low = halving_tokens(paper.llama, weight_bytes(model, 4))
    weights = f"Weights at FP16, 2.4 GB. At INT4, which Table 1 names for inference, it is {low / 1e3:.1f}K."
    speed, short = overhead_speedup(edge), prefill_sec(128, edge.tok_per_sec) / injection_overhead_sec(edge)
    flash_only = prefill_sec(edge.chunk_tokens, edge.tok_per_sec) / load_sec(state_bytes(model), rates[0])
    why = (
        f"At 512 tokens; at 128 tokens {short:,.0f}×. Only without the 6 ms of injection overhead, counting "
        f"the flash read alone, it is {flash_only:,.0f}× (ERRATA 25)."
    )
    counted = ttft_sec(edge, edge.counted_query_tokens, first_token_pass=False)
    threshold = f"In injection overhead. In time to the first token, with the counted question, it is {counted:.2f} s."
    fitting, size = (
        edge.consumer_bytes / state_bytes(model),
        "The paper prints no size of storage; 1 TB fits its number.",
    )
    return [
        claim("Appendix C", "span of bandwidths", "three orders of magnitude", math.log10(max(rates) / min(rates))),
        claim("Figure 4", "cache over state", "85×", ratio, "×"),
        claim("Figure 5", "context that halves the throughput", "73K tokens", halving, "K tokens", weights),
        claim("Figure 6", "storage over raw text", "~200×", *_premium(paper)),
        claim("Figure 6", "faster than reading again", ">10,000×", speed, "×", why),
        claim(
            "Figure 6",
            "context ingestion, below what a user notices",
            "<1 s",
            injection_overhead_sec(edge),
            "s",
            threshold,
        ),
        claim("Figure 6", "chunks on consumer-class storage", "~5M chunks", fitting, "M chunks", size),
    ]


def _listings(paper: Paper) -> list[Claim]:
    edge, model, llama = paper.edge, paper.model, paper.llama
    cache, state = cache_bytes(llama, edge.chunk_tokens), state_bytes(model)
    rows = [
        claim("Appendix D.1", "N", "4,096", model.state_reals),
        claim("Appendix D.1", "state", "196,608 B", state, "B"),
        claim("Appendix D.1", "state", "192 KB", state, "KB"),
        claim("Appendix D.2", "cache of a token", "32,768 B", cache_token_bytes(llama), "B"),
        claim("Appendix D.2", "cache of a token", "32 KB", cache_token_bytes(llama), "KB"),
        claim("Appendix D.2", "without grouped-query attention", "4×", ungrouped_ratio(llama), "×"),
        claim("Appendix D.3", "cache of 512 tokens", "16,384 KB", cache, "KB"),
        claim("Appendix D.3", "cache of 512 tokens", "16 MB", cache, "MB"),
        claim("Appendix D.3", "cache over state", "85.3×", cache / state, "×"),
        claim("Appendix D.3", "crossover", "6 tokens", crossover_tokens(llama, model), "tokens"),
    ]
    for tokens, size, unit, ratio in SCALING:
        num_bytes = cache_bytes(llama, tokens)
        rows.append(claim("Table 4", f"cache of {tokens:,} tokens", size, num_bytes, unit))
        rows.append(claim("Table 4", f"{tokens:,} tokens over a state", ratio, num_bytes / state, "×"))
    query, first = prefill_sec(edge.query_tokens, edge.tok_per_sec), prefill_sec(1, edge.tok_per_sec)
    where, total = "Appendix D.6", f"In time to the first token {ttft_speedup(edge):.0f}× (ERRATA 22)."
    return [
        *rows,
        claim(where, "prefill of 512 tokens", "26.95 s", prefill_sec(edge.chunk_tokens, edge.tok_per_sec), "s"),
        claim(where, "TTFT with a state injected", "585 ms", *_ttft(paper)),
        claim(where, "query ingestion", "526 ms", query, "ms", "10 tokens at 19 tok/s."),
        claim(where, "first token", "~53 ms", first, "ms", "Not needed: the last query token gives the logits."),
        claim(where, "advantage over in-context", "~4500×", overhead_speedup(edge), "×", total),
    ]


def _training_and_data(paper: Paper) -> list[Claim]:
    edge, model, training = paper.edge, paper.model, paper.training
    flops = training_flops(model.nominal_parameters, training.tokens)
    single, joint = training_readings(model, training)
    needed = flops / training.peak_flops_per_sec / 3600
    why = (
        f"6 N D is {flops:.2e} FLOP; {single.gpu_hours:.0f} GPU-hours give {single.most_flops:.2e} at 100 % of "
        f"the peak. Read as hours of all {training.gpus} cards, it is {100 * joint.utilisation:.0f} % (ERRATA 20)."
    )
    states = edge.squad_chunks * state_bytes(model)
    keys = key_bytes(edge.squad_chunks, edge.key_dim, 4)
    bytewise = key_bytes(edge.squad_chunks, edge.key_dim, 1) / 1e6
    return [
        claim("Appendix E", "least GPU-hours of the training", "360 GPU-hours", needed, "GPU-hours", why),
        claim("Appendix F", "states of 2,067 chunks", "0.40 GB", states, "GB", _DECIMAL_STATE, decimal=True),
        claim(
            "Appendix F", "keys of 2,067 chunks", "<1 MB", keys, "MB",
            f"{bytewise:.2f} MB at one byte a component; at FP32 four times that (ERRATA 7).", decimal=True,
        ),
    ]  # fmt: skip


def _hardware(paper: Paper) -> list[Claim]:
    edge, where = paper.edge, "Appendix H"
    reading = prefill_sec(edge.chunk_tokens, edge.tok_per_sec)
    simulated = "Throughput and power are the paper's: measured on an FPGA, and simulated (ERRATA 16)."
    return [
        claim(where, "in-context ingestion", "~27 s", reading, "s"),
        claim(where, "overhead of an injection", "<6 ms", injection_overhead_sec(edge), "ms", _bound(paper)),
        claim("Table 9", "tokens per joule", "19", tokens_per_joule(edge.tok_per_sec, edge.watts), "", simulated),
    ]
