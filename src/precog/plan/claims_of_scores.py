"""Numbers that the paper takes from its own scores: differences, shares, and the storage of fewer layers."""

from precog.plan.claim import Claim, claim
from precog.plan.claim_reasons import bound
from precog.plan.latency import injection_overhead_sec, prefill_sec
from precog.plan.paper import Paper
from precog.plan.storage import state_bytes

DEPTHS = (("all_24", 24, "192 KB"), ("bottom_18", 18, "144 KB"), ("bottom_12", 12, "96 KB"), ("bottom_6", 6, "48 KB"),
          ("top_12", 12, "96 KB"), ("top_6", 6, "48 KB"), ("alternate", 12, "96 KB"), ("none", 0, "0 KB"))  # fmt: skip
"""Table 6: configuration, layers of 24, storage as printed."""
DELTAS = ((2, "+6.0"), (3, "+7.5"), (5, "+5.0"), (10, "+1.0"))
"""Table 7: k and the gain over k = 1 as printed."""
GAPS = (("<100", "0.0"), ("100–299", "0.0"), ("300–599", "-0.5"), ("600–1199", "-3.5"), ("1200–2399", "-8.0"),
        ("2400 and more", "-15.0"))  # fmt: skip
"""Table 8: tokens and the gap as printed."""

_GAP = "By Theorem 1 one state of a whole passage has no gap; this one is of retrieval among chunks (inconsistency 9)."


def claims_of_scores(paper: Paper) -> list[Claim]:
    """Rows of section 6 and appendix G whose inputs are the paper's scores."""
    scores, edge = paper.answers, paper.edge
    whole = scores.top1[1]
    rows = [
        claim("Section 6", "EM, in-context less top-1", "0.2", scores.in_context[0] - scores.top1[0]),
        claim("Section 6", "F1, in-context less top-1", "0.2", scores.in_context[1] - scores.top1[1]),
        claim("Section 6", "F1, top-1 less top-3", "1.6", scores.top1[1] - scores.top3),
        claim("Section 6", "prefill in context", "~27 s", prefill_sec(edge.chunk_tokens, edge.tok_per_sec), "s"),
        claim("Section 6", "prefill with a state injected", "<6 ms", injection_overhead_sec(edge), "ms", bound(paper)),
    ]
    for name, layers, printed in DEPTHS:
        kept = round(layers / 24 * paper.model.layers)
        rows.append(claim("Table 6", f"storage of {name}", printed, state_bytes(paper.model, kept), "KB"))
    lost = whole - scores.bottom_12
    rows += [
        claim("Appendix G.1", "F1 that bottom_12 keeps", "99 %", 100 * scores.bottom_12 / whole, "%"),
        claim(
            "Appendix G.1", "F1 that bottom_12 loses is below FP16 noise", "<0.2", lost, "",
            "The noise the paper reports is 0.2 F1 (Table 3); what bottom_12 loses is more (inconsistency 26).",
        ),
        claim("Appendix G.1", "F1, bottom_12 less top_12", "8", scores.bottom_12 - scores.top_12),
        claim("Appendix G.1", "F1, top_12 less top_6", "7", scores.top_12 - scores.top_6),
        claim("Appendix G.1", "F1, all layers less top_6", "15+", whole - scores.top_6),
        claim("Appendix G.1", "F1, bottom_12 over alternate", ">0", scores.bottom_12 - scores.alternate),
    ]  # fmt: skip
    first, *others = scores.composed_f1
    for (k, printed), f1 in zip(DELTAS, others, strict=True):
        rows.append(claim("Table 7", f"F1 gained, k = {k} over k = 1", printed, f1 - first))
    for (tokens, printed), chunked, read in zip(GAPS, scores.chunked_f1, scores.whole_f1, strict=True):
        why = "" if float(printed) == 0 else _GAP
        rows.append(claim("Table 8", f"F1 gap, {tokens} tokens", printed, chunked - read, "", why))
    rows.append(claim("Table 8", "examples of all lengths", "100 %", sum(scores.shares), "%", "The shares add up."))
    return rows
