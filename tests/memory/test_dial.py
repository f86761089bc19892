"""The K-dial: where its states lie, what they cost, and when they were."""

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precog.backbones.tenns.config import TennsConfig
from precog.errors import InputError, UsageError
from precog.memory.dial import Dial, joint_positions, moments
from precog.memory.state_cost import StateCost, check_budget, chunk_bytes
from precog.state import LayerSubset, StateSpec, codec_named

PAPER = TennsConfig.preset("paper")
SPEC = StateSpec(
    layers=PAPER.layers,
    reals_per_layer=PAPER.state_reals,
    tail_shape=(3, PAPER.inner),
    decay_groups=PAPER.decay_groups,
    fingerprint="ab" * 32,
)
dials = st.one_of(
    st.builds(Dial, count=st.integers(1, 600)), st.builds(Dial, stride=st.integers(1, 600)), st.just(Dial.parse("all"))
)
ZONE = datetime.timezone(datetime.timedelta(hours=2))
NOON = datetime.datetime(2026, 3, 1, 12, tzinfo=ZONE)


@given(dial=dials, num_tokens=st.integers(1, 700))
def test_positions_rise_evenly_and_end_with_the_chunk(dial, num_tokens):
    positions = dial.positions(num_tokens)
    assert positions[-1] == num_tokens
    assert positions[0] >= 1
    gaps = [b - a for a, b in zip((0, *positions), positions, strict=False)]
    assert min(gaps) >= 1
    assert len(positions) == dial.num_states(num_tokens)
    if dial.count:
        assert len(positions) == min(dial.count, num_tokens)
        assert max(gaps) - min(gaps) <= 1
    else:
        assert set(gaps[1:]) <= {dial.stride}
        assert gaps[0] <= dial.stride


@given(stride=st.integers(1, 40), times=st.integers(1, 8), num_tokens=st.integers(1, 300))
def test_coarser_levels_lie_inside_finer_ones(stride, times, num_tokens):
    fine, coarse = Dial(stride=stride), Dial(stride=stride * times)
    assert set(coarse.positions(num_tokens)) <= set(fine.positions(num_tokens))
    assert joint_positions([coarse, fine], num_tokens) == fine.positions(num_tokens)


@given(dial=dials)
def test_a_dial_reads_back_what_it_writes(dial):
    assert Dial.parse(str(dial)) == dial


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("all", (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)),
        ("/1", (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)),
        ("/4", (2, 6, 10)),
        ("/99", (10,)),
        ("1", (10,)),
        (" 3 ", (4, 7, 10)),
        ("99", (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)),
    ],
)
def test_forms_of_the_dial(text, expected):
    assert Dial.parse(text).positions(10) == expected


@pytest.mark.parametrize("text", ["0", "/0", "", "/", "-1", "1.5", "x", "all/2", "//2", "1 2", "٣", "9" * 5000, "/-2"])
def test_what_is_no_setting_is_refused(text):
    with pytest.raises(UsageError, match="no such setting of the K-dial"):
        Dial.parse(text)


def test_k_of_nothing_is_said_to_be_impossible():
    with pytest.raises(UsageError, match="at least the state of its last token"):
        Dial.parse("0")
    for values in ({}, {"count": 2, "stride": 2}, {"count": -1}, {"count": 3, "stride": -3}):
        with pytest.raises(UsageError):
            Dial(**values)


def test_empty_chunks_and_no_levels_are_refused():
    with pytest.raises(InputError):
        Dial(count=1).positions(0)
    with pytest.raises(InputError):
        joint_positions([], 5)


def test_every_token_of_the_papers_model_takes_96_megabytes():
    fp16 = codec_named("fp16")
    cost = StateCost.of(SPEC, fp16, keeps_decay_time=False)
    assert fp16.state_bytes(SPEC) == 196_608
    assert chunk_bytes([Dial.parse("all")], 512, cost) == 512 * (196_608 + 24)
    assert round(chunk_bytes([Dial.parse("all")], 512, cost) / 2**20) == 96
    assert StateCost.of(SPEC, fp16).num_bytes == cost.num_bytes + 24_576
    half = StateCost.of(SPEC, codec_named("fp32"), LayerSubset.parse("bottom:12", 24), keeps_decay_time=False)
    assert half.num_bytes == 196_608


def test_what_does_not_fit_is_refused_with_the_largest_that_does():
    cost = 1024
    every, eight, one = Dial.parse("all"), Dial.parse("8"), Dial.parse("1")
    assert check_budget([eight], 512, cost, 8 * 1024) == 8 * 1024
    assert check_budget([eight, one], 512, cost, 8 * 1024) == 8 * 1024
    with pytest.raises(UsageError, match="the largest K that fits is 7") as caught:
        check_budget([eight], 512, cost, 8 * 1024 - 1)
    assert caught.value.given == "8 states of 1024 B for 512 tokens: 8192 B"
    with pytest.raises(UsageError, match="the largest K that fits is 97"):
        check_budget([every], 512, cost, 100_000)
    with pytest.raises(UsageError, match="not even one state fits"):
        check_budget([one], 512, cost, 1023)


@given(budget=st.integers(1, 600_000), num_tokens=st.integers(1, 600))
def test_the_largest_k_that_is_named_fits_and_the_next_does_not(budget, num_tokens):
    cost, every = 1024, Dial(stride=1)
    if budget >= num_tokens * 1024:
        assert check_budget([every], num_tokens, cost, budget) == num_tokens * 1024
        return
    with pytest.raises(UsageError) as caught:
        check_budget([every], num_tokens, cost, budget)
    hint = caught.value.hint or ""
    if budget < 1024:
        assert "not even one" in hint
        return
    largest = int(hint.rsplit(" ", 1)[1])
    check_budget([Dial(count=largest)], num_tokens, cost, budget)
    with pytest.raises(UsageError):
        check_budget([Dial(count=largest + 1)], num_tokens, cost, budget)


def test_states_are_stamped_along_the_turn():
    hour = datetime.timedelta(hours=1)
    stamps = moments((5, 10, 20), 20, NOON, NOON + hour)
    assert stamps == (NOON + hour / 4, NOON + hour / 2, NOON + hour)
    assert all(stamp.tzinfo is ZONE for stamp in stamps)
    assert moments((5, 20), 20, NOON) == (NOON, NOON)
    assert moments((5, 20), 20, None) == (None, None)
    assert moments((20,), 20, NOON, NOON) == (NOON,)


def test_times_that_cannot_be_are_refused():
    bare = datetime.datetime(2026, 3, 1, 12)
    for time, end in ((NOON, NOON - datetime.timedelta(seconds=1)), (None, NOON), (bare, None), (NOON, bare)):
        with pytest.raises(InputError):
            moments((1,), 1, time, end)
    for positions, num_tokens in (((0,), 3), ((4,), 3), ((1,), 0)):
        with pytest.raises(InputError):
            moments(positions, num_tokens, NOON)
