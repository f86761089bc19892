from copy import copy
from dataclasses import replace

import pytest
import torch

from precog.backbones.tenns.backbone import TennsBackbone
from precog.errors import ForeignStateError, StateError, UsageError
from precog.refine import focus as focus_module
from precog.refine.focus import check_can_focus, eligible, focus, focused
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


QUESTION_IDS = [1, 50, 60]


@pytest.fixture
def sure(backbone: TennsBackbone) -> TennsBackbone:
    """A model whose card says how sure its answers are."""
    made = copy(backbone)
    made.card = replace(backbone.card, confidence={"bias": 0.0, "weights": {}, "threshold": 0.5, "fitted": {}})
    return made


@pytest.fixture
def parts(backbone: TennsBackbone) -> list[State]:
    return backbone.encode_chunks([backbone.tokenizer.encode(text) for text in (PART, CHUNK[:20], CHUNK[20:])])


@pytest.mark.parametrize(
    ("nearness", "together", "alone", "number"),
    [
        ([1.0, 0.9, 0.8], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0], 0),
        ([1.0, 0.9, 0.8], [-4.0, 1.0, -4.0], [0.0, 0.0, 0.0], 1),  # 3.36 · 0.1 < 0.26 · 5
        ([1.0, 0.9, 0.8], [0.0, 0.0, 0.0], [-5.0, -5.0, 2.0], 2),  # 3.36 · 0.2 < 0.11 · 7
        ([1.0, 0.7, 0.7], [0.0, 3.0, 0.0], [0.0, 0.0, 0.0], 0),  # 3.36 · 0.3 > 0.26 · 3
        ([1.0, 1.0, 1.0], [2.0, 2.0, 2.0], [1.0, 1.0, 1.0], 0),
    ],
)
def test_who_is_nearest_and_surest_is_chosen(
    sure: TennsBackbone,
    states: list[State],
    parts: list[State],
    monkeypatch: pytest.MonkeyPatch,
    nearness: list[float],
    together: list[float],
    alone: list[float],
    number: int,
) -> None:
    asked = []

    def claims(backbone, rows, question_ids):
        asked.append([row.recurrent for row in rows])
        return [*together, *alone]

    monkeypatch.setattr(focus_module, "claims", claims)
    made = focus(sure, states[0], parts, nearness, QUESTION_IDS)
    assert (made.number, made.tokens_read) == (number, 6 * len(QUESTION_IDS))
    means = [focused(states[0], part, sure.spec).recurrent for part in parts]
    assert torch.equal(made.state.recurrent, means[number])
    [rows] = asked
    assert all(torch.equal(row, mean) for row, mean in zip(rows[:3], means, strict=True))
    assert all(torch.equal(row, part.recurrent) for row, part in zip(rows[3:], parts, strict=True))


def test_the_nearest_is_chosen_where_nothing_is_in_doubt_or_the_model_does_not_know(
    backbone: TennsBackbone, sure: TennsBackbone, states: list[State], parts: list[State]
) -> None:
    long = [1, *[50] * 256]
    assert eligible(sure, parts, QUESTION_IDS) == eligible(sure, parts, long[:256]) == parts
    for model, given, asked in ((sure, parts[:1], QUESTION_IDS), (backbone, parts, QUESTION_IDS), (sure, parts, long)):
        left = eligible(model, given, asked)
        made = focus(model, states[0], left, [1.0, 0.9, 0.8][: len(left)], asked)
        assert left == parts[:1]
        assert (made.number, made.tokens_read) == (0, 0)
        assert torch.equal(made.state.recurrent, focused(states[0], parts[0], model.spec).recurrent)


def test_states_of_another_model_are_never_asked(sure: TennsBackbone, states: list[State]) -> None:
    other = TennsBackbone.random("tiny-outer", load_mistral_tokenizer(), seed=5)
    foreign = other.encode_chunks([[5, 6], [7, 8]])
    with pytest.raises(ForeignStateError):
        focus(sure, states[0], foreign, [1.0, 1.0], QUESTION_IDS)
