"""How the error of a stored state grows, or fades, while the question is read."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

AFTER_TOKENS = 40
"""Question tokens after which the bound of an FP16 state is looked at."""


def largest(values: Iterable[float]) -> float:
    """The largest of some figures; infinite where one is no number, so that it cannot get lost."""
    found = list(values)
    return float("inf") if any(value != value for value in found) else max(found)


def smallest(values: Iterable[float]) -> float:
    """The smallest of some figures; infinite where one is infinite or no number, so that it cannot get lost."""
    found = list(values)
    return min(found) if all(map(math.isfinite, found)) else float("inf")


def continuation(records: Sequence[Mapping[str, Any]], storage: str) -> tuple[int, float]:
    """The last mark up to `AFTER_TOKENS`, and the largest relative error of a layer there, inf-norm."""
    marks = records[0]["marks"]
    at = max((i for i, mark in enumerate(marks) if mark <= AFTER_TOKENS), default=0)
    found = [record["stored"][storage] for record in records if storage in record["stored"]]
    return marks[at], largest(error for row in found for error in row["inf_norm"][at])


def growth(records: Sequence[Mapping[str, Any]], storage: str) -> float:
    """The largest relative error of a layer at the last mark over that at the first, inf-norm; 0 without errors."""
    found = [record["stored"][storage]["inf_norm"] for record in records if storage in record["stored"]]
    first, last = (largest(error for row in found for error in row[mark]) for mark in (0, -1))
    return last / first if first else 0.0


def curves(records: Sequence[Mapping[str, Any]]) -> list[dict[str, object]]:
    """Error-growth curves, the worst over all passages: one for each model and storage.

    Returns:
        Per curve ``model``, ``stored``, ``tokens`` (T question tokens read), ``layers`` [L, T], ‖Δh‖∞ / ‖h‖∞ of every
        layer, and ``worst`` [T], that of the worst layer.
    """
    found: dict[tuple[str, str], list[list[list[float]]]] = {}
    for record in records:
        for storage, row in record["stored"].items():
            found.setdefault((record["model"], storage), []).append(row["inf_norm"])
    made: list[dict[str, object]] = []
    for (model, storage), passages in found.items():
        by_mark = [[largest(errors) for errors in zip(*layers, strict=True)] for layers in zip(*passages, strict=True)]
        made.append(
            {
                "model": model,
                "stored": storage,
                "tokens": list(records[0]["marks"]),
                "layers": [list(layer) for layer in zip(*by_mark, strict=True)],
                "worst": [largest(layers) for layers in by_mark],
            }
        )
    return made
