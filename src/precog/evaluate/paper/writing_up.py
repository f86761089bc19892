"""Writes a run up: results as JSON, figures with their numbers, and one report as Markdown and HTML."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from precog import figures
from precog.bench.machine import Machine, git_commit, versions
from precog.bench.result import finite
from precog.evaluate.paper.findings import Findings, Written
from precog.evaluate.paper.headlines import headlines
from precog.evaluate.paper.html import html
from precog.evaluate.paper.markdown import markdown
from precog.evaluate.paper.report import Report
from precog.evaluate.paper.sections import SECTIONS
from precog.writing import output_file

__all__ = ["FIGURES", "Paths", "write_up"]

FIGURES = "figures"


@dataclass(frozen=True)
class Paths:
    """What a run has written.

    Attributes:
        html, markdown: the report.
        results: every figure of it as one JSON object.
        figures: folder of pictures, each with its numbers.
    """

    html: Path
    markdown: Path
    results: Path
    figures: Path


def write_up(folder: Path, findings: Findings, made_with: Mapping[str, str]) -> Paths:
    """Write everything that a run has found.

    Args:
        folder: of the run; it exists.
        findings: of the run.
        made_with: what stands at the head of the report, name ▸ words.

    Raises:
        StorageError: something cannot be written.
    """
    paths = Paths(folder / "report.html", folder / "report.md", folder / "results.json", folder / FIGURES)
    written = [found for section in SECTIONS if (found := section(findings)) is not None]
    paths.figures.mkdir(exist_ok=True)
    pictures = {}
    for drawing in (drawing for found in written for drawing in found.drawings):
        for suffix in (".png", ".svg"):
            figures.draw(drawing.picture, paths.figures / f"{drawing.name}{suffix}")
        pictures[drawing.name] = (paths.figures / f"{drawing.name}.svg").read_bytes()
    report = Report("PRECOG: the paper, run again", _summary(findings), made_with, [found.section for found in written])
    _write(paths.results, json.dumps(_results(findings, written), indent=1, ensure_ascii=False) + "\n")
    _write(paths.markdown, markdown(report, FIGURES))
    _write(paths.html, html(report, pictures))
    return paths


def _write(path: Path, text: str) -> None:
    with output_file(path, "report", mode=0o644) as file:
        file.write(text.encode())


def _summary(findings: Findings) -> list[str]:
    told = [
        "Every table and figure of the paper, measured or calculated again: the paper's figure, ours, and why they "
        "differ. Calculations are functions of the printed constants; measurements are made with "
        f"{findings.subject.name}, {findings.subject.parameters:,} parameters, whose states take "
        f"{findings.subject.state_bytes:,} bytes. What needs the authors' silicon is a model in virtual time, and is "
        "called so.",
    ]
    told.append("Words are explained in the last section; inconsistencies are listed by number in the one before.")
    if findings.quick:
        return [
            *told,
            "This was a quick run: few questions, wide intervals. It shows that everything works, and nothing about "
            "quality; run it without --quick and with the whole data sets for that.",
        ]
    return told + headlines(findings)


def _results(findings: Findings, written: list[Written]) -> dict[str, Any]:
    return {
        "experiments": {
            name: {"report": finite(report), "measured": finite(findings.origins.get(name))}
            for name, report in findings.reports.items()
        },
        "comparisons": [
            {"section": found.section.title, **asdict(row)} for found in written for row in found.section.compared
        ],
        "model": findings.subject.to_json(),
        "quick": findings.quick,
        "machine": finite(Machine.here().to_json()),
        "versions": versions(),
        "git_commit": git_commit(),
    }
