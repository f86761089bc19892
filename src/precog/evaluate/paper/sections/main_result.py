"""Table 3: the same questions in context, from one injected state and from three, with controls."""

from collections.abc import Mapping
from typing import Any

from precog import figures
from precog.evaluate.paper.findings import Drawing, Findings, Written
from precog.evaluate.paper.printed import MAIN
from precog.evaluate.paper.report import Compared, Grid, Picture, Section
from precog.evaluate.paper.wording import capital, difference, gap_verdict, percent, points, score, seconds

__all__ = ["main_result"]

_MODES = {
    "in_context": "in context",
    "inject_top1": "injected, one state",
    "inject_top3": "injected, mean of three states",
    "none": "control: no context, free answer",
    "mask_only": "control: empty state, mask of the paragraph",
    "other": "control: state of another paragraph, mask of the right one",
}
_ALT = "F1 of reading in context, of injecting one state and three, and of the controls, with intervals."
_RUNS = {
    "squad": "right paragraph given, read once",
    "squad-twice": "right paragraph given, read twice",
    "squad-retrieved": "retrieved from all paragraphs, read once",
    "squad-retrieved-twice": "retrieved from all paragraphs, read twice",
}


def main_result(findings: Findings) -> Written | None:
    """The section; None if SQuAD was not run with the right paragraph given."""
    report = findings.reports.get("squad")
    if report is None:
        return None
    runs = {name: findings.reports[name] for name in _RUNS if name in findings.reports}
    return Written(
        Section(
            "SQuAD: reading against injecting (Table 3)",
            text=(
                f"{report['n']:,} questions of SQuAD v1.1 dev, drawn by seed {report['seed']}, the same in every row. "
                "The paper compares with the question's own paragraph given. Answers are the best span of it by the "
                "model's own scores (the paper samples with top-p 0.9, which nobody can repeat). Intervals: 95 %, by "
                "a bootstrap over questions.",
            ),
            compared=_compared(findings, report),
            grids=[_grid(name, run) for name, run in runs.items()],
            pictures=[Picture("table-3-squad", "Table 3. F1 with 95 % intervals, the paper's beside.", _ALT)],
            notes=_notes(runs),
        ),
        (Drawing("table-3-squad", _picture(report)),),
    )


def _picture(report: Mapping[str, Any]) -> figures.Picture:
    bars = []
    for mode, row in report["modes"].items():
        printed, (low, high) = MAIN.get(mode), row["f1_interval"]
        bars.append(figures.Bar(_MODES[mode], row["f1"], low, high, None if printed is None else printed.f1))
    bars.append(figures.Bar("rule without a model", report["baseline"]["f1"]))
    return figures.BarsWithIntervals("SQuAD v1.1 dev, right paragraph given", "F1", "%", bars)


def _compared(findings: Findings, report: Mapping[str, Any]) -> list[Compared]:
    modes, rows = report["modes"], []
    size = f"{findings.subject.parameters / 1e6:,.0f} M parameters"
    same = percent(report["agreement"]["inject_top1"])
    one = gap_verdict(_gap(report, "in_context"), "injecting", "reading")
    mean = gap_verdict(_negative(_gap(report, "inject_top3")), "the mean of three", "one state")
    reasons = {
        "in_context": f"Another model: {size}, against 1.2 B of the paper; the level is the model's, not the method's.",
        "inject_top1": f"{capital(one)}; the answer string was the same for {same}. The paper's 0.2 F1 are such a "
        "difference, too.",
        "inject_top3": f"{capital(mean)}. A mean of states is no state that any text reaches (inconsistency 10); the "
        "shipped model was trained on one chunk at a time.",
    }
    for mode, printed in MAIN.items():
        row = modes[mode]
        ours = f"{score(row, 'em')} / {score(row, 'f1')}"
        rows.append(Compared(f"{_MODES[mode]}: EM / F1", f"{printed.em} / {printed.f1}", ours, reasons[mode]))
    gap = _gap(report, "in_context")
    rows.append(
        Compared(
            "injected − in context: F1",
            "−0.2",
            difference(gap),
            "Theorem 1 says 0 up to rounding; both answer the same questions, so they are compared in pairs.",
        )
    )
    return rows


def _gap(report: Mapping[str, Any], mode: str) -> dict[str, float]:
    gap: dict[str, float] = report["f1_gain_over"][mode]
    return gap


def _negative(gap: Mapping[str, float]) -> dict[str, float]:
    return {"value": -gap["value"], "low": -gap["high"], "high": -gap["low"]}


def _grid(name: str, report: Mapping[str, Any]) -> Grid:
    rows = []
    for mode, row in report["modes"].items():
        rows.append((
            _MODES[mode],
            score(row, "em"),
            score(row, "f1"),
            points(row["mean_tokens_processed"]),
            seconds(row["mean_latency_sec"]),
        ))  # fmt: skip
    base = report["baseline"]
    rows.append(("rule without a model, right paragraph given", points(base["em"]), points(base["f1"]), "0", "–"))
    return Grid(_RUNS[name], ("mode", "EM", "F1", "tokens read", "time of an answer"), rows)


def _notes(runs: Mapping[str, Mapping[str, Any]]) -> list[str]:
    notes = []
    recall = next((run["recall"] for run in runs.values() if run["recall"]), None)
    if recall:
        told = ", ".join(f"{percent(share)} among {k}" for k, share in recall.items())
        notes.append(f"Retrieval found the right paragraph: {told}.")
    if "squad-twice" in runs:
        once, twice = runs["squad"]["modes"], runs["squad-twice"]["modes"]
        notes.append(
            f"Reading every paragraph twice before its state is kept: F1 {points(twice['inject_top1']['f1'])} against "
            f"{points(once['inject_top1']['f1'])}; in context both readings are paid for at every question."
        )
    return notes
