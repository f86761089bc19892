"""The planner takes the quickest of the ways that lead to the same context."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precog.errors import StateError
from precog.plan import WAYS, Need, ReadSpeed, Speed, choose

CPU = Speed(pass_sec=0.02, token_sec=1e-3, open_bytes_per_sec=2e9)
GPU = Speed(pass_sec=2e-3, token_sec=1e-5, open_bytes_per_sec=1e10)
NVME = ReadSpeed(latency_sec=1e-4, bytes_per_sec=3e9)
MIB = 1 << 20


def need(tokens=512, state_bytes=196_608):
    return Need(tokens, state_bytes, state_bytes + 4096 if state_bytes else 0)


def test_a_small_state_is_injected_and_a_large_one_read_again_on_a_fast_gpu():
    assert choose([need()], CPU, NVME, ("inject", "in-context")).way == "inject"
    large = need(state_bytes=99 * MIB)  # a Mamba-2 of 1.3 B
    assert choose([large], CPU, NVME, ("inject", "in-context")).way == "inject"
    plan = choose([large], GPU, NVME, ("inject", "in-context"))
    assert plan.way == "in-context"
    assert plan.estimates_sec["in-context"] == pytest.approx(2e-3 + 512e-5)
    assert plan.estimates_sec["inject"] == pytest.approx(1e-4 + (99 * MIB + 4096) / 3e9 + 99 * MIB / 1e10)
    assert "reading 512 tokens" in plan.reason


def test_resuming_reads_all_texts_but_the_longest():
    plan = choose([need(100), need(500), need(200)], CPU, NVME, ("resume", "in-context"))
    assert plan.way == "resume"
    assert plan.estimates_sec["resume"] == pytest.approx(1e-4 + 200_704 / 3e9 + 196_608 / 2e9 + 0.02 + 0.3)
    assert plan.estimates_sec["in-context"] == pytest.approx(0.02 + 0.8)


def test_what_is_not_stored_cannot_be_injected():
    plan = choose([need(state_bytes=0)], CPU, NVME)
    assert plan.way == "in-context"
    assert "no state of this text is stored" in plan.reason
    assert set(plan.estimates_sec) == {"in-context"}
    assert "resume" not in choose([need(100), need(500, state_bytes=0)], CPU, NVME).estimates_sec
    with pytest.raises(StateError, match="no way"):
        choose([need(state_bytes=0)], CPU, NVME, ("inject",))
    with pytest.raises(StateError, match="needs a text"):
        choose([], CPU, NVME)


@given(
    st.lists(st.tuples(st.integers(1, 4096), st.sampled_from([0, 196_608, 99 * MIB])), min_size=1, max_size=5),
    st.sampled_from([CPU, GPU]),
)
def test_the_chosen_way_is_the_least_of_the_estimates(sizes, speed):
    plan = choose([need(*size) for size in sizes], speed, NVME)
    assert plan.estimates_sec[plan.way] == min(plan.estimates_sec.values())
    assert set(plan.estimates_sec) <= set(WAYS)
    assert plan.to_json()["chosen"] == plan.way
