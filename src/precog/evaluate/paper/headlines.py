"""The first page: what was found, a sentence each."""

from precog.evaluate.paper.findings import Findings
from precog.evaluate.paper.sections.composition import main_table
from precog.evaluate.paper.wording import gap_verdict, interval, percent, points, score
from precog.plan.claims import claims
from precog.plan.compute import parameters
from precog.plan.paper import PAPER

__all__ = ["headlines"]

PAPER_PARAMETERS = parameters(PAPER.model)


def headlines(findings: Findings) -> list[str]:
    """Sentences of what was found; of what was not run none."""
    return [told for told in (_theorem(findings), _squad(findings), _hotpot(findings), _lengths(findings)) if told] + [
        _calculations()
    ]


def _theorem(findings: Findings) -> str | None:
    report = findings.reports.get("theorem")
    if report is None:
        return None
    rows = report["parts"]["exactness"]["rows"]["given"]
    held = "holds" if report["holds"] else "does not hold in every part"
    return (
        f"Theorem 1 {held}: reading from a state instead of the text moves logits by "
        f"{rows['fp32']['max_abs_logit_error']:.1e} at most (FP32), by {rows['fp16']['max_abs_logit_error']:.1e} with "
        "the "
        "state stored in FP16."
    )


def _squad(findings: Findings) -> str | None:
    report = findings.reports.get("squad")
    if report is None:
        return None
    modes = report["modes"]
    row = modes["inject_top1"]
    told = gap_verdict(report["f1_gain_over"]["in_context"], "injecting", "reading")
    return (
        f"SQuAD, {report['n']:,} questions: F1 {score(row, 'f1')} from injected states "
        f"(the paper: 73.4, with {PAPER_PARAMETERS / findings.subject.parameters:.0f} times the parameters); {told}. "
        f"Without context {points(modes['none']['f1'])}, from the mask alone {points(modes['mask_only']['f1'])}."
    )


def _hotpot(findings: Findings) -> str | None:
    report = findings.reports.get("hotpot")
    if report is None:
        return None
    rows = [row for row in main_table(report)["rows"] if row["decoding"] == "grounded"]
    [alone] = [row for row in rows if row["k"] == 1]
    mean = [row for row in rows if row["rule"] == "mean"]
    best = max(rows, key=lambda row: float(row["f1"]))
    peak = max(mean, key=lambda row: float(row["f1"])) if mean else alone
    return (
        f"Several states: the paper's mean is at its best {points(peak['f1'])} with k = {peak['k']} on HotpotQA, one "
        "state alone "
        f"{points(alone['f1'])}; best of all rules is {best['rule']} with k = {best['k']}: {points(best['f1'])}. The "
        "paper gains 7.5 "
        "F1 from three."
    )


def _lengths(findings: Findings) -> str | None:
    report = findings.reports.get("long")
    if report is None or report["all"] is None:
        return None
    row = report["all"]
    gap = row["gap_whole"]
    return (
        f"Length: over {row['n']:,} questions about documents of up to 3,600 tokens, one state of the whole loses "
        f"{interval(-gap['value'] or 0.0, -gap['high'] or 0.0, -gap['low'] or 0.0)} F1 against reading it in context, "
        "and gives the same answer for "
        f"{percent(row['agreement'])}: the paper's loss of 15 F1 is not injection's."
    )


def _calculations() -> str:
    rows = claims()
    return (
        f"Calculations: of {len(rows)} printed numbers that follow from others, {sum(row.agrees for row in rows)} "
        "come out; "
        "the rest are listed with the reason."
    )
