"""Figures as words of a report: scores with their intervals, and what an interval allows to be said."""

from collections.abc import Mapping
from typing import Any

__all__ = [
    "capital",
    "counted",
    "difference",
    "gap_verdict",
    "interval",
    "percent",
    "points",
    "score",
    "seconds",
    "size",
]


def capital(text: str) -> str:
    """A sentence: its first letter is a capital."""
    return text[:1].upper() + text[1:]


def counted(count: int, noun: str) -> str:
    """A number of things: "1 question", "2,000 questions"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def points(value: int | float | None, digits: int = 1) -> str:
    """A score or another number; a dash where there is none."""
    return "–" if value is None else f"{value:,.{digits}f}"


def interval(value: int | float, low: int | float, high: int | float, digits: int = 1) -> str:
    """A value and its 95 % interval."""
    return f"{value:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def score(row: Mapping[str, Any], name: str) -> str:
    """``em`` or ``f1`` of a row of answers, with its interval."""
    return interval(row[name], *row[f"{name}_interval"])


def difference(gap: Mapping[str, Any]) -> str:
    """A paired difference of scores, with its interval."""
    return interval(gap["value"], gap["low"], gap["high"])


def percent(share: int | float | None, digits: int = 1) -> str:
    """A share as percent."""
    return "–" if share is None else f"{100 * share:.{digits}f} %"


def gap_verdict(gap: Mapping[str, Any], ours: str, other: str) -> str:
    """What a paired difference with its interval allows to be said.

    Args:
        gap: ``value``, ``low``, ``high`` of ours − other, in points of F1.
        ours: what has the first score.
        other: what has the second.
    """
    told = f"{gap['value']:+.1f} F1 ({gap['low']:+.1f} to {gap['high']:+.1f})"
    if gap["low"] == gap["high"] == 0:
        return f"{ours} and {other} gave the same scores on every question"
    if gap["low"] <= 0 <= gap["high"]:
        return f"no difference between {ours} and {other} can be told: {told}"
    return f"{ours} is {'better' if gap['value'] > 0 else 'worse'} than {other}: {told}"


def size(num_bytes: int | float) -> str:
    """Bytes in binary units, as the paper counts."""
    for unit in ("B", "KB", "MB"):
        if num_bytes < 1024:
            return f"{num_bytes:,.0f} {unit}" if unit == "B" else f"{num_bytes:,.4g} {unit}"
        num_bytes /= 1024
    return f"{num_bytes:,.4g} GB"


def seconds(value: int | float) -> str:
    """A time with its unit."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if value * factor >= 1:
            return f"{value * factor:,.3g} {unit}"
    return f"{value * 1e9:,.3g} ns"
