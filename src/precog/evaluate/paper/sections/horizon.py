"""Appendix B: how far back the model remembers."""

import statistics
from collections.abc import Mapping
from typing import Any

from precog import figures
from precog.evaluate.paper.findings import Drawing, Findings, Written
from precog.evaluate.paper.printed import MEMORY_TOKENS
from precog.evaluate.paper.report import Compared, Grid, Picture, Section
from precog.evaluate.paper.wording import percent, points

__all__ = ["horizon"]


def horizon(findings: Findings) -> Written | None:
    """The section; None if the horizon was not measured."""
    report = findings.reports.get("horizon")
    if report is None:
        return None
    layers, influence = report["layers"], report["influence"]
    compared = []
    if layers:
        low, high = (points(statistics.median(row["to_one_percent"][q] for row in layers), 0) for q in ("q10", "q90"))
        middle = points(statistics.median(row["to_one_percent"]["q50"] for row in layers), 0)
        compared.append(
            Compared(
                "tokens until a coordinate has forgotten all but 1 %",
                f"about {MEMORY_TOKENS} (until 0.1 %)",
                f"{middle}; tenth to ninetieth percentile {low} to {high}",
                "Quantiles over coordinates, medians of the layers: one number hides that horizons differ a "
                "thousandfold. "
                "The paper compares a product of vectors with a scalar (inconsistency 30).",
            )
        )
    tokens = report["horizon_tokens"]["influence"]
    furthest = influence[-1]
    compared.append(
        Compared(
            "tokens until a fact's influence on the logits has fallen to 1/e",
            f"about {MEMORY_TOKENS}",
            points(tokens, 0) if tokens else f"more than {furthest['distance']:,}",
            "Measured on what answers depend on: made facts, and the same text read after them. The gates alone say "
            "nothing about what the layers above do with a coordinate (inconsistency 21).",
        )
    )
    rows = [
        (f"{r['distance']:,}", *(points(r[q], 2) for q in ("q10", "q50", "q90")), percent(r["recall"]))
        for r in influence
    ]
    columns = ("distance in tokens", "10 %", "median", "90 %", "facts told right")
    notes = [f"Chunk length that follows: {report['proposed_chunk_tokens']} tokens ({report['rule']})."]
    return Written(
        Section(
            "Memory horizon (appendix B)",
            compared=compared,
            grids=[Grid("influence on the logits, as a share of that at distance 1", columns, rows)],
            notes=notes,
            pictures=[
                Picture(
                    "memory-horizon",
                    "Influence of a fact on the logits by distance: median, and the band from 10 % to 90 %.",
                    "Influence and told facts over distance; the chunk length that is proposed is marked.",
                )
            ],
        ),
        (Drawing("memory-horizon", _picture(report)),),
    )


def _picture(report: Mapping[str, Any]) -> figures.Picture:
    rows = report["influence"]
    xs = [row["distance"] for row in rows]
    low, middle, high = ([row[key] for row in rows] for key in ("q10", "q50", "q90"))
    line = figures.Line("influence, median", xs, middle, low, high)
    told = figures.Line("facts told right", xs, [row["recall"] for row in rows])
    proposed = report["proposed_chunk_tokens"]
    chunk = figures.Level(f"proposed chunk: {proposed} tokens", x=proposed)
    x, y = figures.Axis("distance in tokens", "", "log"), figures.Axis("share", origin=True)
    return figures.Curves("Memory horizon", [figures.Panel("influence on the logits", x, y, [line, told], (), [chunk])])
