"""Placing batches and varying states."""

import dataclasses

import numpy as np
import pytest
import torch
from made import make_arrays

from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.model import build
from precog.train.evaluation import evaluate_batches
from precog.train.objective import LOSSES, LossWeights, score, target_counts
from precog.train.questions import Variation, joined, place, rounded, varied_states

OUTER = TennsConfig(
    width=16, layers=3, inner=32, mixer="outer", heads=2, coefficients=4, channels=8, bottleneck=8, tied=True,
    vocabulary=60,
)  # fmt: skip
DIAGONAL = TennsConfig(width=16, layers=3, inner=32, groups=2, modes_per_group=8, bottleneck=8, vocabulary=60)
CPU = torch.device("cpu")


def pairs(batch):
    """Every (chunk tokens, row tokens) of a batch, in no order."""
    return sorted(
        (
            tuple(batch.context[batch.owner[r], : batch.context_length[batch.owner[r]]].tolist()),
            tuple(batch.questions[r, : batch.row_length[r]].tolist()),
        )
        for r in range(len(batch.owner))
    )


def test_placing_keeps_every_question_with_its_chunk_and_sorts_by_length():
    arrays = make_arrays()
    batch = place(arrays, CPU, Variation(), (1,))
    expected = sorted(
        (
            tuple(arrays["context"][o, : arrays["context_len"][o]].tolist()),
            tuple(arrays["questions"][r, : arrays["row_len"][r]].tolist()),
        )
        for r, o in enumerate(arrays["owner"])
    )
    assert pairs(batch) == expected
    assert batch.answerable.all()
    assert (batch.context_length.diff() >= 0).all()
    assert (batch.row_length.diff() >= 0).all()


def test_unanswerable_rows_move_to_another_chunk_and_rows_without_answer_stay():
    arrays = make_arrays()
    arrays["row_len"][3] = arrays["prompt_len"][3] + 1
    before = dict(zip(map(bytes, arrays["questions"]), arrays["owner"], strict=True))
    batch = place(arrays, CPU, Variation(unanswerable=0.5), (1,))
    moved = 0
    for r in range(len(batch.owner)):
        chunk = int(before[bytes(batch.questions[r].numpy().astype(np.int32))])
        same = bool((batch.context[batch.owner[r]].numpy() == arrays["context"][chunk]).all())
        bare = int(batch.row_length[r] - batch.prompt_length[r]) == 1
        assert same == (bool(batch.answerable[r]) or bare)
        moved += not same
    assert 5 <= moved <= 19


def test_chunks_read_twice_are_asked_from_the_second_state_and_recited():
    model = build(OUTER, seed=2)
    batch = place(make_arrays(), CPU, Variation(twice=0.5), (1,))
    assert batch.twice is not None
    assert len(batch.twice) == 3
    scores = score(model, batch, LossWeights(recite=1.0))
    by_hand, tokens = 0.0, 0
    states = []
    for c in range(6):
        ids = batch.context[c, : batch.context_length[c]][None]
        read = model(ids)
        if c in batch.twice:
            again = model(ids, state=read.state)
            losses = torch.nn.functional.cross_entropy(model.logits(again.hidden[0, :-1]), ids[0, 1:], reduction="sum")
            by_hand, tokens = by_hand + float(losses.detach()), tokens + ids.shape[1] - 1
            read = again
        states.append(read.state)
    assert int(scores.recite[1]) == tokens
    assert float(scores.recite[0].detach()) == pytest.approx(by_hand, rel=1e-5)
    answer = 0.0
    for r, owner in enumerate(batch.owner.tolist()):
        ids = batch.questions[r, : batch.row_length[r]]
        hidden = model(ids[None], state=states[owner]).hidden[0]
        start = int(batch.prompt_length[r])
        losses = torch.nn.functional.cross_entropy(model.logits(hidden[start - 1 : -1]), ids[start:], reduction="sum")
        answer += float(losses.detach())
    assert float(scores.answer[0].detach()) == pytest.approx(answer, rel=1e-5)


@pytest.mark.parametrize("config", [OUTER, DIAGONAL], ids=["outer", "diagonal"])
def test_joining_equals_reading_one_after_the_other_in_the_first_layer(config):
    model = build(config, seed=4)
    first, then = torch.randint(3, 60, (2, 2, 9), generator=torch.Generator().manual_seed(0)).unbind(0)
    first[:, 0] = then[:, 0] = 1
    alone, after = model(first), model(then)
    both = model(torch.cat((first, then), dim=1))
    given = joined(model, alone.state, after.state, after.decay_time)
    torch.testing.assert_close(given[0], both.state[0], rtol=1e-4, atol=1e-6)


def test_rounding_stays_within_its_bounds_and_passes_gradients():
    state = torch.randn(3, 4, 128, generator=torch.Generator().manual_seed(0)).mul_(3).requires_grad_()
    out = rounded(state, torch.tensor([32, 16, 8, 4]))
    error = (out - state).detach().abs()
    largest = state.detach().view(3, 4, 2, 64).abs().amax(-1, keepdim=True).expand(-1, -1, -1, 64).flatten(-2)
    assert (error[:, 0] == 0).all()
    assert (error[:, 1] <= state.detach()[:, 1].abs() * 2.0**-11 + 2.0**-25).all()
    assert (error[:, 2] <= largest[:, 2] / 127 / 2 * 1.001).all()
    assert (error[:, 3] <= largest[:, 3] / 7 / 2 * 1.001).all()
    assert (error[:, 1:].amax((0, 2)) > 0).all()
    out.sum().backward()
    assert (state.grad == 1).all()


def test_a_share_of_the_rows_starts_from_varied_states_and_the_rest_from_their_own():
    model = build(OUTER, seed=2)
    batch = place(make_arrays(30, 8), CPU, Variation(rounded=0.3, layers=0.3, composed=0.3, num_layers=3), (5,))
    read = model(batch.context, lengths=batch.context_length)
    states = varied_states(model, batch, read.state, read.decay_time)
    same = (states == read.state[:, batch.owner]).all(-1).all(0)
    assert 0.2 < float(same.float().mean()) < 0.55
    assert batch.kept is not None
    assert batch.bits is not None
    assert (states[~batch.kept] == 0).all()
    untouched = batch.kept.all(0) & (batch.bits == 32) & (batch.own_weight == 1) & ~batch.joined
    assert (same == untouched).all()


def test_the_same_seed_makes_the_same_choices():
    variation = Variation(0.2, 0.5, 0.5, 0.5, 0.5, 3)
    one, two = (place(make_arrays(), CPU, variation, (1, 2)) for _ in range(2))
    other = place(make_arrays(), CPU, variation, (1, 3))
    fields = [f.name for f in dataclasses.fields(one) if isinstance(getattr(one, f.name), torch.Tensor)]
    assert all(torch.equal(getattr(one, f), getattr(two, f)) for f in fields)
    assert not all(torch.equal(getattr(one, f), getattr(other, f)) for f in fields)


@pytest.mark.parametrize("config", [OUTER, DIAGONAL], ids=["outer", "diagonal"])
def test_filling_answer_tokens_changes_nothing_but_shapes(config):
    model = build(config, seed=2)
    arrays = make_arrays()
    arrays["row_len"][3] = arrays["prompt_len"][3] + 1
    plain = place(arrays, CPU, Variation(unanswerable=0.2), (1,))
    filled = place(arrays, CPU, Variation(unanswerable=0.2, answer_tokens_per_row=6), (1,))
    assert plain.answers is not None
    assert filled.answers is not None
    assert len(filled.answers.rows) == 6 * 24 > len(plain.answers.rows) == int(filled.answers.present.sum())
    bare = dataclasses.replace(plain, answers=None)
    expected = score(model, bare, LossWeights(recite=1.0))
    gradients = []
    for batch in (plain, filled, bare):
        given = score(model, batch, LossWeights(recite=1.0))
        for name in (*LOSSES, "exact"):
            for a, b in zip(getattr(expected, name), getattr(given, name), strict=True):
                torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(expected.row_losses, given.row_losses)
        model.zero_grad()
        given.loss(LossWeights()).backward()
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(gradients[0], gradients[2], rtol=1e-4, atol=1e-6)


def test_targets_are_counted_before_anything_is_scored():
    model = build(OUTER, seed=2)
    batch = place(make_arrays(), CPU, Variation(twice=0.5, unanswerable=0.3), (1,))
    weights = LossWeights(recite=1.0, context_share=0.5)
    scores = score(model, batch, weights)
    counts = target_counts(batch, weights)
    assert counts.tolist() == [float(getattr(scores, name)[1]) for name in LOSSES]
    torch.testing.assert_close(scores.combined(weights.vector(CPU) / counts), scores.loss(weights))


def test_an_evaluation_scores_every_question_once():
    model = build(OUTER, seed=2)
    arrays = make_arrays()
    once = evaluate_batches(model, [arrays], CPU, torch.float32, variation=Variation().plain())
    again = evaluate_batches(model, [arrays, arrays], CPU, torch.float32, variation=Variation().plain())
    assert again["exact"] == once["exact"]
    assert again["answer"] == once["answer"]
    arrays["valid"][::2] = False
    half = place(arrays, CPU, Variation().plain(), (0,))
    assert half.counted is not None
    scores = score(model, half, LossWeights())
    assert int(scores.exact[1]) == 12
    assert int(scores.answer[1]) == int((half.row_length - half.prompt_length)[half.counted].sum())
