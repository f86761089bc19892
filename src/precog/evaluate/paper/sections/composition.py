"""Table 7: several states at once, for questions that need two paragraphs."""

from collections.abc import Mapping
from typing import Any

from precog import figures
from precog.evaluate.paper.findings import Drawing, Findings, Written
from precog.evaluate.paper.printed import TOP_K
from precog.evaluate.paper.report import Compared, Grid, Picture, Section
from precog.evaluate.paper.wording import difference, percent, points, score

__all__ = ["composition", "main_table"]

PAPER_RULE = "mean"
BEST = "best"


def composition(findings: Findings) -> Written | None:
    """The section; None if it was not measured."""
    report = findings.reports.get("hotpot")
    if report is None:
        return None
    tables = report["tables"]
    main = main_table(report)
    return Written(
        Section(
            "Several states at once: HotpotQA (Table 7)",
            text=(
                f"{report['n']:,} questions with ten paragraphs each, of which {main['num_yes_no']:,} are answered "
                "yes or "
                "no; a grounded answer is a span and cannot say either, so that scores are told with and without them. "
                f"Paragraphs: {_settings(tables)}.",
            ),
            compared=_compared(main),
            grids=[_grid(name, table) for name, table in tables.items()],
            notes=[
                "mean is the paper's softmax average of states (T = 1; @T another temperature); mix averages "
                "probabilities over one branch per state; replay reads all but one of the texts again; concat and "
                "permute "
                "follow the decay of the states (permute is the rule of PICASO, which needs no training; inconsistency "
                "18)."
            ],
            pictures=[
                Picture(
                    "table-7-several-states",
                    "Table 7. F1 and recall by the number of states; dashed: the paper.",
                    "F1 by number of states for every rule, and recall of any and of all supporting paragraphs.",
                )
            ],
        ),
        (Drawing("table-7-several-states", _picture(main)),),
    )


def _picture(table: Mapping[str, Any]) -> figures.Picture:
    places = sorted({row["k"] for row in table["rows"]})
    [alone] = [row["f1"] for row in _rows(table, 1).values()]
    by_rule: dict[str, list[tuple[int, float]]] = {}
    for k in places[1:]:
        for rule, row in _rows(table, k).items():
            by_rule.setdefault(rule, [(1, alone)]).append((k, row["f1"]))
    k_axis = figures.Axis("states, k", "", "log")
    lines = [figures.Line(rule, [k for k, _ in curve], [f1 for _, f1 in curve]) for rule, curve in by_rule.items()]
    printed = figures.Line(PAPER_RULE, list(TOP_K), [row.f1 for row in TOP_K.values()])
    panels = [figures.Panel("answers", k_axis, figures.Axis("F1", "%", origin=True), lines, [printed])]
    recall = table["recall"]
    if recall["n"]:
        found = [
            figures.Line(name, places, [100 * recall[key][str(k)] for k in places])
            for name, key in (("both found", "recall_all"), ("any found", "recall_any"))
        ]
        paper = figures.Line("both found", list(TOP_K), [100 * row.recall for row in TOP_K.values()])
        panels.append(figures.Panel("retrieval", k_axis, figures.Axis("questions", "%", origin=True), found, [paper]))
    return figures.Curves("Several states at once, HotpotQA", panels)


def main_table(report: Mapping[str, Any]) -> Mapping[str, Any]:
    """The table of all questions, whatever their setting."""
    tables: Mapping[str, Mapping[str, Any]] = report["tables"]
    return tables.get("all", next(iter(tables.values())))


def _settings(tables: Mapping[str, Any]) -> str:
    return ", ".join(f"{table['n']:,} {name}" for name, table in tables.items() if name != "all")


def _rows(table: Mapping[str, Any], k: int) -> dict[str, Mapping[str, Any]]:
    return {row["rule"]: row for row in table["rows"] if row["k"] == k and row["decoding"] == "grounded"}


def _compared(table: Mapping[str, Any]) -> list[Compared]:
    found = []
    recall = table["recall"]
    for k, printed in TOP_K.items():
        rows = _rows(table, k)
        row = rows.get(BEST if k == 1 else PAPER_RULE)
        if row is None:
            continue
        spans = row["without_yes_no"]
        ours = f"{points(row['em'])} / {score(row, 'f1')}"
        ours += "" if spans is None else f"; spans only {points(spans['f1'])}"
        why = "Another model, trained on questions about one paragraph."
        if k > 1:
            gain = row["f1_gain"]
            told = difference(gain)
            other, better = max(rows.items(), key=lambda entry: float(entry[1]["f1"]))
            why = f"ΔF1 to k = 1: {told}; the paper's {printed.f1 - TOP_K[1].f1:+.1f}."
            why += "" if other == PAPER_RULE else f" Best rule here: {other} with F1 {points(better['f1'])}."
        found.append(Compared(f"k = {k}, mean: EM / F1", f"{printed.em} / {printed.f1}", ours, why))
        if recall["n"]:
            both, anyone = recall["recall_all"][str(k)], recall["recall_any"][str(k)]
            why = (
                "Of both supporting paragraphs one cannot be both."
                if k == 1
                else "Hybrid retrieval over ten paragraphs."
            )
            found.append(
                Compared(
                    f"k = {k}: recall of all / of any supporting paragraph",
                    f"{percent(printed.recall, 0)} (called: both)",
                    f"{percent(both)} / {percent(anyone)}",
                    f"{why}{' (inconsistency 17)' if k == 1 else ''}",
                )
            )
    return found


def _grid(name: str, table: Mapping[str, Any]) -> Grid:
    rows = [
        (
            f"{row['k']}",
            row["rule"] + ("" if row["decoding"] == "grounded" else f", {row['decoding']}"),
            "exact" if row["exact"] else "approximate",
            points(row["em"]),
            score(row, "f1"),
            "–" if row["without_yes_no"] is None else points(row["without_yes_no"]["f1"]),
            difference(row["f1_gain"]),
            points(row["mean_tokens_processed"], 0),
        )
        for row in table["rows"]
    ]
    columns = ("k", "rule", "context is", "EM", "F1", "F1 of spans", "ΔF1 to k = 1", "tokens read")
    return Grid(f"{name}, {table['n']:,} questions", columns, rows)
