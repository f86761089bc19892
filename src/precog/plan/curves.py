"""The numbers of Figures 2 to 6 as plain lists, for whoever draws them."""

from collections.abc import Sequence

from precog.plan.device import EdgeDevice, paper_device
from precog.plan.latency import cache_tok_per_sec, halving_tokens, state_tok_per_sec, weight_bytes
from precog.plan.load_table import load_times
from precog.plan.paper import PAPER, Paper
from precog.plan.storage import cache_bytes, crossover_tokens, state_bytes
from precog.plan.timeline import Question, Timeline, timeline

CONTEXTS = tuple(1 << power for power in range(18))  # 1 to 131,072, the most that Llama-3.2-1B reads
CORPORA = tuple(10**power for power in range(2, 8))
CHUNKS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)

Curves = dict[str, object]


def storage_scaling(contexts: Sequence[int] = CONTEXTS, paper: Paper = PAPER) -> Curves:
    """Figure 2: bytes of a chunk by its length.

    Returns:
        ``tokens``, ``cache_bytes`` and ``state_bytes``, lists of one length; ``crossover_tokens``; and ``ratio_at`` the
        paper's ``chunk_tokens``.
    """
    state = state_bytes(paper.model)
    chunk = paper.edge.chunk_tokens
    return {
        "tokens": list(contexts),
        "cache_bytes": [cache_bytes(paper.llama, tokens) for tokens in contexts],
        "state_bytes": [state] * len(contexts),
        "crossover_tokens": crossover_tokens(paper.llama, paper.model),
        "chunk_tokens": chunk,
        "ratio_at": cache_bytes(paper.llama, chunk) / state,
    }


def waterfall(device: EdgeDevice | None = None, question: Question | None = None) -> list[dict[str, object]]:
    """Figure 3: stages until the first token of each way; the paper's device and its 10-token question when None.

    Returns:
        Rows of ``way``, ``ttft_sec``, ``added_sec`` and ``stages``: rows of ``name``, ``start_sec``, ``end_sec``.
    """
    device = device or paper_device()
    question = question or Question(query_tokens=PAPER.edge.query_tokens, first_token_pass=True)
    lines = [timeline(way, device, question) for way in ("inject", "in-context", "kv-cache", "kv-recomputed")]
    return [_until_first_token(line) for line in lines]


def _until_first_token(line: Timeline) -> dict[str, object]:
    stages = [stage for stage in line.stages if stage.name != "answer"]
    rows = [{"name": stage.name, "start_sec": stage.start_sec, "end_sec": stage.end_sec} for stage in stages]
    return {"way": line.way, "ttft_sec": line.first_token_sec, "added_sec": line.added_sec, "stages": rows}


def loading(paper: Paper = PAPER, tokens: int | None = None) -> list[dict[str, object]]:
    """Figure 4: rows of ``platform``, ``tier``, ``bytes_per_sec``, ``cache_sec``, ``state_sec`` and ``ratio``."""
    return [
        {
            "platform": row.platform.name,
            "tier": row.platform.tier,
            "bytes_per_sec": row.platform.bytes_per_sec,
            "cache_sec": row.cache_sec,
            "state_sec": row.state_sec,
            "ratio": row.ratio,
        }
        for row in load_times(paper, tokens)
    ]


def roofline(contexts: Sequence[int] = CONTEXTS, paper: Paper = PAPER, weight_bits: int = 16) -> Curves:
    """Figure 5: most tokens a second by context, where bandwidth alone limits.

    Args:
        contexts: tokens that have been read.
        paper: the constants.
        weight_bits: of a weight. The paper's 73K tokens need 16; at the 4 of Table 1 it is 18.3K.

    Returns:
        ``tokens``; ``platforms``, rows of ``platform``, ``cache_tok_per_sec`` and ``state_tok_per_sec`` (lists);
        ``halving_tokens`` and ``weight_bytes``.
    """
    weights = weight_bytes(paper.model, weight_bits)
    return {
        "tokens": list(contexts),
        "platforms": [
            {
                "platform": place.name,
                "cache_tok_per_sec": [
                    cache_tok_per_sec(place.bytes_per_sec, weights, paper.llama, tokens) for tokens in contexts
                ],
                "state_tok_per_sec": [state_tok_per_sec(place.bytes_per_sec, weights, paper.model)] * len(contexts),
            }
            for place in paper.platforms
        ],
        "weight_bytes": weights,
        "halving_tokens": halving_tokens(paper.llama, weights),
    }


def trade_off(
    corpora: Sequence[int] = CORPORA, chunks: Sequence[int] = CHUNKS, device: EdgeDevice | None = None
) -> Curves:
    """Figure 6: what states cost to store, and what they save.

    Returns:
        ``corpus_chunks`` with ``text_bytes``, ``state_bytes`` and ``cache_bytes`` of chunks of 512 tokens;
        ``chunk_tokens`` with ``in_context_sec`` and ``inject_sec``, what finding and bringing in adds to a question,
        their ``ratio``, and ``in_context_ttft_sec``, ``inject_ttft_sec`` and ``ttft_ratio`` (ERRATA 5 and 25).
    """
    device = device or paper_device()
    usual = Question()
    asked = [Question(chunk_tokens=tokens) for tokens in chunks]
    reading = [timeline("in-context", device, question) for question in asked]
    injecting = [timeline("inject", device, question) for question in asked]
    pairs = list(zip(reading, injecting, strict=True))
    return {
        "corpus_chunks": list(corpora),
        "text_bytes": [count * usual.stored_bytes("in-context") for count in corpora],
        "state_bytes": [count * usual.stored_bytes("inject") for count in corpora],
        "cache_bytes": [count * usual.stored_bytes("kv-cache") for count in corpora],
        "chunk_tokens": list(chunks),
        "in_context_sec": [line.added_sec for line in reading],
        "inject_sec": [line.added_sec for line in injecting],
        "ratio": [read.added_sec / inject.added_sec for read, inject in pairs],
        "in_context_ttft_sec": [line.first_token_sec for line in reading],
        "inject_ttft_sec": [line.first_token_sec for line in injecting],
        "ttft_ratio": [read.first_token_sec / inject.first_token_sec for read, inject in pairs],
    }
