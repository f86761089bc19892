"""A number that the paper prints, beside the same number computed, and whether the printed digits come out."""

import math
import re
from dataclasses import asdict, dataclass

from precog.plan.paper import GB, KB, MB

BINARY = {"KB": KB, "MB": MB, "GB": GB}
DECIMAL = {"KB": 1e3, "MB": 1e6, "GB": 1e9}
_SCALES = {"µs": 1e-6, "ns": 1e-9, "ms": 1e-3, "K tokens": 1e3, "M chunks": 1e6, "B parameters": 1e9}
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?|three|four")
_EXACT = 12  # digits; those of a double beyond them are what sums leave
_WORDS = {"three": "3", "four": "4"}


@dataclass(frozen=True)
class Claim:
    """One printed number.

    Attributes:
        where: table, figure, section or appendix.
        what: the quantity.
        printed: as the paper prints it.
        computed: the same, by our calculation, in ``unit``.
        unit: of ``computed``; "" for a plain number; × for a ratio.
        ours: ``computed`` for people, with its unit.
        agrees: whether ``computed``, rounded as the printed number is, is the printed number; of a bound, whether it
            holds.
        why: a sentence where there is something to explain; always where it does not agree.
    """

    where: str
    what: str
    printed: str
    computed: float
    unit: str
    ours: str
    agrees: bool
    why: str = ""

    def to_json(self) -> dict[str, object]:
        """Plain data."""
        return asdict(self)


def claim(
    where: str, what: str, printed: str, value: int | float, unit: str = "", why: str = "", *, decimal: bool = False
) -> Claim:
    """A row out of a value in base units.

    Args:
        where, what, printed, why: as in `Claim`. A printed number that begins with < or > is a bound; one that ends in
            + is a least value.
        value: in bytes, seconds or as it is.
        unit: that it is printed in.
        decimal: whether KB, MB and GB are powers of 1000; else of 1024, as in the paper's appendix D.
    """
    computed = value / {**_SCALES, **(DECIMAL if decimal else BINARY)}.get(unit, 1.0)
    return Claim(
        where, what, printed, computed, unit, shown(computed, unit, printed), comes_out(computed, printed), why
    )


def comes_out(value: int | float, printed: str) -> bool:
    """Whether a value, rounded to the digits of a printed number, is that number; of a bound, whether it holds.

    Zeros at the end of a whole number do not count as digits: 4,500 has two.
    """
    found = _NUMBER.search(printed)
    if found is None:
        raise ValueError(f"no number in {printed!r}")
    text = _plain(found)
    number, value = float(text), _rounded(value, _EXACT)
    before = printed[: found.start()]
    if "<" in before:
        return value < number
    if ">" in before:
        return value > number
    if printed[found.end() :].startswith("+"):
        return value >= number
    return _rounded(value, digits(text)) == number


def digits(text: str) -> int:
    """Digits that a printed number tells: 26.95 has four, 0.41 two, 4500 two, 0 one."""
    plain = text.lstrip("-")
    kept = plain.replace(".", "") if "." in plain else plain.rstrip("0")
    return max(1, len(kept.lstrip("0")))


def shown(value: int | float, unit: str, printed: str = "") -> str:
    """A number for people: whole where it is, else with one digit more than is printed, and at least three."""
    found = _NUMBER.search(printed)
    wanted = max(3, digits(_plain(found)) + 1) if found else 3
    exact, rounded = _rounded(value, _EXACT), _rounded(value, wanted)
    if exact == round(exact) or rounded == round(rounded):
        text = f"{round(exact if exact == round(exact) else rounded):,}"
    else:
        places = max(0, wanted - 1 - math.floor(math.log10(abs(rounded))))
        text = f"{rounded:,.{places}f}" if places < 9 else f"{rounded:.3g}"
    return f"{text}{unit}" if unit in ("×", "") else f"{text} {unit}"


def _plain(found: re.Match[str]) -> str:
    return _WORDS.get(found[0], found[0].replace(",", ""))


def _rounded(value: int | float, figures: int) -> float:
    exact = float(f"{value:.{_EXACT - 1}e}")  # 0.1 + 0.2 is taken for 0.3 before it is rounded, or held to a bound
    return float(f"{exact:.{figures - 1}e}")
