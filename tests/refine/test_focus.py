from copy import copy
from dataclasses import replace

import pytest
import torch

from precog.backbones.tenns.backbone import TennsBackbone
from precog.errors import ForeignStateError, StateError, UsageError
from precog.refine.focus import check_can_focus, focused
from precog.state import State
from precog.text.tokenizer import load_mistral_tokenizer

CHUNK = "Ada Quill built the lighthouse of Marrow. Tom Reed made a wheel of oak."
PART = "Tom Reed made a wheel of oak."


@pytest.fixture(scope="module")
def backbone() -> TennsBackbone:
    return TennsBackbone.random("tiny-outer", load_mistral_tokenizer())


@pytest.fixture(scope="module")
def states(backbone: TennsBackbone) -> list[State]:
    return backbone.encode_chunks([backbone.tokenizer.encode(text) for text in (CHUNK, PART)])


def test_a_focused_state_is_half_the_chunk_and_half_its_part(backbone: TennsBackbone, states: list[State]) -> None:
    chunk, part = states
    before = [state.recurrent.clone() for state in states]
    made = focused(chunk, part, backbone.spec)
    assert not torch.equal(chunk.recurrent, part.recurrent)
    torch.testing.assert_close(made.recurrent, 0.5 * chunk.recurrent + 0.5 * part.recurrent, rtol=0, atol=1e-7)
    torch.testing.assert_close(made.decay_time, 0.5 * chunk.decay_time + 0.5 * part.decay_time)
    assert made.recurrent.shape == chunk.recurrent.shape
    assert (made.fingerprint, made.num_tokens) == (chunk.fingerprint, chunk.num_tokens + part.num_tokens)
    assert all(torch.equal(state.recurrent, old) for state, old in zip(states, before, strict=True))


def test_inputs_of_a_convolution_are_the_chunks_own(backbone: TennsBackbone, states: list[State]) -> None:
    chunk, part = states
    made = focused(chunk, part, replace(backbone.spec, window=(2, 5)))
    assert torch.equal(made.recurrent[:, 2:5], chunk.recurrent[:, 2:5])
    assert not torch.equal(made.recurrent[:, :2], chunk.recurrent[:, :2])


def test_states_of_another_model_are_refused(backbone: TennsBackbone, states: list[State]) -> None:
    other = TennsBackbone.random("tiny-outer", load_mistral_tokenizer(), seed=5)
    [foreign] = other.encode_chunks([other.tokenizer.encode(PART)])
    with pytest.raises(ForeignStateError):
        focused(states[0], foreign, backbone.spec)


def test_states_without_a_mean_are_refused_in_one_line(backbone: TennsBackbone, states: list[State]) -> None:
    check_can_focus(backbone)
    attention = copy(backbone)
    attention.spec = replace(backbone.spec, averages=False)
    with pytest.raises(UsageError, match="cannot be averaged") as refused:
        check_can_focus(attention)
    assert "--quality twice" in str(refused.value)
    assert "\n" not in str(refused.value)
    with pytest.raises(StateError, match="cannot be averaged"):
        focused(*states, attention.spec)
