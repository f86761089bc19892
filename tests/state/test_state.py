"""Laws 3, 4 and 5 as far as states alone go: codecs, subsets, composition, immutability."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from precog.errors import DamagedStateError, ForeignStateError, StateError, UsageError
from precog.state import (
    CODECS,
    Float16Codec,
    Float32Codec,
    LayerSubset,
    State,
    StateBatch,
    StateSpec,
    codec_named,
    compose,
    softmax_weights,
)

L, S, G = 4, 6, 2
MINE, OTHER = "ab" * 32, "cd" * 32
SPEC = StateSpec(layers=L, reals_per_layer=S, tail_shape=(3, 5), decay_groups=G, fingerprint=MINE)
LARGEST = 65504 * 2.0**112
finite = hnp.arrays(np.float32, (L, S), elements=st.floats(-LARGEST, LARGEST, width=32))
subsets = st.sampled_from(["all", "none", "alternate", "bottom:1", "bottom:4", "top:3", "0,3", "2"])


def make(reals, *, tail=False, fingerprint=MINE, num_tokens=7):
    return State(
        torch.as_tensor(reals, dtype=torch.float32),
        tail=torch.ones(L, 3, 5) if tail else None,
        num_tokens=num_tokens,
        fingerprint=fingerprint,
        decay_time=torch.arange(L * G, dtype=torch.float32).view(L, G),
    )


@settings(deadline=None)
@given(reals=finite, name=subsets)
def test_fp32_round_trip_is_bit_exact_and_left_out_layers_are_zero(reals, name):
    layers = LayerSubset.parse(name, L)
    codec = Float32Codec()
    data = codec.encode(make(reals), SPEC, layers)
    assert len(data) == codec.encoded_bytes(SPEC, layers) == 4 * S * len(layers.indices)
    back = codec.decode(data, SPEC, layers, num_tokens=7, decay_time=make(reals).decay_time)
    expected = np.zeros((L, S), np.float32)
    expected[list(layers.indices)] = reals[list(layers.indices)]
    assert back.recurrent.numpy().tobytes() == expected.tobytes()  # the sign of zero included
    assert torch.equal(back.decay_time, make(reals).decay_time)
    assert (back.num_tokens, back.fingerprint, back.is_live) == (7, MINE, False)


@settings(deadline=None, max_examples=200)
@given(reals=finite, name=subsets)
def test_fp16_never_clips_and_keeps_its_bound(reals, name):
    layers = LayerSubset.parse(name, L)
    codec = Float16Codec()
    state = make(reals)
    data = codec.encode(state, SPEC, layers)
    assert len(data) == codec.encoded_bytes(SPEC, layers) == codec.state_bytes(SPEC, layers) + len(layers.indices)
    back = codec.decode(data, SPEC, layers, num_tokens=7).recurrent
    kept = list(layers.indices)
    bound = codec.bound(state, SPEC)[kept].double()
    exact = state.recurrent[kept].double()
    assert torch.isfinite(back).all()
    assert ((back[kept].double() - exact).abs() <= bound * 1.000001).all()
    in_range = exact.abs().amax(1) <= 65504
    assert (
        bound[in_range] <= (2.0**-11 * exact[in_range].abs() + 2.0**-25) * 1.000001
    ).all()  # the bound itself is FP32


def test_fp16_bytes_can_be_read_with_numpy_alone():
    reals = np.linspace(-3, 3, L * S, dtype=np.float32).reshape(L, S)
    reals[2] *= 1e6
    data = Float16Codec().encode(make(reals), SPEC)
    values = np.frombuffer(data, "<f2", L * S).reshape(L, S).astype(np.float64)
    exponents = np.frombuffer(data, np.int8, L, 2 * L * S)
    assert exponents.tolist() == [0, 0, 5, 0]
    np.testing.assert_allclose(values * 2.0 ** exponents[:, None], reals, rtol=2**-11, atol=2**-18)


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_non_finite_values_are_never_encoded_nor_decoded(codec, value):
    reals = np.zeros((L, S), np.float32)
    reals[1, 2] = value
    with pytest.raises(StateError, match="not finite"):
        codec.encode(make(reals), SPEC)
    good = bytearray(codec.encode(make(np.zeros((L, S))), SPEC))
    kind = "<f4" if codec.is_exact else "<f2"
    good[: np.dtype(kind).itemsize] = np.array([value], kind).tobytes()
    with pytest.raises(DamagedStateError, match="not finite"):
        codec.decode(bytes(good), SPEC, num_tokens=1)


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_decoding_reads_any_buffer_and_never_aliases_it(codec):
    reals = np.arange(L * S, dtype=np.float32).reshape(L, S)
    data = codec.encode(make(reals), SPEC)
    expected = codec.decode(data, SPEC, num_tokens=1).recurrent
    assert torch.equal(expected, torch.from_numpy(reals)) == codec.name.startswith("fp")
    buffer = bytearray(data)
    for view in (buffer, memoryview(data), np.frombuffer(data, np.uint8)):
        assert torch.equal(codec.decode(view, SPEC, num_tokens=1).recurrent, expected)
    state = codec.decode(buffer, SPEC, num_tokens=1)
    buffer[:] = bytes(len(buffer))
    assert torch.equal(state.recurrent, expected)


def test_wrong_sizes_and_shapes_are_refused():
    codec = codec_named("fp16")
    data = codec.encode(make(np.ones((L, S))), SPEC)
    with pytest.raises(DamagedStateError, match="wrong size"):
        codec.decode(data[:-1], SPEC, num_tokens=1)
    with pytest.raises(DamagedStateError, match="τ has the wrong size"):
        codec.decode(data, SPEC, num_tokens=1, decay_time=np.zeros(3, np.float32))
    with pytest.raises(StateError, match="another shape"):
        codec.encode(
            State(torch.zeros(L, S + 1), tail=None, num_tokens=1, fingerprint=MINE, decay_time=torch.zeros(L, G)), SPEC
        )
    with pytest.raises(StateError, match="contradict"):
        make(np.zeros((L, S)), num_tokens=-1)
    with pytest.raises(StateError, match="too large for FP16"):
        codec.encode(make(np.full((L, S), 3.4025e38)), SPEC)
    with pytest.raises(StateError, match="subset of another model"):
        codec.encode(make(np.ones((L, S))), SPEC, LayerSubset.parse("all", L + 1))
    with pytest.raises(StateError, match="live state"):
        codec.encode(make(np.ones((L, S)), tail=True), SPEC)
    with pytest.raises(ForeignStateError, match="precog reindex") as error:
        codec.encode(make(np.ones((L, S)), fingerprint=OTHER), SPEC)
    assert f"fingerprint {MINE[:12]};" in str(error.value)
    assert f"fingerprint {OTHER[:12]};" in str(error.value)
    with pytest.raises(UsageError):
        codec_named("int3")


def test_a_tail_that_crosses_boundaries_is_stored():
    spec = dataclasses.replace(SPEC, carries_tail=True)
    state = make(np.ones((L, S)), tail=True)
    data = Float32Codec().encode(state, spec)
    assert len(data) == 4 * L * (S + 15)
    back = Float32Codec().decode(data, spec, num_tokens=7)
    assert torch.equal(back.tail, state.tail)
    assert torch.equal(back.recurrent, state.recurrent)


def test_sizes_of_the_papers_model_before_it_exists():
    spec = StateSpec(layers=24, reals_per_layer=4096, tail_shape=(3, 4096), decay_groups=256, fingerprint=MINE)
    bottom = LayerSubset.parse("bottom:12", 24)
    assert codec_named("fp16").state_bytes(spec) == 196_608
    assert codec_named("fp16").encoded_bytes(spec) == 196_608 + 24
    assert codec_named("fp16").state_bytes(spec, bottom) == 98_304
    assert codec_named("fp32").state_bytes(spec) == 393_216
    assert spec.decay_time_bytes == 24_576
    wide = dataclasses.replace(spec, reals_per_layer=8192)
    assert codec_named("fp16").state_bytes(wide) == 393_216


def test_a_state_cannot_be_changed_from_outside():
    reals, tail, tau = torch.ones(L, S), torch.ones(L, 3, 5), torch.ones(L, G)
    state = State(reals, tail=tail, num_tokens=1, fingerprint=MINE, decay_time=tau)
    for tensor in (reals, tail, tau, state.recurrent, state.tail, state.decay_time):
        tensor.zero_()
    StateBatch.of([state]).recurrent.zero_()
    StateBatch.of([state]).row(0).recurrent.zero_()
    state.at_boundary().recurrent.zero_()
    assert state.recurrent.min() == 1
    assert state.tail.min() == 1
    assert state.decay_time.min() == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        state.num_tokens = 2


def test_batches_select_and_give_rows_back():
    states = [make(np.full((L, S), value), num_tokens=value) for value in range(3)]
    picked = StateBatch.of(states).select([2, 0, 2])
    assert len(picked) == 3
    assert [picked.row(i).num_tokens for i in range(3)] == [2, 0, 2]
    assert torch.equal(picked.row(2).recurrent, states[2].recurrent)
    with pytest.raises(StateError, match="no states"):
        StateBatch.of([])
    with pytest.raises(StateError, match="live and boundary"):
        StateBatch.of([states[0], make(np.zeros((L, S)), tail=True)])


@settings(deadline=None)
@given(
    reals=hnp.arrays(np.float32, (3, L, S), elements=st.floats(-1e3, 1e3, width=32)),
    scores=st.lists(st.floats(-5, 5), min_size=1, max_size=3),
    temperature=st.floats(0.01, 10),
)
def test_the_mean_is_softmax_weighted_and_leaves_its_inputs_alone(reals, scores, temperature):
    members = [make(part) for part in reals[: len(scores)]]
    made = compose(members, scores, SPEC, temperature=temperature)
    assert sum(made.weights) == pytest.approx(1)
    assert [w1 <= w2 for w1, w2 in zip(made.weights, made.weights[1:], strict=False)] == [
        w1 <= w2 for w1, w2 in zip(softmax_weights(scores, temperature), made.weights[1:], strict=False)
    ]
    expected = sum(w * part.astype(np.float64) for w, part in zip(made.weights, reals, strict=False))
    np.testing.assert_allclose(made.state.recurrent.numpy(), expected, rtol=1e-5, atol=1e-3)
    for member, part in zip(members, reals, strict=False):
        assert member.recurrent.numpy().tobytes() == part.tobytes()
    assert made.exact == (1.0 in made.weights)


def test_one_member_of_weight_one_is_the_identity_and_exact():
    member = make(np.random.default_rng(0).normal(size=(L, S)))
    alone = compose([member], [0.3], SPEC)
    assert alone.exact
    assert alone.state is member
    frozen = compose([make(np.zeros((L, S))), member], [0.0, 1.0], SPEC, temperature=1e-4)
    assert frozen.exact
    assert torch.equal(frozen.state.recurrent, member.recurrent)
    assert not compose([member, member], [1.0, 1.0], SPEC).exact


def test_weights_follow_eq_8():
    assert softmax_weights([1.0, 0.0], 0.5) == pytest.approx([1 / (1 + np.exp(-2)), 1 / (1 + np.exp(2))])
    assert softmax_weights([1000.0, 1000.0]) == (0.5, 0.5)


def test_composition_refuses_what_it_cannot_mean():
    mine, live = make(np.zeros((L, S))), make(np.zeros((L, S)), tail=True)
    with pytest.raises(ForeignStateError):
        compose([mine, make(np.zeros((L, S)), fingerprint=OTHER)], [1.0, 1.0], SPEC)
    with pytest.raises(StateError, match="live"):
        compose([live], [1.0], SPEC)
    with pytest.raises(StateError, match="one score per state"):
        compose([mine], [], SPEC)
    with pytest.raises(StateError, match="one score per state"):
        compose([], [], SPEC)
    for temperature in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(UsageError):
            compose([mine], [1.0], SPEC, temperature=temperature)
    with pytest.raises(UsageError):
        compose([mine], [float("nan")], SPEC)
    with pytest.raises(UsageError):
        compose([mine], [1.0], SPEC, rule="soup")


@pytest.mark.parametrize(
    ("text", "indices"),
    [
        ("all", tuple(range(24))),
        ("none", ()),
        ("alternate", tuple(range(0, 24, 2))),
        ("bottom:12", tuple(range(12))),
        ("top:6", tuple(range(18, 24))),
        ("5, 0,3", (0, 3, 5)),
    ],
)
def test_layer_subsets_by_name_and_by_list(text, indices):
    assert LayerSubset.parse(text, 24).indices == indices


@pytest.mark.parametrize(
    "text", ["", "some", "bottom", "bottom:0", "bottom:25", "top:x", "0,0", "24", "-1", "all:3", "bottom:٣", "٠,١"]
)
def test_unknown_layer_subsets_are_refused(text):
    with pytest.raises(UsageError):
        LayerSubset.parse(text, 24)
