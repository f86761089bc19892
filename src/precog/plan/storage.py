"""Bytes: of a state, a cache, keys, a corpus, a memory (paper, sections 3–5, appendix D)."""

from precog.plan.paper import AttentionCache, PaperModel


def state_bytes(model: PaperModel, layers: int | None = None) -> int:
    """Bytes of a stored state: layers × N × bytes of a real (appendix D.1); 196,608 in the paper.

    Args:
        model: whose.
        layers: so many of them only (Table 6); all when None.
    """
    return (model.layers if layers is None else layers) * model.state_reals * model.value_bytes


def complex_state_bytes(model: PaperModel) -> int:
    """The same with N complex numbers, a pair of reals each, as section 3 has it; 393,216 in the paper (ERRATA 2)."""
    return 2 * state_bytes(model)


def conv_tail_bytes(model: PaperModel) -> int:
    """Bytes of what the convolution remembers: kernel − 1 inputs a layer, each of the inner width (ERRATA 3)."""
    return model.layers * (model.kernel - 1) * model.inner * model.value_bytes


def cache_token_bytes(cache: AttentionCache) -> int:
    """Bytes that a Transformer keeps of every token: a key and a value in every layer (appendix D.2)."""
    return cache.layers * 2 * cache.kv_heads * cache.head_dim * cache.value_bytes


def cache_bytes(cache: AttentionCache, tokens: int) -> int:
    """Bytes of the keys and values of so many tokens."""
    return tokens * cache_token_bytes(cache)


def ungrouped_ratio(cache: AttentionCache) -> float:
    """How many times larger it would be without grouped-query attention."""
    return cache.heads / cache.kv_heads


def crossover_tokens(cache: AttentionCache, model: PaperModel) -> float:
    """Tokens from which on a cache is larger than a state (appendix D.3)."""
    return state_bytes(model) / cache_token_bytes(cache)


def key_bytes(chunks: int, dim: int, component_bytes: int) -> int:
    """Bytes of one key a chunk: at FP32 a component takes 4, quantised 1 (ERRATA 7)."""
    return chunks * dim * component_bytes


def semantic_bytes(domains: int, sub_clusters: int, model: PaperModel) -> int:
    """Bytes of one semantic state a sub-cluster (section 5.3)."""
    return domains * sub_clusters * state_bytes(model)
