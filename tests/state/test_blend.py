"""Means of states whose reals are in units of exp(m), or are inputs of a convolution, against what they stand for."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from precog.errors import StateError
from precog.state import Scaled, State, StateSpec, blend, compose

MINE = "ab" * 32
# RWKV-4's layout: numerator 0–3 and denominator 4–7 in units of exp(m), m in 8–11, two inputs of a token shift
SPEC = StateSpec(2, 14, (0, 0), 0, MINE, window=(12, 14), scaled=(Scaled(0, 4, 8), Scaled(4, 8, 8)))


def rows(count, seed):
    made = torch.from_numpy(np.random.default_rng(seed).normal(size=(2, count, 14)).astype(np.float32))
    made[:, :, 8:12] *= 20
    return made


def meant(reals):
    """What numerators and denominators stand for, in FP64."""
    reals = reals.double()
    return torch.cat([reals[..., 0:4] * reals[..., 8:12].exp(), reals[..., 4:8] * reals[..., 8:12].exp()], -1)


@settings(max_examples=25)
@given(count=st.integers(2, 5), seed=st.integers(0, 2**32 - 1))
def test_the_mean_is_taken_of_what_the_reals_stand_for(count, seed):
    members = rows(count, seed)
    weights = np.random.default_rng(seed).dirichlet(np.ones(count)).tolist()
    made = blend(members, weights, SPEC)
    expected = (meant(members) * torch.tensor(weights).double()[None, :, None]).sum(1)
    size = (meant(members).abs() * torch.tensor(weights).double()[None, :, None]).sum(1)
    assert ((meant(made) - expected).abs() <= 1e-5 * size).all()
    assert torch.isfinite(made).all()


def test_a_mean_of_the_numbers_as_they_stand_is_another():
    members = rows(2, 0)
    naive = members.mean(1)
    assert not torch.allclose(meant(naive), meant(blend(members, (0.5, 0.5), SPEC)), rtol=0.1)


def test_neighbours_may_share_a_unit():
    spec = StateSpec(1, 8, (0, 0), 0, MINE, scaled=(Scaled(0, 6, 6, repeat=3),))
    members = torch.tensor([[[1.0, 2, 3, 4, 5, 6, 0, 1], [1.0, 1, 1, 1, 1, 1, 1, 0]]])
    made = blend(members, (0.5, 0.5), spec)[0]
    assert made[6:].tolist() == [1, 1]
    e = float(np.exp(-1))
    torch.testing.assert_close(made[:3], 0.5 * (e * torch.tensor([1.0, 2, 3]) + 1))
    torch.testing.assert_close(made[3:6], 0.5 * (torch.tensor([4.0, 5, 6]) + e))


def test_a_member_without_weight_does_not_set_the_unit():
    members = rows(2, 1)
    members[:, 1, 8:12] = 300  # in its units everything else would vanish
    torch.testing.assert_close(blend(members, (1.0, 0.0), SPEC), members[:, 0])


def test_inputs_of_the_convolution_follow_one_member():
    members = rows(3, 2)
    assert torch.equal(blend(members, (0.2, 0.5, 0.3), SPEC)[:, 12:], members[:, 1, 12:])
    assert torch.equal(blend(members, (0.4, 0.4, 0.2), SPEC)[:, 12:], members[:, 0, 12:])
    assert torch.equal(blend(members, (0.4, 0.4, 0.2), SPEC, dominant=2)[:, 12:], members[:, 2, 12:])


def test_states_bound_to_positions_are_not_averaged():
    spec = dataclasses.replace(SPEC, averages=False)
    members = [
        State(reals, tail=None, num_tokens=3, fingerprint=MINE, decay_time=torch.zeros(2, 0))
        for reals in rows(2, 3).unbind(1)
    ]
    with pytest.raises(StateError, match="cannot be averaged"):
        compose(members, [0.1, 0.2], spec)
    assert compose(members[:1], [0.1], spec).state is members[0]


def test_norms_of_such_states_are_not_compared():
    members = [
        State(reals, tail=None, num_tokens=3, fingerprint=MINE, decay_time=torch.zeros(2, 0))
        for reals in rows(2, 3).unbind(1)
    ]
    with pytest.raises(StateError, match="means nothing"):
        compose(members, [0.1, 0.2], SPEC, renorm="layer")
