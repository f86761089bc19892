"""Rules of composition against brute force, on random states and random decay."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from precog.errors import ForeignStateError, StateError, UsageError
from precog.state import RULES, Decay, State, StateSpec, compose, reading_order, with_baseline
from precog.state.rules import MOST_PERMUTED

LAYERS, GROUPS, PER_GROUP = 3, 2, 2
COUNT = GROUPS * PER_GROUP
MINE, OTHER = "ab" * 32, "cd" * 32
SPEC = StateSpec(LAYERS, 2 * COUNT, (0, 0), GROUPS, MINE)
seeds = st.integers(0, 2**32 - 1)


def decay_of(kind, seed=0):
    rng = np.random.default_rng(seed)
    rates = -torch.from_numpy(rng.uniform(0.01, 2, (LAYERS, COUNT)).astype(np.float32))
    turning = torch.from_numpy(rng.uniform(0, 20, (LAYERS, COUNT)).astype(np.float32))
    return Decay(rates, turning if kind == "complex" else None, MINE)


def members(count, kind="complex", seed=0, **changes):
    """Random boundary states: 2 reals per complex coordinate, 3 reals per real one."""
    rng = np.random.default_rng(seed)
    size = COUNT * (2 if kind == "complex" else 3)
    values = {"tail": None, "fingerprint": MINE, **changes}
    return [
        State(
            torch.from_numpy(rng.normal(size=(LAYERS, size)).astype(np.float32)),
            num_tokens=int(rng.integers(1, 50)),
            decay_time=torch.from_numpy(rng.uniform(0.01, 3, (LAYERS, GROUPS)).astype(np.float32)),
            **values,
        )
        for _ in range(count)
    ]


def loop(states, decay, kind):
    """H ← P ⊙ H + h coordinate by coordinate, written out from the layout."""
    size = states[0].recurrent.shape[1]
    total = np.zeros((LAYERS, size))
    for state in states:
        reals, time = state.recurrent.double().numpy(), state.decay_time.double().numpy()
        after = np.empty_like(total)
        for layer in range(LAYERS):
            for c in range(COUNT):
                tau = time[layer, c // PER_GROUP]
                rate = float(decay.rates[layer, c])
                if kind == "real":
                    for r in range(3 * c, 3 * c + 3):
                        after[layer, r] = np.exp(rate * tau) * total[layer, r] + reals[layer, r]
                else:
                    factor = np.exp((rate + 1j * float(decay.frequencies[layer, c])) * tau)
                    value = factor * (total[layer, c] + 1j * total[layer, COUNT + c])
                    after[layer, c] = value.real + reals[layer, c]
                    after[layer, COUNT + c] = value.imag + reals[layer, COUNT + c]
        total = after
    return total


@pytest.mark.parametrize("kind", ["real", "complex"])
@settings(max_examples=20)
@given(count=st.integers(2, 5), seed=seeds)
def test_concat_is_the_recurrence_over_whole_texts_best_last(kind, count, seed):
    states, decay = members(count, kind, seed), decay_of(kind, seed)
    scores = np.random.default_rng(seed).normal(size=count).tolist()
    before = [state.recurrent for state in states]
    made = compose(states, scores, SPEC, rule="concat", decay=decay)
    ordered = [states[j] for j in sorted(range(count), key=lambda j: scores[j])]
    np.testing.assert_allclose(made.state.recurrent.numpy(), loop(ordered, decay, kind), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(made.state.decay_time, torch.stack([s.decay_time for s in states]).sum(0))
    assert made.state.num_tokens == sum(state.num_tokens for state in states)
    assert not made.exact
    assert made.weights == (1 / count,) * count
    assert all(torch.equal(state.recurrent, reals) for state, reals in zip(states, before, strict=True))


@pytest.mark.parametrize("kind", ["real", "complex"])
@settings(max_examples=12)
@given(count=st.integers(2, 5), seed=seeds)
def test_permute_is_the_mean_over_all_orders(kind, count, seed):
    states, decay = members(count, kind, seed), decay_of(kind, seed)
    made = compose(states, [0.5] * count, SPEC, rule="permute", decay=decay)
    expected = np.mean([loop(order, decay, kind) for order in itertools.permutations(states)], axis=0)
    np.testing.assert_allclose(made.state.recurrent.numpy(), expected, rtol=1e-4, atol=1e-5)
    assert not made.exact


@pytest.mark.parametrize("kind", ["real", "complex"])
def test_permute_of_many_is_the_mean_over_rotations_of_the_reading_order(kind):
    count = MOST_PERMUTED + 2
    states, decay = members(count, kind), decay_of(kind)
    scores = np.random.default_rng(3).normal(size=count).tolist()
    made = compose(states, scores, SPEC, rule="permute", decay=decay)
    order = [states[j] for j in reading_order(scores)]
    turns = [order[turn:] + order[:turn] for turn in range(count)]
    expected = np.mean([loop(turn, decay, kind) for turn in turns], axis=0)
    np.testing.assert_allclose(made.state.recurrent.numpy(), expected, rtol=1e-4, atol=1e-5)


@settings(max_examples=20)
@given(count=st.integers(2, MOST_PERMUTED), seed=seeds)
def test_permute_does_not_know_the_order(count, seed):
    states, decay = members(count, "complex", seed), decay_of("complex", seed)
    scores = np.random.default_rng(seed).normal(size=count).tolist()
    made = compose(states, scores, SPEC, rule="permute", decay=decay)
    turned = compose(states[::-1], scores, SPEC, rule="permute", decay=decay)
    torch.testing.assert_close(made.state.recurrent, turned.state.recurrent, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("renorm", ["none", "layer"])
def test_one_member_is_the_identity_under_every_rule(rule, renorm):
    [member] = members(1)
    made = compose([member], [0.2], SPEC, rule=rule, renorm=renorm, decay=decay_of("complex"))
    assert made.state is member
    assert made.exact
    assert made.weights == (1.0,)


@pytest.mark.parametrize("rule", RULES)
def test_the_order_members_are_given_in_does_not_matter(rule):
    states, scores, decay = members(4), [0.1, 0.9, 0.3, 0.7], decay_of("complex")
    made = compose(states, scores, SPEC, rule=rule, decay=decay)
    turned = compose(states[::-1], scores[::-1], SPEC, rule=rule, decay=decay)
    torch.testing.assert_close(made.state.recurrent, turned.state.recurrent)


def test_of_equal_scores_the_first_is_read_last():
    assert reading_order([0.5, 0.5, 0.1, 0.5]) == [2, 3, 1, 0]


@pytest.mark.parametrize("rule", RULES)
def test_renorm_gives_every_layer_the_mean_norm_of_its_members(rule):
    states, scores, decay = members(3), [0.4, 0.2, 0.9], decay_of("complex")
    plain = compose(states, scores, SPEC, rule=rule, decay=decay)
    made = compose(states, scores, SPEC, rule=rule, renorm="layer", decay=decay)
    norms = torch.stack([state.recurrent.norm(dim=1) for state in states])
    wanted = (norms * torch.tensor(made.weights)[:, None]).sum(0)
    torch.testing.assert_close(made.state.recurrent.norm(dim=1), wanted)
    scale = made.state.recurrent / plain.state.recurrent
    torch.testing.assert_close(scale, scale[:, :1].expand_as(scale), rtol=1e-4, atol=1e-4)
    with pytest.raises(UsageError, match="--compose-renorm"):
        compose(states, scores, SPEC, renorm="row")


def test_a_layer_of_zeros_stays_zero():
    states = [
        State(
            state.recurrent * torch.tensor([1.0, 0.0, 1.0])[:, None],
            tail=None,
            num_tokens=3,
            fingerprint=MINE,
            decay_time=state.decay_time,
        )
        for state in members(3)
    ]
    for rule in RULES:
        made = compose(states, [1.0, 2.0, 3.0], SPEC, rule=rule, renorm="layer", decay=decay_of("complex"))
        assert not made.state.recurrent[1].any()
        assert torch.isfinite(made.state.recurrent).all()


@settings(max_examples=20)
@given(share=st.floats(0, 1), rule=st.sampled_from(RULES))
def test_a_semantic_state_is_a_baseline(share, rule):
    states, [semantic] = members(3), members(1, seed=9)
    made = compose(states, [0.3, 0.1, 0.6], SPEC, rule=rule, decay=decay_of("complex"))
    over = with_baseline(made, semantic, share, SPEC)
    expected = (1 - share) * made.state.recurrent + share * semantic.recurrent
    torch.testing.assert_close(over.state.recurrent, expected)
    assert sum(over.weights) + over.baseline == pytest.approx(1)
    assert over.rule == rule
    if share == 0:
        assert over is made
    else:
        assert not over.exact


def test_baselines_that_cannot_be_are_refused():
    [member] = members(1)
    made = compose([member], [1.0], SPEC)
    for share in (-0.1, 1.1, float("nan")):
        with pytest.raises(UsageError):
            with_baseline(made, member, share, SPEC)
    with pytest.raises(ForeignStateError):
        with_baseline(made, members(1, fingerprint=OTHER)[0], 0.5, SPEC)
    with pytest.raises(StateError, match="live"):
        with_baseline(made, members(1, tail=torch.zeros(LAYERS, 3, 4))[0], 0.5, SPEC)


@pytest.mark.parametrize("rule", ["concat", "permute"])
def test_rules_over_decay_refuse_what_they_cannot_know(rule):
    states, scores = members(2), [0.1, 0.2]
    with pytest.raises(StateError, match="how the model's states fade"):
        compose(states, scores, SPEC, rule=rule)
    foreign = Decay(decay_of("real").rates, None, OTHER)
    with pytest.raises(ForeignStateError):
        compose(states, scores, SPEC, rule=rule, decay=foreign)
    lost = State(states[0].recurrent, tail=None, num_tokens=4, fingerprint=MINE, decay_time=torch.zeros(LAYERS, GROUPS))
    with pytest.raises(StateError, match="τ was not kept"):
        compose([states[0], lost], scores, SPEC, rule=rule, decay=decay_of("complex"))
    uneven = Decay(decay_of("complex").rates[:, :3], None, MINE)
    with pytest.raises(StateError, match="does not fit"):
        compose(states, scores, SPEC, rule=rule, decay=uneven)


def test_unknown_rules_are_named():
    with pytest.raises(UsageError, match="mean, concat, permute"):
        compose(members(2), [0.1, 0.2], SPEC, rule="soup")


@settings(max_examples=30)
@given(seed=seeds, kind=st.sampled_from(["real", "complex"]))
def test_coordinates_go_back_to_the_same_reals(seed, kind):
    [state] = members(1, kind, seed)
    decay = decay_of(kind, seed)
    assert torch.equal(decay.reals(decay.coordinates(state)), state.recurrent)
    assert (decay.factors(state).abs() < 1).all()
