"""Seconds: to read tokens, to load bytes, until the first token; and tokens a second (paper, appendices C and D)."""

from precog.plan.paper import AttentionCache, PaperEdge, PaperModel
from precog.plan.storage import cache_token_bytes, state_bytes


def prefill_sec(tokens: int | float, tok_per_sec: float) -> float:
    """Seconds to read tokens one after the other (appendix D.6)."""
    return tokens / tok_per_sec


def load_sec(num_bytes: int | float, bytes_per_sec: float, latency_sec: float = 0.0) -> float:
    """Seconds to load an artefact at full bandwidth (appendix D.5), after a fixed latency."""
    return latency_sec + num_bytes / bytes_per_sec


def injection_overhead_sec(edge: PaperEdge) -> float:
    """What injecting adds to a question without any context, by the parts of appendix D: retrieve, load and inject."""
    return edge.encoder_sec + edge.load_and_inject_sec


def injection_overhead_most_sec(edge: PaperEdge, model: PaperModel, bytes_per_sec: float) -> float:
    """The same by the upper bounds of section 4.2: encode, search, load, inject."""
    load = load_sec(state_bytes(model), bytes_per_sec)
    return edge.encoder_sec + edge.search_most_sec + load + edge.inject_most_sec


def ttft_sec(edge: PaperEdge, query_tokens: int, *, first_token_pass: bool) -> float:
    """Seconds from the question to its first token with a state injected (appendix D.6, ERRATA 5 and 23).

    Args:
        edge: the device.
        query_tokens: that have to be read.
        first_token_pass: whether one more pass is counted for the first token, as the paper does. None is needed:
            the pass of the last query token already gives the logits.
    """
    passes = query_tokens + int(first_token_pass)
    return injection_overhead_sec(edge) + edge.tokenize_sec + prefill_sec(passes, edge.tok_per_sec)


def overhead_speedup(edge: PaperEdge) -> float:
    """Reading a chunk, over injection overhead: the paper's ~4,500 (ERRATA 22)."""
    return prefill_sec(edge.chunk_tokens, edge.tok_per_sec) / injection_overhead_sec(edge)


def ttft_speedup(edge: PaperEdge) -> float:
    """Time to the first token in context, over that with a state injected, by the paper's own figures (ERRATA 22)."""
    injected = ttft_sec(edge, edge.query_tokens, first_token_pass=True)
    return (prefill_sec(edge.chunk_tokens, edge.tok_per_sec) + injected) / injected


def weight_bytes(model: PaperModel, weight_bits: int = 16) -> float:
    """Bytes of the weights: nominal parameters at so many bits each."""
    return model.nominal_parameters * weight_bits / 8


def halving_tokens(cache: AttentionCache, weights: int | float) -> float:
    """Tokens of context at which the cache is as large as the weights, so that generation has half its speed.

    The paper's 73K are 1.2e9 parameters at 2 bytes over 32,768 bytes a token: weights at FP16, not the INT4 of Table 1.
    """
    return weights / cache_token_bytes(cache)


def cache_tok_per_sec(bytes_per_sec: float, weights: int | float, cache: AttentionCache, tokens: int | float) -> float:
    """Most tokens a second of a Transformer that has read so many: weights and cache are read for each (Fig. 5)."""
    return bytes_per_sec / (weights + tokens * cache_token_bytes(cache))


def state_tok_per_sec(bytes_per_sec: float, weights: int | float, model: PaperModel) -> float:
    """Most tokens a second of an SSM, whatever it has read: weights and state are read for each (Fig. 5)."""
    return bytes_per_sec / (weights + state_bytes(model))


def tokens_per_joule(tok_per_sec: float, watts: float) -> float:
    """Table 9."""
    return tok_per_sec / watts
