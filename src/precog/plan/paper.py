"""The paper's constants: what its numbers are computed from, each where it is printed (sections 3–6, C–I)."""

from dataclasses import dataclass, field

KB, MB, GB = 1 << 10, 1 << 20, 1 << 30
"""Binary units, the paper's own for sizes (appendix D)."""


@dataclass(frozen=True)
class PaperModel:
    """TENNs-LLM as Table 1 describes it.

    Attributes:
        width, inner, layers: d, inner dimension, L.
        coefficients, repeat: 16 a timescale group, 256 groups; their product is N, reals of state a layer.
        bottleneck, kernel, vocabulary: gating bottleneck, taps of the convolution, token ids.
        value_bytes: of a real at FP16.
        nominal_parameters: "~1.2B".
    """

    width: int = 2048
    inner: int = 4096
    layers: int = 24
    coefficients: int = 16
    repeat: int = 256
    bottleneck: int = 256
    kernel: int = 4
    vocabulary: int = 32_000
    value_bytes: int = 2
    nominal_parameters: float = 1.2e9

    @property
    def state_reals(self) -> int:
        """N, reals of state a layer."""
        return self.coefficients * self.repeat


@dataclass(frozen=True)
class AttentionCache:
    """The keys and values that a Transformer keeps.

    Attributes:
        layers, kv_heads, head_dim: of the keys; the values are as many.
        heads: of the queries; those of keys, too, without grouped-query attention.
        value_bytes: of a component at FP16.
    """

    layers: int
    kv_heads: int
    head_dim: int
    heads: int
    value_bytes: int = 2


@dataclass(frozen=True)
class Platform:
    """A place that states and caches are loaded from (Table 5).

    Attributes:
        name: as printed.
        tier: Flash, DRAM or HBM.
        bytes_per_sec: peak bandwidth, in decimal units.
        cache_printed, state_printed: the load times that the paper prints.
    """

    name: str
    tier: str
    bytes_per_sec: float
    cache_printed: str
    state_printed: str


PLATFORMS = (
    Platform("Edge UFS 4.0/4.1", "Flash", 4.2e9, "3.8 ms", "46 µs"),
    Platform("Edge UFS 5.0", "Flash", 10.8e9, "1.5 ms", "18 µs"),
    Platform("Edge LPDDR5 (Ethos-U85)", "DRAM", 96e9, "170 µs", "2.0 µs"),
    Platform("CPU + DDR5 (EPYC, 12 ch)", "DRAM", 460e9, "35 µs", "0.41 µs"),
    Platform("GPU HBM3 (H100 SXM)", "HBM", 3.35e12, "4.9 µs", "57 ns"),
)


@dataclass(frozen=True)
class PaperEdge:
    """The edge device and the work it is asked for (section 4.2, appendices D and H).

    Attributes:
        tok_per_sec, watts: Table 9.
        encoder_sec: of the sentence encoder; appendix D calls it retrieval and counts the search in it.
        search_most_sec, inject_most_sec: section 4.2 says "< 1 ms" of each.
        load_and_inject_sec: appendix D.
        tokenize_sec: appendix D.
        chunk_tokens, query_tokens: 512 and 10.
        counted_query_tokens: tokens of a SQuAD question in the paper's template, as counted (ERRATA 23).
        corpus_chunks: 10,000.
        key_dim: components of a key.
        text_bytes: "~1 KB" of a chunk.
        counted_text_bytes, paragraph_bytes: of 512 tokens, and of a SQuAD paragraph, as counted (ERRATA 24).
        long_tokens: of the context that section 1 compares at.
        squad_chunks: paragraphs of SQuAD dev.
        consumer_bytes: "consumer-class storage" of Fig. 6; the paper prints no size, and this one fits its 5M chunks.
    """

    tok_per_sec: float = 19.0
    watts: float = 1.0
    encoder_sec: float = 5e-3
    search_most_sec: float = 1e-3
    inject_most_sec: float = 1e-3
    load_and_inject_sec: float = 1e-3
    tokenize_sec: float = 0.5e-3
    chunk_tokens: int = 512
    query_tokens: int = 10
    counted_query_tokens: int = 20
    corpus_chunks: int = 10_000
    key_dim: int = 384
    text_bytes: int = 1024
    counted_text_bytes: int = 2200
    paragraph_bytes: int = 779
    long_tokens: int = 3000
    squad_chunks: int = 2067
    consumer_bytes: float = 1e12


@dataclass(frozen=True)
class PaperMemory:
    """Structured memory (section 5, appendix I).

    Attributes:
        domains, sub_clusters: M and J_max of section 5.3.
        experiment_sub_clusters: J of the experiment in appendix I.
        decay: α of the moving average that ERRATA 14 counts with; the paper prints none.
        composed: k of the top-k average.
        similarities: cosines of chunk states, with frequencies πk and without, as ERRATA 15 has them.
        threshold: ε of appendix B.
        dt_low, dt_high, rate: Δ and softplus(α) at initialisation, as ERRATA 30 counts with.
    """

    domains: int = 5
    sub_clusters: int = 4
    experiment_sub_clusters: int = 10
    decay: float = 0.1
    composed: int = 3
    similarities: tuple[float, ...] = (0.4, 0.85)
    threshold: float = 1e-3
    dt_low: float = 1e-3
    dt_high: float = 0.1
    rate: float = 0.5


@dataclass(frozen=True)
class PaperTraining:
    """Training (appendix E).

    Attributes:
        tokens: of SlimPajama.
        hours: "360 GPU-hours of wall-clock compute".
        gpus: A100.
        peak_flops_per_sec: of one A100, dense BF16.
    """

    tokens: float = 120e9
    hours: float = 360.0
    gpus: int = 8
    peak_flops_per_sec: float = 312e12


@dataclass(frozen=True)
class PaperAnswers:
    """Scores the paper prints, which it takes differences of (Tables 3, 6, 7, 8).

    Attributes:
        in_context, top1: EM and F1 of Table 3.
        top3: F1 of Table 3.
        bottom_12, alternate, top_12, top_6: F1 of Table 6; the whole depth is ``top1``.
        composed_f1: F1 of Table 7 for k = 1, 2, 3, 5, 10.
        chunked_f1, whole_f1, shares: Table 8 by length: PRECOG, in-context, per cent of the examples.
    """

    in_context: tuple[float, float] = (58.2, 73.6)
    top1: tuple[float, float] = (58.0, 73.4)
    top3: float = 71.8
    bottom_12: float = 72.5
    alternate: float = 70.0
    top_12: float = 65.0
    top_6: float = 58.0
    composed_f1: tuple[float, ...] = (48.0, 54.0, 55.5, 53.0, 49.0)
    chunked_f1: tuple[float, ...] = (65.0, 64.5, 63.5, 60.0, 54.0, 45.0)
    whole_f1: tuple[float, ...] = (65.0, 64.5, 64.0, 63.5, 62.0, 60.0)
    shares: tuple[float, ...] = (15.0, 35.0, 25.0, 15.0, 7.0, 3.0)


@dataclass(frozen=True)
class Paper:
    """Everything together."""

    model: PaperModel = field(default_factory=PaperModel)
    llama: AttentionCache = field(default_factory=lambda: AttentionCache(16, 8, 64, 32))
    same_size: AttentionCache = field(default_factory=lambda: AttentionCache(24, 16, 128, 16))
    platforms: tuple[Platform, ...] = PLATFORMS
    edge: PaperEdge = field(default_factory=PaperEdge)
    memory: PaperMemory = field(default_factory=PaperMemory)
    training: PaperTraining = field(default_factory=PaperTraining)
    answers: PaperAnswers = field(default_factory=PaperAnswers)


PAPER = Paper()
