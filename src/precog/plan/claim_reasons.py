"""What explains several of the claims: sentences, and the values that go with them."""

from precog.plan.latency import injection_overhead_most_sec, ttft_sec
from precog.plan.paper import Paper
from precog.plan.storage import cache_bytes, state_bytes

_BOUND = (
    "Appendix D's parts are 5 ms and about 1 ms: 6 ms, which is not below 6. Section 4.2's bounds allow {most:.2f} ms. "
    "And this is injection overhead: the question's own tokens are read after it (inconsistency 5)."
)
DECIMAL_STATE = "The printed number takes a state as 192,000 B. It has 196,608 B."
DECIMAL_CACHE = "The printed number takes 16 MB as 16,000,000 B. 512 tokens have 16,777,216 B."
OTHER_MODEL = (
    "16 MB is the cache of Llama-3.2-1B (16 layers, 8 key heads of 64). "
    "The model named here, 24 layers with 16 heads of 128, keeps 96 MB (inconsistency 6)."
)
_LOGITS = (
    "It counts a pass for the first token, but the pass of the last query token already gives its logits. "
    "A SQuAD question in the template has {tokens} tokens, not {printed}; then it is {sec:.2f} s (inconsistency 23)."
)


def bound(paper: Paper) -> str:
    """Why the injection overhead is not below 6 ms."""
    most = injection_overhead_most_sec(paper.edge, paper.model, paper.platforms[0].bytes_per_sec)
    return _BOUND.format(most=1e3 * most)


def corpus_bytes(paper: Paper) -> tuple[int, int]:
    """Bytes of 10,000 states, and of 10,000 caches of 512 tokens."""
    chunks = paper.edge.corpus_chunks
    return chunks * state_bytes(paper.model), chunks * cache_bytes(paper.llama, paper.edge.chunk_tokens)


def premium(paper: Paper) -> tuple[float, str, str]:
    """A state over a chunk's text: ratio, unit, why."""
    edge, state = paper.edge, state_bytes(paper.model)
    why = (
        f"Against 1 KB. 512 tokens are about {edge.counted_text_bytes:,} B: {state / edge.counted_text_bytes:.0f}×. "
        f"A SQuAD paragraph has {edge.paragraph_bytes} B: {state / edge.paragraph_bytes:.0f}× (inconsistency 24)."
    )
    return state / edge.text_bytes, "×", why


def ttft(paper: Paper) -> tuple[float, str, str]:
    """Time to the first token as the paper counts it: seconds, unit, why."""
    edge = paper.edge
    counted = ttft_sec(edge, edge.counted_query_tokens, first_token_pass=False)
    why = _LOGITS.format(tokens=edge.counted_query_tokens, printed=edge.query_tokens, sec=counted)
    return ttft_sec(edge, edge.query_tokens, first_token_pass=True), "ms", why
