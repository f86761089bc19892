"""Codecs of rows that are more than memory, and of few bits: bounds, sizes, refusals."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from precog.errors import DamagedStateError, StateError
from precog.state import CODECS, LayerSubset, Scaled, State, StateSpec, codec_named
from precog.state.codec.groups import rounded, steps
from precog.state.codec.rotation import rotation

L, S = 3, 150
MINE = "ab" * 32
PLAIN = StateSpec(layers=L, reals_per_layer=S, tail_shape=(0, 0), decay_groups=0, fingerprint=MINE)
RAGGED = dataclasses.replace(
    PLAIN, layer_reals=(150, 9, 97), window=(4, 20), scaled=(Scaled(30, 60, 60), Scaled(100, 130, 90, repeat=5))
)
TAILED = dataclasses.replace(PLAIN, tail_shape=(3, 5), decay_groups=2, carries_tail=True)
SPECS = {"plain": PLAIN, "ragged": RAGGED, "tailed": TAILED}
ROUNDING = [name for name in CODECS if name != "fp32"]
subsets = st.sampled_from(["all", "none", "alternate", "bottom:1", "top:2", "1"])


def make(spec, reals):
    reals = np.array(reals, np.float32)
    for layer, count in enumerate(spec.layer_reals):
        reals[layer, count:] = 0
    return State(
        torch.from_numpy(reals),
        tail=torch.linspace(-9, 9, L * 15).view(L, 3, 5) if spec.carries_tail else None,
        num_tokens=7,
        fingerprint=MINE,
        decay_time=torch.zeros(L, spec.decay_groups),
    )


def back(codec, state, spec, layers=None):
    data = codec.encode(state, spec, layers)
    assert len(data) == codec.encoded_bytes(spec, layers)
    return codec.decode(data, spec, layers, num_tokens=state.num_tokens)


rows = hnp.arrays(
    np.float32,
    (L, S),
    elements=st.floats(-(2.0**100), 2.0**100, width=32)
    | st.floats(-5, 5, width=32)
    | st.floats(-(2.0**-100), 2.0**-100, width=32),
)
normal = st.builds(
    lambda seed, size: np.random.default_rng(seed).standard_normal((L, S)).astype(np.float32) * 10.0**size,
    st.integers(0, 99),
    st.integers(-36, 33),
)


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
@pytest.mark.parametrize("name", CODECS)
@settings(deadline=None, max_examples=25, phases=(Phase.explicit, Phase.generate))
@given(reals=rows | normal, subset=subsets)
def test_no_real_is_off_by_more_than_the_bound(name, spec, reals, subset):
    codec, state, layers = codec_named(name), make(spec, reals), LayerSubset.parse(subset, L)
    kept = list(layers.indices)
    found = back(codec, state, spec, layers)
    bound = codec.bound(state, spec)
    assert torch.isfinite(found.recurrent).all()
    error = (found.recurrent.double() - state.recurrent.double()).abs()[kept]
    assert (error <= bound[kept].double() * 1.000001).all()
    assert not found.recurrent[[layer for layer in range(L) if layer not in kept]].any()
    if spec.scaled:  # exponents are exact, whatever else is not
        m = list(spec.scale_positions)
        assert torch.equal(found.recurrent[kept][:, m], state.recurrent[kept][:, m])
        assert not bound[:, m].any()
        for layer in kept:
            assert not found.recurrent[layer, spec.layer_reals[layer] :].any()
    if spec.carries_tail and name != "fp16":  # whose exponent is that of the whole layer
        assert ((found.tail - state.tail)[kept].abs() <= (0 if codec.is_exact else 2.0**-11 * 9)).all()
    assert codec.is_exact == (not bound.any()) or not state.recurrent.any()


@pytest.mark.parametrize(("name", "spread"), [("int8", 1), ("int8-rot", 8), ("int4", 1), ("int4-rot", 8)])
@settings(deadline=None, max_examples=40, phases=(Phase.explicit, Phase.generate))
@given(reals=hnp.arrays(np.float32, (2, 128), elements=st.floats(-1e4, 1e4, width=32)))
def test_the_bound_is_half_a_step_of_the_group_or_eight_halves_when_it_is_rotated(name, spread, reals):
    spec = dataclasses.replace(PLAIN, layers=2, reals_per_layer=128)
    state = State(torch.from_numpy(reals), tail=None, num_tokens=1, fingerprint=MINE, decay_time=torch.zeros(2, 0))
    levels = 2 ** codec_named(name).bits - 1
    groups = reals.reshape(-1, 64).astype(np.float64)
    if spread > 1:
        groups = groups @ rotation().numpy().astype(np.float64).T
    width = groups.max(1) - groups.min(1)
    # FP16 rounds low and step outwards: by 2^-10 of either, and by 2^-35 of a layer where they are small
    floor = 2.0**-33 * np.abs(reals).max(1).repeat(2) * spread
    most = spread * ((width + 2.0**-10 * np.abs(groups).max(1)) / levels * 1.004 + floor) / 2
    most += np.abs(reals).reshape(-1, 64).max(1) * 2.0**-13 * (spread > 1) + np.abs(groups).max(1) * 2.0**-20
    bound = codec_named(name).bound(state, spec).numpy().reshape(-1, 64)
    assert (bound <= most[:, None] + 2.0**-120).all()
    assert (bound >= (spread * width / levels / 2 * 0.999999)[:, None]).all()


def test_codes_reach_both_ends_of_a_group_and_a_constant_one_is_exact():
    groups = np.random.default_rng(0).standard_normal((50, 64)).astype(np.float32)
    for bits in (4, 8):
        codes = rounded(groups, bits).codes
        codes = np.stack((codes & 15, codes >> 4), -1).reshape(50, 64) if bits == 4 else codes
        assert (codes.min(1) == 0).all()
        assert (codes.max(1) >= 2**bits - 2).all()
        assert not steps(np.full((3, 64), 0.75, np.float32), bits).any()
    state = make(PLAIN, np.full((L, S), 0.75))
    spec = dataclasses.replace(PLAIN, reals_per_layer=128)
    state = State(state.recurrent[:, :128], tail=None, num_tokens=1, fingerprint=MINE, decay_time=torch.zeros(L, 0))
    for name in ("int8", "int4"):
        assert torch.equal(back(codec_named(name), state, spec).recurrent, state.recurrent)


def test_the_rotation_is_orthonormal_fixed_and_hides_an_outlier():
    turn = rotation()
    assert torch.equal(turn @ turn.T, torch.eye(64))
    assert turn[0, :8].sign().tolist() == [1, -1, 1, -1, 1, -1, 1, 1] or turn[0].abs().eq(0.125).all()
    one = torch.zeros(1, 64)
    one[0, 17] = 8
    assert (one @ turn.T).abs().max() == 1
    generator = torch.Generator().manual_seed(0)
    reals = torch.randn(L, 6400, generator=generator)
    reals[:, ::97] *= 20
    spec = dataclasses.replace(PLAIN, reals_per_layer=6400)
    state = State(reals, tail=None, num_tokens=1, fingerprint=MINE, decay_time=torch.zeros(L, 0))
    for width in ("int8", "int4"):
        plain, turned = (
            float((back(codec_named(n), state, spec).recurrent - reals).norm()) for n in (width, f"{width}-rot")
        )
        assert turned < 0.75 * plain


@pytest.mark.parametrize("name", ROUNDING)
def test_exponents_survive_where_nothing_else_would(name):
    spec = dataclasses.replace(PLAIN, scaled=(Scaled(0, 50, 50),))
    reals = np.random.default_rng(1).standard_normal((L, S))
    reals[:, 50:100] = -1e38
    reals[1, 50:100] = 700.123456
    state = make(spec, reals)
    found = back(codec_named(name), state, spec).recurrent
    assert torch.equal(found[:, 50:100], state.recurrent[:, 50:100])
    assert float((found - state.recurrent).abs().max()) < 0.5


def test_a_window_is_kept_at_sixteen_bits_whatever_the_memory_is():
    spec = dataclasses.replace(PLAIN, window=(100, 150))
    reals = np.random.default_rng(2).standard_normal((L, S))
    reals[2, 100:] *= 1e6  # beyond FP16: an exponent of its own
    state = make(spec, reals)
    for name in ROUNDING[1:]:
        error = (back(codec_named(name), state, spec).recurrent - state.recurrent).abs()
        assert (error[:, 100:] <= state.recurrent[:, 100:].abs() * 2.0**-11 + 2.0**-19).all()
        assert error[:, :100].max() > 1e-3


@pytest.mark.parametrize("name", CODECS)
def test_what_cannot_be_stored_is_refused(name):
    codec = codec_named(name)
    for value in (math.nan, math.inf, -math.inf):
        reals = np.zeros((L, S))
        reals[1, 3] = value
        with pytest.raises(StateError, match="not finite"):
            codec.encode(make(RAGGED, reals), RAGGED)
    beyond = State(torch.ones(L, S), tail=None, num_tokens=1, fingerprint=MINE, decay_time=torch.zeros(L, 0))
    with pytest.raises(StateError, match="beyond the reals of a layer"):
        codec.encode(beyond, RAGGED)
    if name != "fp32":
        with pytest.raises(StateError, match=r"too large for .*store it as fp32"):
            codec.encode(make(PLAIN, np.full((L, S), 3.4025e38)), PLAIN)


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_bytes_that_no_codec_writes_are_refused(name, spec):
    codec = codec_named(name)
    good = codec.encode(make(spec, np.ones((L, S))), spec)
    with pytest.raises(DamagedStateError, match="wrong size"):
        codec.decode(good + b"\0", spec, num_tokens=1)
    width = 4 if codec.is_exact or spec.scaled else 2
    with pytest.raises(DamagedStateError, match="not finite"):
        codec.decode(b"\xff" * width + good[width:], spec, num_tokens=1)


def test_sizes_of_a_large_state_before_it_exists():
    memory, window = 64 * 64 * 128, 4352 * 4  # of Mamba-2 1.3B
    spec = StateSpec(
        layers=48,
        reals_per_layer=memory + window,
        tail_shape=(0, 0),
        decay_groups=0,
        fingerprint=MINE,
        window=(memory, memory + window),
    )
    found = {name: codec_named(name).encoded_bytes(spec) for name in CODECS}
    assert found["fp32"] == 48 * 4 * (memory + window) == 104_005_632
    assert found["fp16"] == found["fp32"] // 2 + 48
    assert found["int8"] == found["int8-rot"] == 48 * (memory + memory // 16 + 2 * window + 2)
    assert found["int4"] == found["int4-rot"] == 48 * (memory // 2 + memory // 16 + 2 * window + 2)
    assert found["fp32"] / found["int4"] > 6.5
