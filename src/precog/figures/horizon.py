"""A model's memory: how far the gates reach in each layer, and how long a fact keeps its influence on the logits."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from precog.errors import InputError
from precog.figures.canvas import BLUE, GREEN, INK, VERMILION, key_below, picture, plain, whole_numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Row = Mapping[str, float | int]


def horizon(
    layers: Sequence[Row],
    influence: Sequence[Row],
    path: Path,
    *,
    title: str,
    least_share: float,
    proposed_chunk_tokens: int,
) -> None:
    """Draw medians with the band from the 10 % to the 90 % quantile.

    Args:
        layers: ``layer``, ``q10``, ``q50``, ``q90`` in tokens; empty for a model that shows no gates.
        influence: ``distance`` in tokens, and ``q10``, ``q50``, ``q90``: shares of the influence at distance 1;
            ``recall``, the share of facts told right, is drawn where it is there.
        path: a .png or .svg file.
        title: stands over the picture.
        least_share: the share that the proposal holds the median to.
        proposed_chunk_tokens: marked in both panels.

    Raises:
        InputError: there is nothing to draw.
        UsageError: another suffix, or matplotlib is not installed.
        StorageError: the file cannot be written; nothing is left of it.
    """
    if not influence:
        raise InputError("there is no influence to draw", given="0 distances", expected="at least one")
    num_panels = 2 if layers else 1
    chunk = f"proposed chunk: {proposed_chunk_tokens} tokens"
    with picture(path, num_panels, title=title, width_inches=0.6 + 5.2 * num_panels, height_inches=4.8) as axes:
        if layers:
            gates = axes[0]
            numbers = [row["layer"] for row in layers]
            _band(gates, numbers, layers, BLUE, "o")
            gates.axhline(proposed_chunk_tokens, label=chunk, color=INK, linestyle=":", linewidth=1.2)
            gates.set_yscale("log")
            gates.set(title="gates", xlabel="layer", ylabel="tokens until memory is 1/e")
            whole_numbers(gates)
            gates.yaxis.set_major_formatter(plain)
            key_below(gates, num_columns=2)
        curve = axes[-1]
        distances = [row["distance"] for row in influence]
        _band(curve, distances, influence, VERMILION, "o")
        if all("recall" in row for row in influence):
            recall = [row["recall"] for row in influence]
            curve.plot(
                distances, recall, color=GREEN, linestyle="--", marker="s", markersize=4, label="facts told right"
            )
        curve.axhline(least_share, label=f"least median: {least_share:g}", color=INK, linestyle="-.", linewidth=1.2)
        curve.axvline(proposed_chunk_tokens, label=chunk, color=INK, linestyle=":", linewidth=1.2)
        curve.set_xscale("log", base=2)
        curve.xaxis.set_major_formatter(plain)
        curve.set_ylim(bottom=0)
        curve.set(title="influence on the logits", xlabel="distance [tokens]", ylabel="share of that at distance 1")
        key_below(curve, num_columns=2)


def _band(panel: "Axes", places: Sequence[float | int], rows: Sequence[Row], colour: str, marker: str) -> None:
    low, middle, high = ([row[name] for row in rows] for name in ("q10", "q50", "q90"))
    panel.fill_between(places, low, high, color=colour, alpha=0.18, linewidth=0, label="10 % to 90 %")
    panel.plot(places, middle, color=colour, marker=marker, markersize=4, label="median")
