"""Where the paper contradicts itself or the mathematics: what it says, what comes out, and what this project does."""

from dataclasses import asdict, dataclass

from precog.plan.compute import training_readings
from precog.plan.fading import deposits_that_weigh, horizon_tokens, norm_of_mean
from precog.plan.latency import (
    injection_overhead_most_sec,
    injection_overhead_sec,
    overhead_speedup,
    prefill_sec,
    ttft_sec,
    ttft_speedup,
)
from precog.plan.paper import KB, MB, PAPER, Paper
from precog.plan.storage import (
    cache_bytes,
    complex_state_bytes,
    conv_tail_bytes,
    key_bytes,
    semantic_bytes,
    state_bytes,
)


@dataclass(frozen=True)
class Inconsistency:
    """One of them.

    Attributes:
        number: in the list of them, which the code and its comments refer to as "ERRATA n".
        what: it is about.
        printed: what the paper says.
        ours: what comes out, or what is done instead, as words.
        computed: the number in it, in bytes, seconds, or as it is; None where it is not a matter of numbers.
        why: plain sentences for a reader who does not know the code.
    """

    number: int
    what: str
    printed: str
    ours: str
    computed: int | float | None
    why: str

    def to_json(self) -> dict[str, object]:
        """Plain data."""
        return asdict(self)


def inconsistencies(paper: Paper = PAPER) -> list[Inconsistency]:
    """All of them, by number."""
    found = [*_computed(paper), *_in_words()]
    return sorted(found, key=lambda row: row.number)


def _computed(paper: Paper) -> list[Inconsistency]:
    return [*_of_bytes(paper), *_of_seconds(paper), *_of_scores(paper), *_of_fading(paper)]


def _of_bytes(paper: Paper) -> list[Inconsistency]:
    edge, model, memory = paper.edge, paper.model, paper.memory
    state, pairs, tail = state_bytes(model), complex_state_bytes(model), conv_tail_bytes(model)
    same, llama = (cache_bytes(cache, edge.chunk_tokens) for cache in (paper.same_size, paper.llama))
    keys = [key_bytes(edge.corpus_chunks, edge.key_dim, size) for size in (1, 4)]
    tried = semantic_bytes(memory.domains, memory.experiment_sub_clusters, model)
    few = semantic_bytes(memory.domains, memory.sub_clusters, model)
    return [
        Inconsistency(
            2, "bytes of a state", "4,096 complex numbers a layer, 192 KB",
            f"{state:,} B real, {pairs:,} B complex", pairs,
            "A complex number at FP16 takes 4 bytes, so that 4,096 of them in 24 layers take 384 KB. "
            "We store 8 complex modes a group as 16 reals: exactly 192 KB. 16 modes a group are a setting.",
        ),
        Inconsistency(
            3, "what else a model remembers", "the 192 KB are everything", f"{tail // KB:,} KB more", tail,
            "The convolution keeps the last 3 inputs of every layer, and without them Theorem 1 is false. Our "
            "convolution never looks across the token that opens a chunk or a question, so that the state is enough.",
        ),
        Inconsistency(
            6, "cache of 24 layers with 16 heads of 128", "16 MB at 512 tokens", f"{same // MB} MB", same,
            f"{llama // MB} MB is the cache of Llama-3.2-1B, which the appendix calculates with. So do we.",
        ),
        Inconsistency(
            7, "keys of 10,000 chunks", "3.8 MB",
            f"{keys[0] / 1e6:.2f} MB at 1 byte, {keys[1] / 1e6:.1f} MB at FP32", keys[1],
            "3.8 MB is one byte a component. We report the bytes that are really used.",
        ),
        Inconsistency(
            24, "storage against raw text", "~200×, against 1 KB",
            f"{_tens(state / edge.counted_text_bytes)}× and {state / edge.paragraph_bytes:.0f}×",
            state / edge.counted_text_bytes,
            f"512 tokens of text are about {edge.counted_text_bytes:,} bytes, a SQuAD paragraph "
            f"{edge.paragraph_bytes} bytes.",
        ),
        Inconsistency(
            27, "semantic memory", f"under 4 MB, {memory.sub_clusters} sub-clusters a domain",
            f"{tried / 1e6:.2f} MB", tried,
            f"4 sub-clusters a domain take {few / 1e6:.2f} MB. The experiment has {memory.experiment_sub_clusters}. "
            f"(With a state of 192,000 bytes that would be {tried / KB / 1e3:.1f} MB.)",
        ),
    ]  # fmt: skip


def _of_seconds(paper: Paper) -> list[Inconsistency]:
    edge, model, training = paper.edge, paper.model, paper.training
    overhead, most = (
        injection_overhead_sec(edge),
        injection_overhead_most_sec(edge, model, paper.platforms[0].bytes_per_sec),
    )
    printed = ttft_sec(edge, edge.query_tokens, first_token_pass=True)
    without = ttft_sec(edge, edge.query_tokens, first_token_pass=False)
    counted = ttft_sec(edge, edge.counted_query_tokens, first_token_pass=False)
    short = prefill_sec(128, edge.tok_per_sec) / overhead
    single, joint = training_readings(model, training)
    return [
        Inconsistency(
            5, "time to the first token", "< 6 ms in Table 2, 585 ms in Figure 3",
            f"{1e3 * overhead:.0f} ms added, {1e3 * printed:.0f} ms in all", printed,
            "6 ms is what an injection adds to a question without context (by the bounds of section 4.2 at most "
            f"{1e3 * most:.2f} ms). The question's own tokens are read after it. We always report both.",
        ),
        Inconsistency(
            20, "training", "360 GPU-hours of wall-clock compute, 8 A100",
            f"{100 * single.utilisation:.0f} % or {100 * joint.utilisation:.0f} % of the peak", joint.utilisation,
            f"6 N D is {6 * model.nominal_parameters * training.tokens:.2e} FLOP. {single.gpu_hours:.0f} GPU-hours "
            f"have {single.most_flops:.2e} at best. As {single.gpu_hours:.0f} hours of 8 cards it is possible.",
        ),
        Inconsistency(
            22, "speedup", "~4,500×",
            f"{overhead_speedup(edge):,.0f}× and {ttft_speedup(edge):.0f}×", ttft_speedup(edge),
            "The first is reading a chunk over injection overhead. The second is time to the first token in context "
            "over that with a state injected.",
        ),
        Inconsistency(
            23, "TTFT with a state injected", "585 ms", f"{1e3 * without:.0f} ms, or {counted:.2f} s", counted,
            "The paper counts a pass for the first token, but the pass of the last query token already gives it. And "
            f"a SQuAD question in the template has {edge.counted_query_tokens} tokens, not {edge.query_tokens}.",
        ),
        Inconsistency(
            25, "speedup over reading again (Figure 6)", "> 10,000× at every length",
            f"{overhead_speedup(edge):,.0f}× at 512 tokens, {short:,.0f}× at 128", overhead_speedup(edge),
            "By the paper's own 19 tokens a second and 6 ms.",
        ),
    ]  # fmt: skip


def _of_scores(paper: Paper) -> list[Inconsistency]:
    scores = paper.answers
    lost, noise = scores.top1[1] - scores.bottom_12, scores.in_context[1] - scores.top1[1]
    return [
        Inconsistency(
            9, "gap to in-context by chunk length", "up to 15 F1",
            f"{scores.whole_f1[-1] - scores.chunked_f1[-1]:.0f} F1 by Table 8",
            scores.whole_f1[-1] - scores.chunked_f1[-1],
            "Theorem 1 says that both are the same computation. One state of a whole passage has no gap at any "
            "length; several chunks have one, which is a gap of retrieval. We print both.",
        ),
        Inconsistency(
            26, "loss of keeping 12 layers", "below FP16 noise", f"{lost:.1f} F1 against {noise:.1f}", lost,
            "By the paper's own Tables 6 and 3.",
        ),
    ]  # fmt: skip


def _of_fading(paper: Paper) -> list[Inconsistency]:
    memory = paper.memory
    deposits = deposits_that_weigh(memory.decay)
    norms = [norm_of_mean(memory.composed, similarity) for similarity in memory.similarities]
    shortest, longest = (horizon_tokens(dt, memory.rate, memory.threshold) for dt in (memory.dt_high, memory.dt_low))
    return [
        Inconsistency(
            14, "forgetting from an average", "no deletion",
            f"{deposits} deposits matter at α = {memory.decay:g}", deposits,
            "Older deposits weigh less than 2^-24 of the newest. What is forgotten is taken out by reading the others "
            "again, so that nothing of it is left.",
        ),
        Inconsistency(
            15, "norm of an average of states", "not mentioned",
            f"{norms[0]:.2f} to {norms[1]:.2f} of a state's, for {memory.composed} states", norms[0],
            "How much depends on how alike the states are: on cosines of "
            f"{memory.similarities[0]:g} and {memory.similarities[1]:g} here. It is measured, and can be undone.",
        ),
        Inconsistency(
            30, "memory length", "L_mem ≈ 256", f"{shortest:,.0f} to {longest:,.0f} tokens in a new model", longest,
            "A product of vectors is compared with one number, but the coordinates of one layer differ a hundredfold. "
            "We report quantiles over coordinates and layers, and what a word still weighs in the answer.",
        ),
    ]  # fmt: skip


def _tens(value: int | float) -> int:
    """To the nearest ten."""
    return 10 * round(value / 10)


def _in_words() -> list[Inconsistency]:
    return [Inconsistency(number, what, printed, ours, None, why) for number, what, printed, ours, why in _WORDS]


_WORDS = (
    (1, "sign of the recurrence", "exp(−Δt·A) with A = −softplus(α) + iπk", "exp(+Δt·A)",
     "As printed, the state grows at every token. With the other sign it fades."),
    (4, "training by FFT", "in O(L log L)", "a parallel scan",
     "When Δt and B depend on the token there is no convolution kernel to transform. FFT is for the fixed mode only."),
    (8, "stored KV caches", "invalid", "valid as a prefix at the same positions",
     "What fails is another position, several chunks together, and the size. Our comparison loads one from the disk."),
    (10, "averages of states", "as if the history had been read", "approximate",
     "No text leads to an average of states. Every answer says whether its context is exact."),
    (11, "softmax over cosines", "weights by similarity", "a temperature",
     "Cosines are all alike, so that the weights are nearly equal. 1.0 gives the paper's."),
    (12, "articles of SQuAD dev", "536", "48", "536 is the whole data set."),
    (13, "scored answers", "sampled, top-p 0.9", "greedy", "Samples cannot be reproduced without their seed."),
    (16, "power and throughput", "of an FPGA and a simulation", "a device in virtual time",
     "We have no such chip. Figures of ours are of a CPU or GPU, and say so."),
    (17, "HotpotQA Recall@1 of both paragraphs", "0.65", "0 by definition",
     "One paragraph cannot be both. We report any and all, by name."),
    (18, "State Soup and PICASO", "change the training", "need none",
     "Both also mix states of pretrained models. They are compared."),
    (19, "reading c and q together", "the same text", "the same tokens",
     "Text cut in two is not always tokenised as the whole is. Every way here cuts at the same places."),
    (21, "gates", "depend on the current token only", "on four tokens, and on the layers below",
     "Theorem 1 still holds. The unrolled sum and L_mem are exact for the first layer only."),
    (28, "routing threshold 0.2", "a probability", "softmax over a domain's sub-clusters",
     "The equations give inner products only."),
    (29, "fine-tuning on SQuAD", "in appendix E", "not described there", "Our own recipe is in the model card."),
    (31, "generation in context", "O(L·d_kv)", "O(N) for an SSM", "The printed cost is a Transformer's."),
    (32, "fusion with the semantic state", "added to a full average", "(1−λ) Σ w h + λ s",
     "Otherwise the weights sum to more than 1."),
)  # fmt: skip
