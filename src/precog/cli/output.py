"""What commands print: results to stdout, everything else to stderr."""

import math
from collections.abc import Mapping

from rich.console import Console
from rich.markup import escape

from precog.cli.text import json_line, visible

out = Console(soft_wrap=True, highlight=False)
err = Console(stderr=True, soft_wrap=True, highlight=False)


def print_json(value: Mapping[str, object]) -> None:
    """One JSON object on one line of stdout; a number that is not finite, which JSON cannot say, becomes null."""
    print(json_line(_finite(value)), flush=True)


def _finite(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def shown(text: str) -> str:
    """A text of others as rich prints it: visible, and never taken for markup."""
    return escape(visible(text))


def counted(count: int, noun: str) -> str:
    """A number of things: "1 chunk", "2,000 chunks"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def human_bytes(num_bytes: int | float) -> str:
    """A number of bytes as people read it."""
    if num_bytes < 1000:
        return f"{num_bytes:.0f} B"
    count = float(num_bytes)
    for unit in ("kB", "MB", "GB", "TB", "PB"):
        count /= 1000
        if count < 1000:
            return f"{count:.1f} {unit}"
    return f"{count / 1000:.1f} EB" if count < 1e6 else f"{count / 1000:.1e} EB"


_LONG = (("years", 31_557_600), ("days", 86400), ("hours", 3600), ("minutes", 60))
_UNREADABLE = 1e6  # years: more digits are none to people


def human_seconds(count: float) -> str:
    """A time as people read it."""
    if count < 1e-3:
        return f"{count * 1e6:.0f} µs"
    if count < 600:
        return f"{count * 1e3:.1f} ms" if count < 1 else f"{count:.2f} s"
    unit, size = next((unit, size) for unit, size in _LONG if count >= 2 * size)
    return f"{count / size:,.1f} {unit}" if count / size < _UNREADABLE else f"{count / size:.1e} {unit}"
