"""Table 8: passages of every length, as one state and as the best of several chunks."""

from collections.abc import Mapping
from typing import Any

from precog import figures
from precog.evaluate.paper.findings import Drawing, Findings, Written
from precog.evaluate.paper.printed import CHUNK_LENGTH
from precog.evaluate.paper.report import Compared, Grid, Picture, Section
from precog.evaluate.paper.wording import counted, difference, percent, points, score

__all__ = ["lengths"]

NQ = "Natural Questions"


def lengths(findings: Findings) -> Written | None:
    """The section; None if neither was measured."""
    nq, long = findings.reports.get("nq"), findings.reports.get("long")
    if nq is None and long is None:
        return None
    grids = []
    if nq is not None:
        grids.append(_grid("Natural Questions, by tokens of the passage", _measured(nq), _shares(nq)))
    if long is not None:
        grids.append(_grid("documents made of paragraphs of one SQuAD article, by tokens", long["bins"]))
        grids.append(_grid("the same documents, by tokens after the question's paragraph", long["distances"]))
    return Written(
        Section(
            "Length of what is read (Table 8, appendix B)",
            text=(
                "Every question is answered three ways: reading passage and question in one pass, from one state of "
                "the "
                "whole passage, and from the state of its best chunk, cut and found as precog index does. The first "
                "two "
                "are the same computation at every length (Theorem 1); both fall with length, and that fall is the "
                "model's memory. The third is another question: whether the right chunk was found.",
            ),
            compared=[
                *_compared(NQ, _measured(nq or {})),
                *_compared("long documents", (long or {}).get("bins", {})),
            ],
            grids=grids,
            pictures=[
                Picture(
                    "table-8-length",
                    "Table 8. F1 by length: in context and from one state of the whole lie on each other, and fall "
                    "together; dashed: the paper.",
                    "F1 over tokens of the passage, in context, from one state, and from the best chunk.",
                )
            ],
        ),
        (Drawing("table-8-length", _picture(_measured(nq or {}), (long or {}).get("bins", {}))),),
    )


_PLACES = {"<100": 70, "[100,300)": 180, "[300,600)": 430, "[600,1200)": 850, "[1200,2400)": 1700, ">=2400": 3000}
"""Where the paper's bins are drawn, whose mean lengths it does not print."""


def _picture(nq: Mapping[str, Any], long: Mapping[str, Any]) -> figures.Picture:
    tokens, f1 = figures.Axis("tokens of the passage", "", "log"), figures.Axis("F1", "%", origin=True)
    ways = {"in_context": "in context", "whole": "one state", "chunked": "best chunk"}
    printed = [
        figures.Line("in context", list(_PLACES.values()), [CHUNK_LENGTH[name].in_context for name in _PLACES]),
        figures.Line("one state", list(_PLACES.values()), [CHUNK_LENGTH[name].inject for name in _PLACES]),
    ]
    panels = []
    for title, bins, paper in (("Natural Questions", nq, printed), ("SQuAD articles", long, [])):
        rows = [row for row in bins.values() if row is not None]
        if rows:
            xs = [row["mean_tokens"] for row in rows]
            lines = [figures.Line(name, xs, [row[way]["f1"] for row in rows]) for way, name in ways.items()]
            panels.append(figures.Panel(title, tokens, f1, lines, paper))
    return figures.Curves("Length of what is read", panels)


def _measured(report: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row["measured"] for name, row in report.get("bins", {}).items()}


def _shares(report: Mapping[str, Any]) -> dict[str, float]:
    return {name: row["share"] for name, row in report["bins"].items()}


def _compared(data: str, bins: Mapping[str, Any]) -> list[Compared]:
    rows = []
    of = "" if data == NQ else f", of {NQ}"
    for name, printed in CHUNK_LENGTH.items():
        row = bins.get(name)
        what = f"{data}, {name} tokens: F1 injected / in context"
        paper = f"{printed.inject} / {printed.in_context} (gap {printed.inject - printed.in_context:+.1f}){of}"
        if row is None:
            if bins:
                rows.append(
                    Compared(what, paper, "no passage", "No passage of the data is as long as that, and no longer.")
                )
            continue
        whole, chunked = row["gap_whole"], row["gap_chunked"]
        told = difference(whole)
        chunk_told = difference(chunked)
        rows.append(
            Compared(
                what,
                paper,
                f"{points(row['whole']['f1'])} / {points(row['in_context']['f1'])} (gap {told}), "
                f"{counted(row['n'], 'question')}",
                f"{percent(row['agreement'])} of the answers are word for word the same. From the best chunk alone: F1 "
                f"{points(row['chunked']['f1'])}, a gap of retrieval of {chunk_told} (inconsistency 9).",
            )
        )
    return rows


def _grid(title: str, bins: Mapping[str, Any], shares: Mapping[str, float] | None = None) -> Grid:
    columns = [
        "tokens",
        "questions",
        "in context F1",
        "one state F1",
        "gap",
        "same answers",
        "best chunk F1",
        "gap of retrieval",
    ]
    rows = []
    for name, row in bins.items():
        if row is None:
            continue
        gaps = [difference(row[key]) for key in ("gap_whole", "gap_chunked")]
        cells = [
            name,
            f"{row['n']:,}",
            score(row["in_context"], "f1"),
            points(row["whole"]["f1"]),
            gaps[0],
            percent(row["agreement"]),
            points(row["chunked"]["f1"]),
            gaps[1],
        ]
        rows.append([*cells, *([] if shares is None else [percent(shares[name])])])
    return Grid(title, [*columns, *([] if shares is None else ["share of the file"])], rows)
