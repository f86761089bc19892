"""The states along a chunk: exact for every new segment, and the last one bit for bit the chunk's own."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from precog.backbones.tenns import backbone as backbone_module
from precog.backbones.tenns.backbone import TennsBackbone
from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.model import build
from precog.engine import trajectory
from precog.engine.trajectory import read_piecewise
from precog.errors import BoundaryError, InputError, StateError, UsageError
from precog.memory.dial import Dial, joint_positions
from precog.state import LayerSubset, codec_named
from precog.text.tokenizer import load_mistral_tokenizer

TOKENIZER = load_mistral_tokenizer()
BOUND = 1e-4
VARIANTS = [
    ("tiny", {}),
    ("tiny", {"readout": "question", "frequencies": "learned"}),
    ("tiny", {"frequencies": "zero", "state_norm": False}),
    ("tiny", {"dt": "mode"}),
    ("tiny", {"dt": "mode", "selective": False}),
    ("tiny", {"conv_boundary": "carried"}),
    ("tiny", {"kernel": 1}),
    ("tiny-outer", {}),
    ("tiny-outer", {"keys": "raw", "state_norm": False}),
    ("tiny-outer", {"first_read": "write", "kernel": 1}),
]


def backbone(preset="tiny-outer", *, encode_mode="once", template=None, **changes):
    config = TennsConfig.from_dict({**TennsConfig.preset(preset).to_dict(), **changes})
    made = TennsBackbone.wrap(build(config, 1), TOKENIZER, name=preset)
    card = made.card if template is None else dataclasses.replace(made.card, chunk_template=template)
    return TennsBackbone(made.model, card, TOKENIZER, encode_mode=encode_mode)


BACKBONES = [backbone(preset, **changes) for preset, changes in VARIANTS]
ids = st.integers(3, 31_999)


def same(state, other):
    assert torch.equal(state.recurrent, other.recurrent)
    assert torch.equal(state.decay_time, other.decay_time)
    assert (state.num_tokens, state.is_live) == (other.num_tokens, other.is_live)


@pytest.mark.parametrize("model", BACKBONES, ids=[f"{preset}-{changes}" for preset, changes in VARIANTS])
@settings(max_examples=5)
@given(
    chunk=st.lists(ids, min_size=1, max_size=70),
    dial=st.builds(Dial, count=st.integers(1, 6)) | st.builds(Dial, stride=st.integers(1, 30)),
    segment=st.lists(ids, min_size=1, max_size=6),
)
def test_recall_from_any_position_equals_reading_the_prefix_again(model, chunk, dial, segment):
    positions = dial.positions(len(chunk))
    states = trajectory(model, chunk, positions)
    assert len(states) == len(positions)
    for position, state in zip(positions, states, strict=True):
        _, logits = model.prefill_logits([1, *segment], state)
        _, judge = model.prefill_logits([*model.reading(chunk[:position]), 1, *segment])
        judge = judge[-len(segment) - 1 :]
        assert (logits - judge).abs().max() <= BOUND
        assert logits.argmax(-1).equal(judge.argmax(-1))
        [alone] = model.encode_chunks([chunk[:position]])
        assert state.num_tokens == alone.num_tokens
        torch.testing.assert_close(state.decay_time, alone.decay_time, rtol=1e-4, atol=1e-4)
    same(states[-1], model.encode_chunks([chunk])[0])
    for state, piecewise in zip(states, read_piecewise(model, chunk, positions), strict=True):
        torch.testing.assert_close(state.recurrent, piecewise.recurrent, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(state.decay_time, piecewise.decay_time, rtol=1e-4, atol=1e-4)
        assert (state.num_tokens, state.is_live) == (piecewise.num_tokens, piecewise.is_live)
        if state.is_live:
            torch.testing.assert_close(state.tail, piecewise.tail, rtol=1e-4, atol=1e-5)


def test_chunks_too_long_for_one_pass_are_read_piece_by_piece(monkeypatch):
    model = backbone()
    chunk = np.random.default_rng(3).integers(3, 32_000, 20).tolist()
    in_one = trajectory(model, chunk, (7, 13, 20))
    monkeypatch.setattr(backbone_module, "MAX_PASS_TOKENS", 16)
    assert model.states_along(model.reading(chunk), [8, 14, 21]) is None
    for state, other in zip(trajectory(model, chunk, (7, 13, 20)), in_one, strict=True):
        torch.testing.assert_close(state.recurrent, other.recurrent, rtol=1e-4, atol=1e-5)
    same(trajectory(model, chunk, (7, 20))[-1], model.encode_chunks([chunk])[0])


def test_states_along_are_of_one_segment():
    model = backbone()
    for ids_of, cuts, error in (
        ([5, 6], [1], BoundaryError),
        ([1, 5, 1, 6], [2], BoundaryError),
        ([1, 5], [0], InputError),
        ([1, 5], [2, 3], InputError),
        ([1, 5], [2, 1], InputError),
        ([1, 5], [], InputError),
        ([], [1], InputError),
    ):
        with pytest.raises(error):
            model.states_along(ids_of, cuts)


def test_several_levels_come_from_one_reading():
    model = backbone()
    chunk = np.random.default_rng(0).integers(3, 32_000, 30).tolist()
    dials = [Dial.parse("1"), Dial.parse("4"), Dial.parse("/7")]
    positions = joint_positions(dials, len(chunk))
    states = dict(zip(positions, trajectory(model, chunk, positions), strict=True))
    for dial in dials:
        for position, state in zip(
            dial.positions(len(chunk)), trajectory(model, chunk, dial.positions(len(chunk))), strict=True
        ):
            torch.testing.assert_close(states[position].recurrent, state.recurrent, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("codec", ["fp32", "fp16"])
def test_states_of_a_trajectory_go_through_any_codec_and_subset(codec):
    model = backbone()
    chunk = np.random.default_rng(1).integers(3, 32_000, 12).tolist()
    layers = LayerSubset.parse("bottom:1", model.spec.layers)
    for state in trajectory(model, chunk, (3, 12)):
        data = codec_named(codec).encode(state, model.spec, layers)
        back = codec_named(codec).decode(
            data, model.spec, layers, num_tokens=state.num_tokens, decay_time=state.decay_time
        )
        torch.testing.assert_close(back.recurrent[0], state.recurrent[0], rtol=2**-11, atol=2**-25)
        assert not back.recurrent[1:].any()


def test_a_template_before_the_chunk_is_read_first():
    model = backbone(template="Read this: {chunk}")
    chunk = np.random.default_rng(2).integers(3, 32_000, 9).tolist()
    states = trajectory(model, chunk, (1, 5, 9))
    before = len(model.reading(chunk)) - len(chunk)
    assert before > 1
    assert [state.num_tokens for state in states] == [before + 1, before + 5, before + 9]
    [alone] = model.encode_chunks([chunk[:5]])
    torch.testing.assert_close(states[1].recurrent, alone.recurrent, rtol=1e-4, atol=1e-5)


def test_readings_without_prefixes_keep_the_whole_chunk_only():
    chunk = list(range(10, 20))
    for model, reason in (
        (backbone(template="{chunk} Remember it."), "goes on after the chunk"),
        (backbone(encode_mode="twice"), "read once"),
        (backbone(encode_mode="twice-reversed"), "read once"),
    ):
        same(trajectory(model, chunk, (10,))[0], model.encode_chunks([chunk])[0])
        with pytest.raises(StateError, match=reason):
            trajectory(model, chunk, (5, 10))


def test_a_state_inside_a_chunk_is_not_continued_inside_it():
    model = backbone()
    chunk = list(range(10, 20))
    state = trajectory(model, chunk, (4,))[0]
    assert not state.is_live
    with pytest.raises(BoundaryError):
        model.prefill(chunk[4:], state)


@pytest.mark.parametrize("positions", [(), (0, 3), (3, 3), (5, 2), (4, 11), (-1,)])
def test_positions_that_do_not_rise_inside_the_chunk_are_refused(positions):
    with pytest.raises(UsageError, match="positions of a chunk must rise"):
        trajectory(backbone(), list(range(10, 20)), positions)


def test_an_empty_chunk_is_refused():
    with pytest.raises(InputError):
        trajectory(backbone(), [], (1,))
