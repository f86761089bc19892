"""Rounds, medians and ratios: the arithmetic of a measurement."""

import gc
import json
import math
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precog.bench.harness import Rounds, Samples, interleave, timed
from precog.bench.index import memory_ratio
from precog.bench.machine import Machine, git_commit, versions
from precog.bench.memory import Peak, peak_rss_bytes
from precog.bench.result import Ratio, Result, finite
from precog.bench.ttft import crossover
from precog.cli.main import main

SECONDS = st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=30)


@given(SECONDS)
def test_quantiles_lie_in_order_within_the_samples(seconds):
    samples = Samples(tuple(seconds))
    shown = samples.to_json()
    assert min(seconds) <= shown["p10_sec"] <= shown["p90_sec"] <= max(seconds)
    assert samples.quantile(0.0) == min(seconds)
    assert samples.quantile(1.0) == max(seconds)
    assert samples.quantile(0.5) == pytest.approx(samples.median)


def test_rounds_are_combined_round_by_round():
    rounds = Rounds({"a": Samples((1.0, 2.0, 30.0)), "b": Samples((2.0, 4.0, 10.0))})
    assert rounds.combined(("a", "b")).seconds == (3.0, 6.0, 40.0)
    assert rounds.combined(("a",), minus=("b",)).seconds == (-1.0, -2.0, 20.0)
    assert rounds.ratio("a", "b") == 0.5


def test_sides_are_interleaved_and_turned_round_and_warm_up_is_thrown_away():
    seen: list[tuple[str, int]] = []
    collecting: list[bool] = []

    def side(name):
        def measure(number):
            seen.append((name, number))
            collecting.append(gc.isenabled())
            return {name: float(number)}

        return measure

    rounds = interleave([side("a"), side("b")], repeats=2, warm_up=1)
    assert seen == [("a", 0), ("b", 0), ("b", 1), ("a", 1), ("a", 2), ("b", 2)]
    assert rounds["a"].seconds == (1.0, 2.0)
    assert not any(collecting)
    assert gc.isenabled()


def test_what_prepares_a_side_is_not_timed(monkeypatch):
    now = 0.0

    def takes_a_second(_):
        nonlocal now
        now += 1.0

    monkeypatch.setattr("precog.bench.harness.time", SimpleNamespace(perf_counter=lambda: now))
    quick, slow = timed("quick", lambda _: None, prepare=takes_a_second), timed("slow", takes_a_second)
    found = interleave([quick, slow], repeats=1, warm_up=0)
    assert (found["quick"].median, found["slow"].median) == (0.0, 1.0)


def test_a_ratio_holds_on_its_own_side_of_the_bound():
    assert Ratio(1.3, 1.3, True, "").ok
    assert not Ratio(1.31, 1.3, True, "").ok
    assert Ratio(0.85, 0.85, False, "").ok
    assert not Ratio(0.84, 0.85, False, "").ok
    for at_most in (True, False):
        assert not Ratio(math.nan, 1.0, at_most, "").ok


def test_memory_ratio_takes_the_keys_off():
    small = Peak(rss_bytes=1000, key_bytes=10, chunks=1, tokens=100, source_bytes=50)
    large = Peak(rss_bytes=1250, key_bytes=200, chunks=20, tokens=2000, source_bytes=1000)
    ratio = memory_ratio(small, large)
    assert ratio.value == 1.05
    assert ratio.ok
    assert "20 ×" in ratio.meaning


@pytest.mark.parametrize(
    ("none_sec", "inject_sec", "expected"),
    [
        (1.0, 0.9, 0.0),  # injecting beats even a question without context
        (1.0, 1.5, 5.0),  # halfway to the first length
        (1.0, 2.0, 10.0),
        (1.0, 4.0, 20.0),
        (1.0, 6.1, None),  # never
    ],
)
def test_crossover_lies_between_measured_lengths(none_sec, inject_sec, expected):
    found = crossover([10, 30], [2.0, 6.0], none_sec, inject_sec)
    assert found is None if expected is None else found == pytest.approx(expected)


def test_figures_that_json_cannot_carry_are_null():
    assert finite({"a": [math.inf, math.nan, 1.23456789], "b": (1, "x", None, True)}) == {
        "a": [None, None, 1.23457],
        "b": [1, "x", None, True],
    }
    with pytest.raises(TypeError, match="no JSON value"):
        finite(object())


def test_a_result_says_where_when_and_with_what():
    result = Result(
        name="nothing",
        values={"read_sec": 0.5},
        ratios={"good": Ratio(1.0, 2.0, True, "one / two"), "bad": Ratio(1.0, 2.0, False, "one / two")},
        ceiling={"copy_bytes_per_sec": 1e9},
        machine=Machine.here(),
        warm_up=1,
        repeats=3,
    )
    shown = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert set(shown) == {
        "name", "ok", "ratios", "values", "ceiling", "model", "machine", "versions", "git_commit", "date", "warm_up",
        "repeats", "quick", "notes",
    }  # fmt: skip
    assert not shown["ok"]
    assert shown["ratios"]["bad"] == {
        "value": 1.0, "relation": ">=", "target": 2.0, "ok": False, "meaning": "one / two",
    }  # fmt: skip
    assert shown["machine"]["cores"] >= 1
    assert shown["machine"]["cpu"]
    assert shown["versions"]["precog-ssm"]
    assert shown["versions"] == versions()
    assert shown["git_commit"] == git_commit()


def test_peak_memory_is_that_of_this_process():
    before = peak_rss_bytes()
    block = bytearray(before + (64 << 20))
    block[:: 1 << 12] = b"\1" * len(block[:: 1 << 12])
    assert peak_rss_bytes() >= len(block)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["train", "--rows", "0"], "bench train: --rows is out of range; given: 0; expected: at least 1"),
        (["train", "--tokens", "3"], "bench train: --tokens is out of range; given: 3; expected: at least 4"),
        (["train", "--steps", "0"], "bench train: --steps is out of range; given: 0; expected: at least 1"),
        (["store", "--chunks", "-1"], "bench store: --chunks is out of range; given: -1; expected: at least 1"),
        (["ttft", "--chunks", "0"], "bench ttft: --chunks is out of range; given: 0; expected: at least 1"),
        (
            [],
            "which command?; expected: load, ttft, store, index, encode, decode, train, session, forget, scan, serve; "
            "see `precog bench --help`",
        ),
    ],
)
def test_the_option_out_of_range_is_named_and_a_missing_command_asked_for(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["bench", *words])
    assert end.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"precog: {said}"


@pytest.mark.parametrize(
    ("words", "default"),
    [(["ttft"], "10000]"), (["store"], "2000]"), (["decode"], " 1]"), ([], "Commands")],
)
def test_help_tells_defaults_and_nothing_about_completion(
    words: list[str], default: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["bench", *words, "-h"])
    assert end.value.code == 0
    shown = capsys.readouterr().out
    assert default in shown
    assert "completion" not in shown
