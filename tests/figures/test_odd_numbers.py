"""Numbers that nobody hopes for are drawn properly, or refused in one line before anything is drawn."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from figure_layout import LONG, check_layout

from precog import figures
from precog.errors import InputError
from precog.figures import Axis, Bar, Level, Line, Mark, ParetoPoint, Stage, Way
from precog.figures.axis import marks
from precog.figures.pareto import frontier
from precog.figures.told import bytes_told, number_told, power_told, seconds_told, short, wrapped

LOG, LINEAR = Axis("x", "", "log"), Axis("y")


def panel(lines: list[Line], x: Axis = LINEAR, y: Axis = LINEAR, **rest: Any) -> figures.Curves:
    return figures.Curves("t", [figures.Panel("p", x, y, lines, **rest)])


def bars(*rows: Bar) -> figures.BarsWithIntervals:
    return figures.BarsWithIntervals("t", "F1", "%", rows)


def points(*qualities: float, size: float = 9.0) -> figures.Pareto:
    found = [ParetoPoint(f"p{n}", size * (n + 1), value, "c", "l") for n, value in enumerate(qualities)]
    return figures.Pareto("t", "F1", "%", found)


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "no line": (lambda: panel([]), "nothing to draw"),
    "no point": (lambda: panel([Line("a", [], [])]), "no points"),
    "no number": (lambda: panel([Line("a", [1, 2], [1.0, math.nan])]), "no finite number; given: a, y: nan"),
    "of 400 digits": (lambda: panel([Line("a", [1, 10**400], [1.0, 2.0])]), "too far away"),
    "infinite": (lambda: panel([Line("a", [1, math.inf], [1.0, 2.0])]), "no finite number"),
    "negative on a log axis": (
        lambda: panel([Line("a", [-1, 2], [1, 2])], LOG),
        "no place on its axis; given: a, x: -1",
    ),
    "zero on a log axis": (lambda: panel([Line("a", [1, 2], [0, 2])], y=LOG), "expected: more than zero"),
    "too far away": (lambda: panel([Line("a", [1, 2], [1, 1e300])]), "too far away"),
    "lengths": (lambda: panel([Line("a", [1, 2], [1])]), "one value for each place; given: a: 1; expected: 2"),
    "half a band": (lambda: panel([Line("a", [1], [1], [1])]), "two edges"),
    "one name twice": (lambda: panel([Line("a", [1], [1])] * 2), "one name"),
    "too many lines": (lambda: panel([Line(f"{n}", [1], [1]) for n in range(25)]), "more than one picture can show"),
    "a level nowhere": (lambda: panel([Line("a", [1], [1])], levels=[Level("l")]), "stands or lies"),
    "a mark nowhere": (lambda: panel([Line("a", [1], [1])], marks=[Mark("m", 1, math.nan)]), "no finite number"),
    "no rows": (lambda: bars(), "nothing to draw"),
    "no value": (lambda: bars(Bar("a", None)), "no row with a value"),
    "outside its interval": (lambda: bars(Bar("a", 5, 6, 7)), r"outside its interval; given: a: 5 in \[6, 7\]"),
    "half an interval": (lambda: bars(Bar("a", 5, 4)), "two ends"),
    "value is no number": (lambda: bars(Bar("a", math.nan)), "no finite number"),
    "no ways": (lambda: figures.Waterfall("t", []), "nothing to draw"),
    "no stages": (lambda: figures.Waterfall("t", [Way("w", [])]), "nothing to draw"),
    "no time at all": (lambda: figures.Waterfall("t", [Way("w", [Stage("s", 0)])]), "no stage that takes time"),
    "negative time": (lambda: figures.Waterfall("t", [Way("w", [Stage("s", -1)])]), "expected: zero or more"),
    "no platforms": (lambda: figures.LoadTime("t", [], []), "nothing to draw"),
    "no load time": (lambda: figures.LoadTime("t", ["p"], [figures.Artefact("a", [0])]), "expected: more than zero"),
    "no roof": (lambda: figures.Roofline("t", [1], []), "0 platforms"),
    "no speed": (
        lambda: figures.Roofline("t", [1], [figures.PlatformSpeed("p", [0], [1])]),
        "expected: more than zero",
    ),
    "nothing stored": (lambda: figures.StorageScaling("t", [1], []), "0 ways"),
    "no context": (lambda: figures.StorageScaling("t", [0], [figures.Stored("a", [1])]), "expected: more than zero"),
    "no storage": (lambda: figures.TradeOff("t", [], [Line("a", [1], [1])]), "nothing to draw"),
    "no points on a frontier": (lambda: figures.Pareto("t", "F1", "%", []), "nothing to draw"),
    "negative bytes": (lambda: points(1.0, size=-1.0), "expected: zero or more"),
    "no precision": (lambda: figures.ErrorGrowth("t", [1], []), "nothing to draw"),
    "negative error": (
        lambda: figures.ErrorGrowth("t", [1], [figures.StoredPrecision("a", [-1.0])]),
        "expected: zero or more",
    ),
    "unknown stage": (lambda: figures.Pipeline("t", stages_sec={"think": 1}), "no such stage; given: think"),
    "no bytes": (lambda: figures.Pipeline("t", state_bytes=math.nan), "no finite number"),
    "no domains": (lambda: figures.MemoryPipeline("t", [], ["s"], [figures.Dial("K", "k")]), "nothing to draw"),
    "three coordinates": (
        lambda: figures.MemoryMap("t", [figures.MappedDomain("d", [[1, 2, 3]], [None])]),
        "two coordinates",
    ),
}

DRAWN: dict[str, Callable[[], Any]] = {
    "one point": lambda: panel([Line("a", [3], [4])]),
    "one point on log axes": lambda: panel([Line("a", [3], [4])], LOG, LOG),
    "equal values": lambda: panel([Line("a", [1, 2, 3], [5, 5, 5]), Line("b", [1, 2, 3], [5, 5, 5])], y=LOG),
    "all zero": lambda: panel([Line("a", [1, 2], [0, 0])]),
    "nearly equal on a log axis": lambda: panel([Line("a", [1, 2], [73.4, 73.6])], y=LOG),
    "wide": lambda: panel([Line("a", [1, 2], [1e-25, 1e25])], y=LOG),
    "twenty-four lines": lambda: panel([Line(f"line {n}", [1, 2], [n, n + 1]) for n in range(24)]),
    "long names": lambda: panel([Line(f"{n} {LONG}", [1, 2], [n, n + 1]) for n in range(3)], marks=[Mark(LONG, 1, 1)]),
    "marks at one place": lambda: panel(
        [Line("a", [1, 2], [1, 2])], marks=[Mark(f"mark {n}", 1.5, 1.5) for n in range(5)]
    ),
    "three panels and more": lambda: figures.Curves(
        "t", [figures.Panel(f"p{n}", LINEAR, LINEAR, [Line("a", [1, 2], [1, n])]) for n in range(5)]
    ),
    "the paper alone": lambda: panel([], paper=[Line("a", [1, 2], [1, 2])]),
    "one bar": lambda: bars(Bar("a", 5.0)),
    "bars of zero": lambda: bars(Bar("a", 0.0, 0.0, 0.0), Bar("b", 0)),
    "negative bars": lambda: bars(Bar("a", -2.0, -3.0, 1.0), Bar("b", 4.0, 3.0, 5.0, -1.0)),
    "tiny bars": lambda: bars(Bar("a", 2e-9, 1e-9, 3e-9), Bar("b", 4e-9)),
    "long rows": lambda: bars(*(Bar(f"{n} {LONG}", n, n, n, 40.0) for n in range(40))),
    "one way": lambda: figures.Waterfall("t", [Way(LONG, [Stage(LONG, 1.0)])]),
    "a stage without time": lambda: figures.Waterfall(
        "t", [Way("w", [Stage("a", 0), Stage("b", 1e-9), Stage("c", 1e4)])]
    ),
    "one platform": lambda: figures.LoadTime("t", [LONG], [figures.Artefact(LONG, [1e-9])]),
    "six artefacts": lambda: figures.LoadTime("t", ["p", "q"], [figures.Artefact(f"a{n}", [1, 1]) for n in range(6)]),
    "one length": lambda: figures.Roofline("t", [1], [figures.PlatformSpeed(LONG, [1], [1])], 1),
    "one text": lambda: figures.StorageScaling("t", [1], [figures.Stored("a", [1])], chunk_tokens=512),
    "one way of keeping": lambda: points(7.0),
    "equal quality": lambda: points(7.0, 7.0, 7.0),
    "bytes at one place": lambda: figures.Pareto(
        "t", "F1", "", [ParetoPoint(f"point {n}", 10, 5.0, f"c{n % 6}", f"l{n % 7}") for n in range(40)]
    ),
    "many on the frontier": lambda: points(*range(30), size=1.0),
    "exact": lambda: figures.ErrorGrowth("t", [1, 2], [figures.StoredPrecision("FP64", [0, 0])]),
    "tiny errors": lambda: figures.ErrorGrowth(
        "t", [1, 2], [figures.StoredPrecision("a", [1e-29, 0.0], [1, 1], [0.0])], [1]
    ),
    "no figures": lambda: figures.Pipeline("t"),
    "large figures": lambda: figures.Pipeline(
        "t", 10**9, 10**15, 10**12, 10**12, 10**9, 10**6, dict.fromkeys(figures.pipeline.STAGES, 123456.789)
    ),
    "long domains": lambda: figures.MemoryPipeline(
        "t", [f"{n} {LONG}" for n in range(8)], [LONG], [figures.Dial(f"{n} {LONG}", LONG, 1) for n in range(4)]
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_in_one_line(name: str) -> None:
    make, told = REFUSED[name]
    with pytest.raises(InputError, match=told) as error:
        make()
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400


@pytest.mark.parametrize("name", DRAWN)
def test_it_is_drawn_properly(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_layout(DRAWN[name](), tmp_path / "fig.png", monkeypatch)


def test_the_frontier_is_what_no_other_beats() -> None:
    found = [(10, 5.0), (20, 4.0), (20, 6.0), (30, 6.0), (5, 5.0), (40, 9.0)]
    best = frontier([ParetoPoint(f"{n}", size, good, "c", "l") for n, (size, good) in enumerate(found)])
    assert [(point.bytes, point.quality) for point in best] == [(5, 5.0), (20, 6.0), (40, 9.0)]


def test_numbers_are_told_as_people_write_them() -> None:
    assert [bytes_told(n) for n in (0, 12, 1024, 196_608, 16 << 20, 4 << 30)] == [
        "0 B", "12 B", "1 KB", "192 KB", "16 MB", "4 GB",
    ]  # fmt: skip
    told = [seconds_told(n) for n in (0, 57e-9, 46.8e-6, 0.003, 0.585, 0.9999, 26.947, 1e5)]
    assert told == ["0 s", "57 ns", "46.8 µs", "3 ms", "585 ms", "1 s", "26.95 s", "100,000 s"]
    assert [number_told(n) for n in (0, 0.25, 1024, 2e-9, -1e8)] == ["0", "0.25", "1,024", "2·10⁻⁹", "−10⁸"]
    assert [power_told(n) for n in (1, 10, 100, 1e-9, 50)] == ["1", "10", "10²", "10⁻⁹", "50"]


def test_names_are_no_formulas_and_not_endless() -> None:
    assert short("cost $x$\n in  _y", 40) == r"cost \$x\$ in _y"
    assert short("_hidden", 40) == " _hidden"
    assert short("a" * 50, 10) == "a" * 9 + "…"
    assert wrapped("one two three four five six", 9) == "one two\nthree …"
    assert max(map(len, wrapped("a" * 99, 9).splitlines())) <= 9


def test_marks_of_a_log_axis_are_few_and_within() -> None:
    assert marks(1, 131_072, 2) == [2.0**n for n in range(0, 18, 3)]
    assert marks(0.001, 100, 10) == pytest.approx([0.001, 0.01, 0.1, 1, 10, 100])
    for low, high, base in ((70, 80, 10), (3, 3.3, 2), (1e-20, 1e20, 10), (5, 5.01, 10), (1, 2**60, 2)):
        found = marks(low, high, base)
        assert 1 <= len(found) <= 12
        assert all(low <= mark <= high for mark in found)
