"""The table of a study: binding first, then reading, then language modelling, then what it cost."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

__all__ = ["markdown"]

LEARNT = 0.9  # mean recall that counts as having learnt to bind


def _mean(rows: Sequence[Mapping[str, Any]], *keys: str) -> float | None:
    """The mean over the rows that have the figure."""
    values = []
    for row in rows:
        value: Any = row
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        if isinstance(value, int | float):
            values.append(float(value))
    return fmean(values) if values else None


def _text(rows: Sequence[Mapping[str, Any]], figure: str) -> float | None:
    """The mean of a figure over held-out sets, then over seeds."""
    means = [fmean(figures[figure] for figures in row["text"].values()) for row in rows if row.get("text")]
    return fmean(means) if means else None


def _learnt(row: Mapping[str, Any]) -> str:
    """The first step at which the mean over all numbers of pairs was `LEARNT`; empty where it never was."""
    for point in row["phases"]["recall"]["curve"]:
        exact = [value for key, value in point.items() if key != "step"]
        if fmean(exact) >= LEARNT:
            return str(point["step"])
    return ""


def _phases(rows: Sequence[Mapping[str, Any]], figure: str) -> list[float | None]:
    return [_mean(rows, "phases", phase, figure) for phase in ("recall", "text")]


def _shown(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def markdown(rows: Sequence[Mapping[str, Any]], asked: Sequence[int], failed: Mapping[str, str]) -> str:
    """The table in Markdown, a line per variant, figures averaged over its seeds.

    Args:
        rows: results of `precog.train.study.variant.run_variant`, one per variant and seed.
        asked: numbers of pairs, one column each: percent of questions answered exactly.
        failed: jobs without a result, with the reason.
    """
    head = [
        "variant",
        *(f"{pairs} pairs, %" for pairs in asked),
        f"{max(asked)} pairs, rounded states, %",
        f"steps to {LEARNT:.0%}",
        "answer CE with",
        "without",
        "exact, %",
        "LM loss",
        "parameters",
        "state, bytes",
        "tokens/s, pairs",
        "text",
        "tokens, pairs",
        "text",
        "seconds",
        "seeds",
    ]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for name in dict.fromkeys(row["variant"] for row in rows):
        mine = [row for row in rows if row["variant"] == name]
        exact = _text(mine, "exact")
        recall = [_mean(mine, "recall", str(pairs)) for pairs in asked]
        rounded = _mean(mine, "recall_from_rounded_states", str(max(asked)))
        seconds = [value for value in _phases(mine, "seconds") if value is not None]
        cells = [
            name,
            *(_shown(None if value is None else 100 * value, ".1f") for value in [*recall, rounded]),
            ", ".join(filter(None, map(_learnt, mine))),
            _shown(_text(mine, "answer_with"), ".3f"),
            _shown(_text(mine, "answer_without"), ".3f"),
            _shown(None if exact is None else 100 * exact, ".1f"),
            _shown(_text(mine, "lm"), ".3f"),
            _shown(_mean(mine, "parameters"), ",.0f"),
            _shown(_mean(mine, "state_bytes"), ",.0f"),
            *(_shown(value, ",.0f") for value in _phases(mine, "tokens_per_sec")),
            *(_shown(value, ",.0f") for value in _phases(mine, "tokens")),
            _shown(sum(seconds), ".0f"),
            ", ".join(str(row["seed"]) for row in mine),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    lines += [f"\n{name} failed: {reason}" for name, reason in failed.items()]
    return "\n".join(lines) + "\n"
