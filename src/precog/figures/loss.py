"""The course of a training run: losses over steps, as the run wrote them down."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from precog.errors import InputError
from precog.figures.canvas import COLOURS, DASHES, key_below, picture, whole_numbers

_PARTS = ("context", "question", "answer", "grounded")
_UNIT = "cross-entropy [nat per token]"

Line = Mapping[str, object]
Curve = list[tuple[float, float]]


def loss_curve(metrics: Sequence[Line], path: Path) -> None:
    """Draw training losses and, where there are any, held-out values over the steps of a run.

    A step that was run twice (after an interruption) counts as it ended; values that are not finite, and parts that
    are zero throughout, are left out.

    Args:
        metrics: lines of ``metrics.jsonl``: ``step`` with ``loss`` and its parts, or with ``evaluation``.
        path: a .png or .svg file.

    Raises:
        InputError: no line has a step and a finite loss or evaluation.
        UsageError: another suffix, or matplotlib is not installed.
        StorageError: the file cannot be written; nothing is left of it.
    """
    loss = _curve(metrics, ("loss",))
    parts = {name: _curve(metrics, (name,)) for name in _PARTS}
    parts = {name: curve for name, curve in parts.items() if any(value for _, value in curve)}
    held_out = _evaluations(metrics)
    if not loss and not held_out:
        raise InputError(
            "there is no loss to draw", given=f"{len(metrics)} lines", expected="step with loss or evaluation"
        )
    panels = [
        (curves, title)
        for curves, title in (({"loss": loss, **parts}, "training"), (held_out, "held out"))
        if any(curves.values())
    ]
    with picture(path, len(panels), title="Training", width_inches=0.6 + 5.2 * len(panels), height_inches=4.8) as axes:
        for panel, (curves, title) in zip(axes, panels, strict=True):
            for number, (name, curve) in enumerate(entry for entry in curves.items() if entry[1]):
                steps, values = zip(*curve, strict=True)
                few = len(curve) <= 12
                panel.plot(
                    steps,
                    values,
                    label=name,
                    color=COLOURS[number % len(COLOURS)],
                    linestyle=DASHES[number % len(DASHES)],
                    marker="o" if few else None,
                    markersize=4,
                )
            panel.set(title=title, xlabel="step", ylabel=_UNIT)
            whole_numbers(panel)
            key_below(panel, num_columns=3)


def _curve(metrics: Sequence[Line], keys: Sequence[str]) -> Curve:
    """One value over the steps, in their order; the last line of a step counts."""
    found: dict[float, float] = {}
    for line in metrics:
        value: object = line
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        step = line.get("step")
        if _is_finite(value) and _is_finite(step):
            found[float(str(step))] = float(str(value))
    return sorted(found.items())


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _evaluations(metrics: Sequence[Line]) -> dict[str, Curve]:
    """Held-out values by name; those of a split are named ``split: value``."""
    paths: dict[tuple[str, ...], None] = {}

    def walk(value: object, keys: tuple[str, ...]) -> None:
        if isinstance(value, Mapping):
            for key, inner in value.items():
                walk(inner, (*keys, str(key)))
        elif _is_finite(value):
            paths[keys] = None

    for line in metrics:
        walk(line.get("evaluation"), ("evaluation",))
    return {": ".join(keys[1:]): _curve(metrics, keys) for keys in paths if len(keys) > 1 and keys[-1] != "exact"}
