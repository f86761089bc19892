"""``precog horizon``: how far back a model remembers, and the chunk length that follows."""

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn

from precog import figures
from precog.backbones.registry import load_backbone
from precog.cli import options
from precog.cli.output import out, print_json, shown
from precog.cli.progress import Bar
from precog.config import expanded, resolve
from precog.engine.horizon import LEAST_SHARE, Horizon, HorizonSettings, measure_horizon
from precog.errors import InputError
from precog.text.document import document_text
from precog.text.loading import load_document
from precog.text.sample import sample_text
from precog.text.sources import find_sources

_MOST_CHARACTERS = 1 << 20  # no later document is opened: more text than the samples of a long run need
_DEFAULTS = HorizonSettings()


def horizon(
    model: options.Model = None,
    text: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH",
            help="Text to read: a file or folder; may be given again.  \\[default: a sample in English]",
            show_default=False,
        ),
    ] = None,
    samples: Annotated[int, typer.Option(metavar="N", help="Made facts, each asked for at every distance.")] = (
        _DEFAULTS.samples
    ),
    distance: Annotated[int, typer.Option(metavar="N", help="Longest distance in tokens.")] = (
        _DEFAULTS.longest_distance
    ),
    trained_tokens: Annotated[
        int, typer.Option(metavar="N", help="Longest chunk the model was trained on; nothing longer is proposed.")
    ] = _DEFAULTS.trained_tokens,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw it, as .png or .svg.", show_default=False)
    ] = None,
    seed: options.Seed = _DEFAULTS.seed,
    device: options.Device = None,
    threads: options.Threads = None,
    as_json: options.Json = False,
) -> int:
    """Measure how far back a model remembers, and propose a chunk length.

    From its gates, layer by layer; and by what a made fact still weighs in the logits when it is asked for after so
    many tokens of other text. Takes about a minute on two cores.
    """
    settings = HorizonSettings(samples, distance, trained_tokens, seed)
    if plot is not None:
        plot = expanded(plot)
        figures.check_target(plot)
    resolved = resolve({"model": model, "device": device, "threads": threads})
    texts = _read(text)
    with _Reading() as bar:
        backbone = load_backbone(resolved.model, device=resolved.device, threads=resolved.threads)
        token_ids = [token_id for part in texts for token_id in backbone.tokenizer.encode(part)]
        found = measure_horizon(backbone, token_ids, settings, bar.advance)
    report = found.to_json()
    if plot is not None:
        _draw(found, plot)
    if as_json:
        print_json({**report, "plot": None if plot is None else str(plot)})
    else:
        _print(found, plot)
    return 0


def _read(paths: list[str] | None) -> list[str]:
    if not paths:
        return [sample_text()]
    sources = find_sources(paths).sources
    if not sources:
        raise InputError("there is nothing to read", given=", ".join(paths))
    texts: list[str] = []
    for source in sources:
        texts.append(document_text(load_document(source)))
        if sum(map(len, texts)) >= _MOST_CHARACTERS:
            break
    return texts


def _draw(found: Horizon, path: Path) -> None:
    layers = found.gates.layers if found.gates is not None else ()
    figures.horizon(
        [{"layer": row.layer, **row.tokens.to_json()} for row in layers],
        [{"distance": row.distance, **row.share.to_json(), "recall": row.recall} for row in found.influence],
        path,
        title=f"Memory of {found.model}",
        least_share=LEAST_SHARE,
        proposed_chunk_tokens=found.proposed_chunk_tokens,
    )


class _Reading(Bar):
    """Tokens read so far, on stderr; nothing where stderr is no terminal."""

    def __init__(self) -> None:
        super().__init__(
            "loading the model",
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
        )

    def advance(self, done: int, total: int) -> None:
        """So many tokens of so many are read."""
        self._bar.update(self._task, description="reading", completed=done, total=total)


def _print(found: Horizon, plot: Path | None) -> None:
    out.print(f"[bold]{shown(found.model)}[/]")
    if found.gates is not None:
        out.print("tokens until the gates leave 1/e (exact for layer 1; above, given each layer's inputs)")
        out.print(f"  {'layer':>9} {'10 %':>10} {'50 %':>10} {'90 %':>10}", style="dim")
        for layer in found.gates.layers:
            q = layer.tokens
            out.print(f"  {layer.layer:>9} {q.q10:>10,.1f} {q.q50:>10,.1f} {q.q90:>10,.1f}")
        if found.gates.beyond_text:
            beyond = 100 * found.gates.beyond_text
            out.print(f"  {beyond:.0f} % of them are longer than the text read, and continued at its mean", style="dim")
    out.print("influence of a fact on the logits, as a share of that at distance 1; facts told right")
    out.print(f"  {'tokens':>9} {'10 %':>10} {'50 %':>10} {'90 %':>10} {'right':>10}", style="dim")
    for row in found.influence:
        q = row.share
        out.print(f"  {row.distance:>9,} {q.q10:>10.2f} {q.q50:>10.2f} {q.q90:>10.2f} {100 * row.recall:>10.0f} %")
    gates = "–" if found.gates is None else f"{found.gates.median_tokens:,.0f}"
    furthest = found.influence[-1].distance
    by_influence = f"{found.influence_tokens:,.0f}" if found.influence_tokens is not None else f"more than {furthest:,}"
    out.print(f"horizon to 1/e: {gates} tokens by the gates, {by_influence} by influence")
    out.print(f"[bold]proposed chunk length: {found.proposed_chunk_tokens} tokens[/]")
    out.print(f"  {found.rule}", style="dim")
    if plot is not None:
        out.print(f"drawn: {shown(str(plot))}")
