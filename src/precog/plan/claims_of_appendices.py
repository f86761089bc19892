"""Numbers of the paper's appendices that follow from its constants."""

import math

from precog.plan.claim import Claim, claim
from precog.plan.claim_reasons import DECIMAL_STATE, bound, premium, ttft
from precog.plan.compute import training_flops, training_readings
from precog.plan.latency import (
    halving_tokens,
    injection_overhead_sec,
    load_sec,
    overhead_speedup,
    prefill_sec,
    tokens_per_joule,
    ttft_sec,
    ttft_speedup,
    weight_bytes,
)
from precog.plan.paper import Paper
from precog.plan.storage import (
    cache_bytes,
    cache_token_bytes,
    crossover_tokens,
    key_bytes,
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


def claims_of_appendices(paper: Paper) -> list[Claim]:
    """Appendices C to F and H with their figures and tables, Table 5 aside."""
    return [*_roofline(paper), *_listings(paper), *_training_and_data(paper), *_hardware(paper)]


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
        f"the flash read alone, it is {flash_only:,.0f}× (inconsistency 25)."
    )
    counted = ttft_sec(edge, edge.counted_query_tokens, first_token_pass=False)
    threshold = f"In injection overhead. In time to the first token, with the counted question, it is {counted:.2f} s."
    fitting, size = (
        edge.consumer_bytes / state_bytes(model),
        "The paper prints no size of storage; 1 TB fits its number.",
    )
    return [
        claim("Appendix C", "span of bandwidths", "three orders of magnitude", math.log10(max(rates) / min(rates))),
        claim("Appendix C.1", "state", "192 KB", state_bytes(model), "KB"),
        claim("Appendix C.1", "cache of 512 tokens", "16 MB", cache_bytes(paper.llama, edge.chunk_tokens), "MB"),
        claim("Appendix C.1", "cache over state", "85×", ratio, "×"),
        claim("Appendix C.2", "cache of a token", "32 KB", cache_token_bytes(paper.llama), "KB"),
        claim("Appendix C.2", "context that halves the throughput", "73K tokens", halving, "K tokens", weights),
        claim("Appendix C.3", "storage over raw text", "~200×", *premium(paper)),
        claim("Figure 4", "cache over state", "85×", ratio, "×"),
        claim("Figure 5", "context that halves the throughput", "73K tokens", halving, "K tokens", weights),
        claim("Figure 6", "storage over raw text", "~200×", *premium(paper)),
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
    gigabytes = "Table 4 has 256 MB at 8,192 tokens. A cache of 1 GB, at FP16, has 32,768."
    rows.append(
        claim(
            "Appendix D.4", "cache from 8,192 tokens on", "gigabytes (>1 GB)", cache_bytes(llama, 8192), "GB", gigabytes
        )
    )
    query, first = prefill_sec(edge.query_tokens, edge.tok_per_sec), prefill_sec(1, edge.tok_per_sec)
    where, total = "Appendix D.6", f"In time to the first token {ttft_speedup(edge):.0f}× (inconsistency 22)."
    return [
        *rows,
        claim(where, "prefill of 512 tokens", "26.95 s", prefill_sec(edge.chunk_tokens, edge.tok_per_sec), "s"),
        claim(where, "TTFT with a state injected", "585 ms", *ttft(paper)),
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
        f"the peak. Read as hours of {training.gpus} cards: {100 * joint.utilisation:.0f} % (inconsistency 20)."
    )
    states = edge.squad_chunks * state_bytes(model)
    keys = key_bytes(edge.squad_chunks, edge.key_dim, 4)
    bytewise = key_bytes(edge.squad_chunks, edge.key_dim, 1) / 1e6
    return [
        claim("Appendix E", "least GPU-hours of the training", "360 GPU-hours", needed, "GPU-hours", why),
        claim("Appendix F", "state of a chunk", "192 KB", state_bytes(model), "KB"),
        claim("Appendix F", "states of 2,067 chunks", "0.40 GB", states, "GB", DECIMAL_STATE, decimal=True),
        claim(
            "Appendix F", "keys of 2,067 chunks", "<1 MB", keys, "MB",
            f"{bytewise:.2f} MB at one byte a component; at FP32 four times that (inconsistency 7).", decimal=True,
        ),
    ]  # fmt: skip


def _hardware(paper: Paper) -> list[Claim]:
    edge, where = paper.edge, "Appendix H"
    reading = prefill_sec(edge.chunk_tokens, edge.tok_per_sec)
    simulated = "Throughput and power are the paper's: measured on an FPGA, and simulated (inconsistency 16)."
    return [
        claim(where, "in-context ingestion", "~27 s", reading, "s"),
        claim(where, "overhead of an injection", "<6 ms", injection_overhead_sec(edge), "ms", bound(paper)),
        claim("Table 9", "tokens per joule", "19", tokens_per_joule(edge.tok_per_sec, edge.watts), "", simulated),
    ]
