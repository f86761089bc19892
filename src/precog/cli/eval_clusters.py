"""``precog eval clusters``: sub-clusters built from some conversations, measured on another."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from precog import figures
from precog.cli import options
from precog.cli.output import counted, out, print_json, shown
from precog.cli.progress import Counting
from precog.config import expanded, resolve
from precog.encoders import load_encoder
from precog.evaluate.clusters import ClusterReport, ClusterSettings, evaluate_clusters
from precog.evaluate.utterances import read_spoken
from precog.figures import MapPanel, memory_map
from precog.memory.keyed import sklearn_part
from precog.memory.projection import project
from precog.memory.routing import FITTED_TEMPERATURE, THRESHOLD


def clusters(
    data: Annotated[
        Path, typer.Option(metavar="FILE", help="JSON lines with mission, speaker and text (.gz allowed).")
    ],
    held_out: Annotated[
        str | None,
        typer.Option(metavar="MISSION", help="Routed, not built from; the last of the file when left out."),
    ] = None,
    per_mission: Annotated[int, typer.Option(metavar="N", help="Most utterances of each mission.", min=1)] = 1000,
    limit: Annotated[
        int | None, typer.Option(metavar="N", help="Most utterances routed; as per mission when left out.", min=1)
    ] = None,
    subclusters: Annotated[int, typer.Option(metavar="N", help="Sub-clusters per domain.", min=1)] = 10,
    temperature: Annotated[float, typer.Option(metavar="T", help="Of the routing probability.")] = FITTED_TEMPERATURE,
    threshold: Annotated[
        float, typer.Option(metavar="P", help="Less probable texts go to the others.", min=0.0, max=1.0)
    ] = THRESHOLD,
    seed: options.Seed = 0,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw a map of the domains, as .png or .svg.")
    ] = None,
    encoder: options.Encoder = None,
    as_json: options.Json = False,
) -> int:
    """How far apart sub-clusters lie, and what fits none, on a conversation that they were not built from."""
    sklearn_part("cluster")
    if plot is not None:
        plot = expanded(plot)
        figures.check_target(plot)
    spoken = read_spoken(data)
    settings = ClusterSettings(
        held_out if held_out is not None else spoken[-1].mission,
        per_mission,
        limit,
        subclusters=subclusters,
        temperature=temperature,
        threshold=threshold,
        seed=seed,
    )
    with Counting("utterances") as bar:
        loaded = load_encoder(resolve({"encoder": encoder}).encoder)
        report = evaluate_clusters(
            spoken, loaded, settings, lambda done, total: bar.show(done, total, None if done < total else "grouping")
        )
    drawn = None if plot is None else {"file": str(plot), "ratios": _draw(report, plot)}
    if as_json:
        print_json({**report.to_json(), "plot": drawn})
    else:
        _print(report, plot)
    return 0


def _draw(report: ClusterReport, path: Path) -> dict[str, float | None]:
    """Draw the map; the domains' inter / intra ratios on it, which flatter: t-SNE pulls apart what it draws."""
    panels, ratios = [], {}
    for domain in report.domains:
        points = project(report.keys[domain.rows], seed=report.settings.seed)
        panels.append(MapPanel(domain.name, points, domain.labels, domain.outlines()))
        ratios[domain.name] = domain.ratio_of(points)
    memory_map(panels, path, title=f"{report.settings.held_out}, routed to sub-clusters built from other missions")
    return ratios


def _print(report: ClusterReport, plot: Path | None) -> None:
    held_out = report.settings.held_out
    table = Table("domain", "inter/intra", "by cosine", "random", "utterances", "others", "emerging groups")
    table.title = f"{shown(held_out)}, {counted(len(report.keys), 'utterance')}"
    for domain in report.domains:
        groups = ", ".join(f"{shown(group.name)} ({len(group.member_ids)})" for group in domain.emergent)
        ratios = [
            "–" if ratio is None else f"{ratio:.3f}"
            for ratio in (domain.ratio, domain.cosine_ratio, domain.random_ratio)
        ]
        table.add_row(domain.name, *ratios, f"{len(domain.rows):,}", f"{domain.num_others:,}", groups)
    out.print(table)
    for domain in report.domains:
        counts = sorted(domain.counts.items(), key=lambda entry: -entry[1])
        listed = ", ".join(f"{shown(name)} ({count:,})" for name, count in counts)
        out.print(f"[bold]{domain.name}[/]: {listed}")
    if plot is not None:
        out.print(f"drawn: {shown(str(plot))}")
