"""Devices in virtual time: the paper's tables and figures, and what stored states buy."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precog.errors import UsageError
from precog.plan import curves
from precog.plan.device import PRESETS, EdgeDevice, device_named, paper_device
from precog.plan.latency import tokens_per_joule
from precog.plan.paper import PAPER
from precog.plan.purchase import KEY_BYTES, purchase
from precog.plan.timeline import BRINGING, WAYS, Question, timeline, timelines

DEVICE = paper_device()
PAPERS = Question(query_tokens=10, first_token_pass=True)
CHIP = EdgeDevice(
    name="chip", decode_tok_per_sec=10.0, prefill_tok_per_sec=100.0, flash_bytes_per_sec=1e9, flash_latency_sec=1e-4,
    watts=2.0, encoder_sec=0.01, search_sec=0.002, inject_sec=0.001, tokenize_sec=0.0,
)  # fmt: skip


def test_table_2_of_the_paper() -> None:
    inject, reading, cached, again = timelines(DEVICE, PAPERS)
    assert inject.added_sec == pytest.approx(6e-3)
    assert reading.added_sec == pytest.approx(26.95, abs=0.01)
    assert again.added_sec == reading.added_sec  # the paper's third column
    assert cached.added_sec == pytest.approx(0.00995, abs=1e-5)  # a prefix from flash: ERRATA 8
    assert [line.num_bytes for line in (inject, reading, cached)] == [196_608, 2_200, 16_777_216]
    bought = purchase(DEVICE, PAPERS)
    keys = 10_000 * KEY_BYTES
    sizes = [bought.storage_bytes(way) - keys for way in WAYS]
    assert sizes == [1_966_080_000, 22_000_000, 167_772_160_000, 22_000_000]


def test_table_9_of_the_paper() -> None:
    assert DEVICE.watts is not None
    assert tokens_per_joule(DEVICE.decode_tok_per_sec, DEVICE.watts) == 19
    line = timeline("inject", DEVICE, Question(answer_tokens=20))
    [written] = [stage for stage in line.stages if stage.name == "answer"]
    assert written.joules is not None
    assert written.tokens / written.joules == pytest.approx(19)


def test_figure_3_of_the_paper() -> None:
    rows = {str(row["way"]): row for row in curves.waterfall()}
    assert rows["inject"]["ttft_sec"] == pytest.approx(0.5854, abs=1e-4)
    assert rows["in-context"]["ttft_sec"] == pytest.approx(27.53, abs=0.01)
    assert [stage["name"] for stage in rows["inject"]["stages"]] == [  # type: ignore[attr-defined]
        "tokenise", "encode", "load", "inject", "read question", "first token",
    ]  # fmt: skip
    counted = timeline("inject", DEVICE, Question())
    assert counted.first_token_sec == pytest.approx(1.06, abs=0.005)  # ERRATA 23
    assert "first token" not in {stage.name for stage in counted.stages}


def test_the_other_figures_are_lists_that_belong_together() -> None:
    storage = curves.storage_scaling((6, 512))
    assert storage["cache_bytes"] == [196_608, 16_777_216]
    assert storage["state_bytes"] == [196_608, 196_608]
    assert storage["crossover_tokens"] == 6
    assert storage["ratio_at"] == pytest.approx(85.33, abs=0.01)
    loads = curves.loading()
    assert [row["platform"] for row in loads] == [place.name for place in PAPER.platforms]
    assert all(row["ratio"] == pytest.approx(85.33, abs=0.01) for row in loads)
    roof = curves.roofline((0, 73_242))
    assert roof["halving_tokens"] == pytest.approx(73_242, abs=1)
    for row in roof["platforms"]:  # type: ignore[attr-defined]
        first, half = row["cache_tok_per_sec"]
        assert half == pytest.approx(first / 2, rel=1e-4)
        assert len(set(row["state_tok_per_sec"])) == 1
    assert curves.roofline((0,), weight_bits=4)["halving_tokens"] == pytest.approx(18_311, abs=1)


def test_figure_6_has_the_printed_speedup_nowhere_below_a_thousand_tokens() -> None:
    found = curves.trade_off((10_000,), (128, 512))
    assert found["state_bytes"] == [1_966_080_000]
    assert found["cache_bytes"] == [167_772_160_000]
    assert found["ratio"] == [pytest.approx(1_123, abs=1), pytest.approx(4_492, abs=1)]  # ERRATA 25
    assert found["ttft_ratio"] == [pytest.approx(7.36, abs=0.01), pytest.approx(26.44, abs=0.01)]


def test_every_stage_of_a_made_up_device() -> None:
    line = timeline("inject", CHIP, Question(100, 50, 11, 2, 1_000_000))
    seconds = {stage.name: stage.seconds for stage in line.stages}
    assert seconds == pytest.approx(
        {"encode": 0.01, "search": 0.002, "load": 2e-4 + 2e-3, "inject": 2e-3, "read question": 0.5, "answer": 1.0}
    )
    assert line.added_sec == pytest.approx(0.0162)
    assert line.first_token_sec == pytest.approx(0.5162)
    assert line.joules == pytest.approx(2 * 1.5162)
    reading = timeline("in-context", CHIP, Question(100, 50, 11, 2, 1_000_000))
    assert reading.first_token_sec == pytest.approx(0.012 + 2e-4 + 860e-9 + 2.0 + 0.5)
    cached = timeline("kv-cache", CHIP, Question(100, 50, 11, 2, 1_000_000))
    assert cached.num_bytes == 3_276_800 + 430
    assert [stage.tokens for stage in cached.stages if stage.name == "read context"] == [100]  # the second chunk
    assert timeline("kv-cache", CHIP, Question(100, 50, 11, 1)).added_sec < 0.02


@given(
    st.sampled_from(WAYS), st.integers(1, 4096), st.integers(1, 64), st.integers(1, 64), st.integers(1, 5),
    st.one_of(st.none(), st.floats(0.1, 100)),
)  # fmt: skip
def test_time_has_no_gaps_and_energy_is_watts_times_seconds(
    way: str, chunk: int, query: int, answer: int, top_k: int, watts: float | None
) -> None:
    line = timeline(way, replace(CHIP, watts=watts), Question(chunk, query, answer, top_k))
    assert line.stages[0].start_sec == 0
    assert all(one.end_sec == two.start_sec for one, two in pairwise(line.stages))
    assert 0 < line.added_sec < line.first_token_sec <= line.total_sec
    alone = line.first_token_sec - line.added_sec
    assert alone == pytest.approx(CHIP.prefill_sec(query))
    if watts is None:
        assert line.joules is None
    else:
        assert line.joules == pytest.approx(watts * line.total_sec)


@given(st.floats(1, 1e6), st.floats(1e6, 1e12), st.floats(0, 1e-3), st.floats(0, 0.1), st.integers(1, 10**9),
       st.integers(1, 4))  # fmt: skip
def test_from_the_break_even_on_injecting_is_sooner(
    rate: float, flash: float, latency: float, inject: float, size: int, top_k: int
) -> None:
    device = EdgeDevice("any", rate, rate, flash, latency, inject_sec=inject)
    least = purchase(device, Question(state_bytes=size, top_k=top_k)).break_even_tokens

    def brought(way: str, chunk: int) -> float:
        line = timeline(way, device, Question(chunk_tokens=chunk, state_bytes=size, top_k=top_k))
        return sum(stage.seconds for stage in line.stages if stage.name in BRINGING)

    if least > 10**8:
        return
    longer, shorter = math.ceil(1.001 * least) + 1, math.floor(0.999 * least) - 1  # a text has whole bytes
    assert brought("inject", longer) < brought("in-context", longer)
    if shorter >= 1:
        assert brought("inject", shorter) > brought("in-context", shorter)


def test_offline_encoding_is_paid_for_after_as_many_questions_as_there_are_chunks() -> None:
    bought = purchase(DEVICE, Question(), 100)
    assert bought.encode_sec == pytest.approx(100 * 512 / 19)
    assert bought.questions_to_pay == 101  # finding and injecting cost a little, too
    assert purchase(DEVICE, Question(top_k=2), 100).questions_to_pay == 51
    slow = replace(DEVICE, prefill_tok_per_sec=1e9, inject_sec=1.0)
    assert purchase(slow, Question(), 100).questions_to_pay is None
    found = bought.to_json()
    assert found["encode_corpus_joules"] == found["encode_corpus_sec"]
    assert found["composition_exact"] is True
    assert purchase(DEVICE, Question(top_k=2), 100).to_json()["composition_exact"] is False


def test_presets() -> None:
    assert device_named("paper") == DEVICE
    platforms = [device_named(name) for name in PRESETS[1:]]
    assert [device.name for device in platforms] == [place.name for place in PAPER.platforms]
    assert platforms[0].decode_tok_per_sec == pytest.approx(1.75, abs=0.005)
    assert all(device.watts is None for device in platforms)
    with pytest.raises(UsageError, match="no such device; given: abacus; expected: paper, ufs4"):
        device_named("abacus")


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf, -math.inf, 1e300])
@pytest.mark.parametrize("name", ["decode_tok_per_sec", "prefill_tok_per_sec", "flash_bytes_per_sec", "watts"])
def test_no_device_has_such_a_number(name: str, value: float) -> None:
    with pytest.raises(UsageError, match="is out of range"):
        replace(CHIP, **{name: value})


@pytest.mark.parametrize("name", ["flash_latency_sec", "encoder_sec", "search_sec", "inject_sec", "tokenize_sec"])
def test_a_time_may_be_nothing_but_not_less(name: str) -> None:
    assert getattr(replace(CHIP, **{name: 0.0}), name) == 0
    for value in (-1e-9, math.nan, math.inf, 1e9):
        with pytest.raises(UsageError, match="is out of range"):
            replace(CHIP, **{name: value})


@pytest.mark.parametrize("name", ["chunk_tokens", "query_tokens", "answer_tokens", "top_k", "state_bytes"])
def test_no_question_has_such_a_size(name: str) -> None:
    for value in (0, -1, 10**18):
        with pytest.raises(UsageError, match="is out of range; given"):
            Question(**{name: value})


def test_ways_and_corpora_that_are_none() -> None:
    with pytest.raises(UsageError, match="no such way"):
        timeline("guess", DEVICE, Question())
    for chunks in (0, 2, 10**13):
        with pytest.raises(UsageError, match="--chunks is out of range"):
            purchase(DEVICE, Question(top_k=3), chunks)
