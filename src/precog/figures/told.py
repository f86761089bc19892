"""Numbers as people write them in a picture: 192 KB, 585 ms, 1,024, 10⁻⁹; and names that fit where they stand."""

import math
import textwrap

_BYTES = ("B", "KB", "MB", "GB", "TB", "PB", "EB")
_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def bytes_told(value: float | int, _position: object = None) -> str:
    """Bytes in binary units, as the paper has them: 1 KB is 1,024 B."""
    power = 0
    while abs(value) >= 1023.5 and power < len(_BYTES) - 1:
        value, power = value / 1024, power + 1
    return f"{_three(value)} {_BYTES[power]}"


def seconds_told(value: float | int, _position: object = None) -> str:
    """A duration in the unit that suits it: 46.8 µs, 585 ms, 26.95 s."""
    if value == 0:
        return "0 s"
    if abs(value) >= 10:
        return f"{value:,.2f}".rstrip("0").rstrip(".") + " s"
    least, unit = next((entry for entry in _SECONDS if abs(value) >= 0.9995 * entry[0]), _SECONDS[-1])
    return f"{_three(value / least)} {unit}"


def number_told(value: float | int, _position: object = None) -> str:
    """A number: 1,024, 0.25, 10⁻⁹."""
    if value < 0:
        return "−" + number_told(-value)
    size = abs(value)
    if size and (size < 1e-3 or size >= 1e7):
        exponent = math.floor(math.log10(size) + 1e-9)
        lead = _three(value / 10.0**exponent)
        power = "10" + str(exponent).translate(_RAISED)
        return power if lead == "1" else f"{lead}·{power}"
    return f"{value:,.0f}" if size >= 1000 else f"{value:.4g}"


def power_told(value: float | int, _position: object = None) -> str:
    """A power of ten as such where it is long: 1, 10, 10², 10⁻⁹; other numbers as they are."""
    exponent = round(math.log10(value)) if value > 0 else 0
    is_power = value > 0 and abs(value / 10.0**exponent - 1) < 1e-6
    return "10" + str(exponent).translate(_RAISED) if is_power and exponent not in (0, 1) else number_told(value)


def short(name: str, longest: int) -> str:
    """A name in one line as a label, never taken for a formula, nor, from a leading underscore, for a hidden one."""
    name = " ".join(name.split())
    name = name if len(name) <= longest else name[: longest - 1] + "…"
    return _literal(name)


def wrapped(name: str, width: int, most_lines: int = 2) -> str:
    """A name in a few lines of at most ``width`` characters, the rest of it left out."""
    lines = textwrap.wrap(" ".join(name.split()), width, max_lines=most_lines, placeholder=" …")
    return _literal("\n".join(line if len(line) <= width else line[: width - 1] + "…" for line in lines))


def _literal(name: str) -> str:
    name = name.replace("$", r"\$")
    return f" {name}" if name.startswith("_") else name


def _three(value: float | int) -> str:
    """Three digits that count, without zeros that do not."""
    return f"{value:.3g}" if abs(value) < 999.5 else f"{value:,.0f}"
