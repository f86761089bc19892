"""Table 6: which layers are injected; answers against bytes; the temperature of a mean."""

from collections.abc import Mapping
from typing import Any

from precog import figures
from precog.evaluate.depth import paper_shares
from precog.evaluate.paper.findings import Drawing, Findings, Written
from precog.evaluate.paper.printed import DEPTH
from precog.evaluate.paper.report import Compared, Grid, Picture, Section
from precog.evaluate.paper.wording import difference, points, score, size

__all__ = ["layers"]


def layers(findings: Findings) -> Written | None:
    """The section; None if none of the three was run."""
    reports = {name: findings.reports.get(name) for name in ("depth", "pareto", "temperature")}
    depth, pareto, temperature = reports.values()
    if depth is None and pareto is None and temperature is None:
        return None
    grids = [
        *([] if depth is None else [_depth_grid(depth)]),
        *([] if pareto is None else [_pareto_grid(pareto)]),
        *([] if temperature is None else [_temperature_grid(temperature)]),
    ]
    drawn = [
        *([] if depth is None else [_depth_picture(depth)]),
        *([] if pareto is None else [_pareto_picture(pareto)]),
    ]
    return Written(
        Section(
            "Injection depth, bytes and temperature (Table 6, section 4.4)",
            compared=[] if depth is None else _compared(depth),
            grids=grids,
            pictures=[picture for picture, _ in drawn],
        ),
        tuple(drawing for _, drawing in drawn),
    )


def _depth_picture(report: Mapping[str, Any]) -> tuple[Picture, Drawing]:
    found = report["rows"]
    bars = []
    for share, name in paper_shares(found["all"]["num_layers"]).items():
        if name in found:
            low, high = found[name]["f1_interval"]
            bars.append(figures.Bar(share, found[name]["f1"], low, high, DEPTH[share].f1))
    return (
        Picture(
            "table-6-depth",
            "Table 6. F1 by the share of layers whose state is injected, with 95 % intervals; hollow: the paper.",
            "A bar for each share of the layers, with its interval and the paper's value.",
        ),
        Drawing("table-6-depth", figures.BarsWithIntervals("Which layers are injected", "F1", "%", bars)),
    )


def _pareto_picture(report: Mapping[str, Any]) -> tuple[Picture, Drawing]:
    points = [
        figures.ParetoPoint(name, row["state_bytes"], row["f1"], row["codec"], row["layers"])
        for name, row in report["rows"].items()
    ]
    return (
        Picture(
            "states-f1-by-bytes",
            "F1 against the bytes of a state: codec by layers; the line joins those that none beats.",
            "Points of codecs and layer subsets with the frontier of those that none beats.",
        ),
        Drawing("states-f1-by-bytes", figures.Pareto("Answers against bytes", "F1", "%", points)),
    )


def _compared(report: Mapping[str, Any]) -> list[Compared]:
    rows, found = [], report["rows"]
    whole = found["all"]
    for share, name in paper_shares(whole["num_layers"]).items():
        row = found.get(name)
        if row is None:
            continue
        printed = DEPTH[share]
        gain = row["f1_gain"]
        lost = difference(gain)
        paper_lost = printed.f1 - DEPTH["all"].f1
        why = "The others are compared with it."
        if name == "none":
            why = "Grounded answers from an empty state: what the mask alone gives away. The paper decodes freely."
        elif name != "all":
            why = f"ΔF1 {lost}; the paper's {paper_lost:+.1f}. Layers that are left out start empty."
        rows.append(
            Compared(
                f"{share} ({row['num_layers']} of {whole['num_layers']} layers, {size(row['state_bytes'])}): EM / F1",
                f"{printed.em} / {printed.f1}",
                f"{points(row['em'])} / {score(row, 'f1')}",
                why,
            )
        )
    halves = {key: found[paper_shares(whole["num_layers"])[key]] for key in ("bottom 1/2", "top 1/2", "alternate")}
    best = max(halves, key=lambda key: halves[key]["f1"])
    rows.append(
        Compared(
            "half of the layers: which half answers best",
            "bottom (72.5), alternate (70.0), top (65.0)",
            ", ".join(f"{key} ({points(row['f1'])})" for key, row in sorted(halves.items(), key=lambda e: -e[1]["f1"])),
            "As in the paper." if best == "bottom 1/2" else f"Another model: here {best} is best.",
        )
    )
    return rows


def _depth_grid(report: Mapping[str, Any]) -> Grid:
    rows = [
        (
            name,
            f"{row['num_layers']}",
            f"{row['state_bytes']:,}",
            points(row["em"]),
            score(row, "f1"),
        )
        for name, row in report["rows"].items()
    ]
    columns = ("layers", "number", "bytes", "EM", "F1")
    return Grid(f"injected layers, {report['n']:,} questions of SQuAD, right paragraph", columns, rows)


def _pareto_grid(report: Mapping[str, Any]) -> Grid:
    rows = [
        (
            row["codec"],
            row["layers"],
            f"{row['state_bytes']:,}",
            points(row["em"]),
            score(row, "f1"),
            difference(row["f1_gain"]),
            "yes" if row["on_front"] else "",
        )
        for row in report["rows"].values()
    ]
    columns = ("codec", "layers", "bytes", "EM", "F1", f"ΔF1 to {report['against']}", "none better in as few bytes")
    return Grid(f"codec by layers, {report['n']:,} questions", columns, rows)


def _temperature_grid(report: Mapping[str, Any]) -> Grid:
    rows = [
        (
            "best state alone" if row["temperature"] is None else f"{row['temperature']:g}",
            points(row["mean_top_weight"], 2),
            points(row["em"]),
            score(row, "f1"),
            difference(row["f1_gain"]),
        )
        for row in report["rows"].values()
    ]
    columns = ("temperature", "weight of the best", "EM", "F1", "ΔF1 to 1, the paper's")
    return Grid(f"mean of three states, {report['n']:,} questions (inconsistency 11)", columns, rows)
