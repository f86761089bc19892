import math
import time
from collections.abc import Callable
from itertools import count

import pytest
import torch
from read_texts import TEXTS, Read
from torch import Tensor

from precog.backbones.tenns.backbone import TennsBackbone
from precog.refine import descent as descent_module
from precog.refine import objective
from precog.refine.descent import Descent, Outcome, descend
from precog.text.tokenizer import load_mistral_tokenizer

FAR = Descent(learning_rate=0.02, radius=0.1)
"""Far enough for a random model, whose scores hardly depend on its state."""


@pytest.fixture(scope="module")
def read() -> Read:
    return Read.by(TennsBackbone.random("tiny-outer", load_mistral_tokenizer()), TEXTS)


@pytest.fixture(scope="module")
def start(read: Read) -> Tensor:
    return read.backbone.open(read.states).recurrent


def run(read: Read, start: Tensor, steps: int = 4, **how: object) -> list[Outcome]:
    return descend(read.backbone, start, read.exercises, read.token_ids, steps, **{"descent": FAR, **how})  # type: ignore[arg-type]  # by name


def distance(start: Tensor, outcome: Outcome, chunk: int) -> Tensor:
    """RMS of u in each layer."""
    assert outcome.recurrent is not None
    moved = (outcome.recurrent - start[:, chunk]).pow(2).mean(-1).sqrt()
    return moved / start[:, chunk].pow(2).mean(-1).sqrt()


def assert_same(ones: list[Outcome], others: list[Outcome], atol: float = 0) -> None:
    for one, other in zip(ones, others, strict=True):
        assert one.reason == other.reason
        if one.recurrent is not None and other.recurrent is not None:
            torch.testing.assert_close(one.recurrent, other.recurrent, rtol=0, atol=atol)
    assert any(one.recurrent is not None for one in ones)


def losses(read: Read, recurrent: Tensor, chunk: int) -> float:
    held = read.exercises[chunk].held_out
    rows = objective.Rows.of(held, [read.token_ids[chunk]] * len(held), read.backbone.tokenizer)
    with torch.no_grad():
        states = recurrent[:, None].expand(-1, len(held), -1)
        return float(objective.row_losses(read.backbone, states, rows).mean())


def test_what_is_held_out_is_answered_better(read: Read, start: Tensor) -> None:
    before = {name: value.clone() for name, value in read.backbone.model.state_dict().items()}
    copy = start.clone()
    for chunk, outcome in enumerate(run(read, start, 8)):
        assert outcome.recurrent is not None
        assert (outcome.steps, outcome.reason) == (8, "")
        assert outcome.loss_before == pytest.approx(losses(read, start[:, chunk], chunk), abs=1e-5)
        assert outcome.loss_after == pytest.approx(losses(read, outcome.recurrent, chunk), abs=1e-5)
        assert outcome.loss_after < outcome.loss_before - 1e-3
    assert torch.equal(start, copy)
    for name, value in read.backbone.model.state_dict().items():
        assert torch.equal(value, before[name])
    assert not any(weight.requires_grad or weight.grad is not None for weight in read.backbone.model.parameters())


@pytest.mark.parametrize("radius", [0.003, 0.02])
def test_no_layer_leaves_the_region(read: Read, start: Tensor, monkeypatch: pytest.MonkeyPatch, radius: float) -> None:
    better = count(9, -1)
    monkeypatch.setattr(descent_module._Run, "_held_out", lambda _run: [float(next(better))] * 3)
    outcomes = run(read, start, 12, descent=Descent(learning_rate=0.02, radius=radius))
    far = torch.stack([distance(start, outcome, chunk) for chunk, outcome in enumerate(outcomes)])
    assert float(far.max()) <= radius * 1.001
    assert float(far.max()) >= radius * 0.9  # the region is what holds them


def test_the_first_steps_are_small(read: Read, start: Tensor) -> None:
    """The first step of Adam moves every coordinate by the learning rate, of which the warm-up leaves a third."""
    [first, *_] = run(read, start, 1, descent=Descent(learning_rate=0.009, radius=1.0))
    assert float(distance(start, first, 0).max()) == pytest.approx(0.003, rel=0.01)


def test_within_the_region_it_is_adam_in_units_of_each_layer(
    read: Read, start: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    how = Descent(learning_rate=0.01, radius=1.0)
    scale = start[:, :1].pow(2).mean(-1, keepdim=True).sqrt()
    practice = read.exercises[0].practice
    rows = objective.Rows.of(practice, [read.token_ids[0]] * len(practice), read.backbone.tokenizer)
    u = torch.zeros_like(start[:, :1], requires_grad=True)
    adam = torch.optim.Adam([u], betas=how.momentum, eps=1e-12)
    for step in range(1, 5):
        adam.param_groups[0]["lr"] = how.learning_rate * min(1.0, step / 3)
        adam.zero_grad()
        states = (start[:, :1] + u * scale).expand(-1, len(practice), -1)
        objective.row_losses(read.backbone, states, rows).mean().backward()
        adam.step()
    monkeypatch.setattr(descent_module._Run, "_held_out", lambda run: [-float(max(run._steps))])
    [found] = descend(read.backbone, start[:, :1], read.exercises[:1], read.token_ids[:1], 4, descent=how)
    assert found.recurrent is not None
    torch.testing.assert_close(found.recurrent, (start[:, :1] + u.detach() * scale)[:, 0], rtol=0, atol=2e-5)


def test_a_chunk_fares_in_a_batch_as_it_does_alone(read: Read, start: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    together = run(read, start)
    monkeypatch.setattr(descent_module, "PIECE_ROWS", 7)
    for chunk, one in enumerate(together):
        part = slice(chunk, chunk + 1)
        alone = descend(read.backbone, start[:, part], read.exercises[part], read.token_ids[part], 4, descent=FAR)
        assert_same([one], alone, 1e-4)
        assert one.loss_after == pytest.approx(alone[0].loss_after, abs=1e-4)


def test_the_best_of_what_was_seen_is_kept(read: Read, start: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Held-out losses as they are after 0, 2, 4, 6 and 7 steps, for each chunk."""
    told = iter([[3.0, 3.0, 3.0], [2.0, 3.0, 4.0], [1.0, 3.0, 3.5], [1.5, 3.0, 3.2], [1.2, 2.9, 3.0]])
    monkeypatch.setattr(descent_module._Run, "_held_out", lambda _run: next(told))
    first, second, third = run(read, start, 7)
    assert next(told, None) is None
    monkeypatch.undo()
    ended = run(read, start, 4)
    assert (first.loss_before, first.loss_after, first.steps) == (3.0, 1.0, 7)
    assert first.recurrent is not None
    assert ended[0].recurrent is not None
    torch.testing.assert_close(first.recurrent, ended[0].recurrent, rtol=0, atol=0)
    assert (second.loss_after, second.reason) == (2.9, "")
    assert (third.recurrent, third.loss_after, third.reason) == (None, 3.0, "no better")


def spoiling(chunk: int, from_call: int, read: Read) -> Callable[..., Tensor]:
    """The objective, but NaN for one chunk from one call of it on."""
    real, calls, context = objective.row_losses, count(), torch.tensor(read.token_ids[chunk])

    def spoilt(backbone: TennsBackbone, recurrent: Tensor, rows: objective.Rows, tail: Tensor | None = None) -> Tensor:
        found = real(backbone, recurrent, rows, tail)
        own = (rows.context[:, 1 : 1 + len(context)] == context[: rows.context.shape[1] - 1]).all(1)
        return found * torch.where(own, math.nan, 1.0) if next(calls) >= from_call else found

    return spoilt


@pytest.mark.parametrize("from_call", [0, 2, 6])
def test_no_number_stays_with_its_chunk(
    read: Read, start: Tensor, monkeypatch: pytest.MonkeyPatch, from_call: int
) -> None:
    whole = run(read, start)
    monkeypatch.setattr(objective, "row_losses", spoiling(1, from_call, read))
    found = run(read, start)
    assert (found[1].recurrent, found[1].reason) == (None, "not a number")
    assert (found[1].steps == 0) == (from_call == 0)
    assert_same(found[::2], whole[::2], 1e-4)


def test_time_that_is_up_before_anything_was_looked_at(read: Read, start: Tensor) -> None:
    for outcome in run(read, start, deadline=time.perf_counter()):
        assert (outcome.recurrent, outcome.steps, outcome.reason) == (None, 0, "no time")
        assert math.isnan(outcome.loss_after)
        assert outcome.loss_before > 0


def test_time_that_is_up_later_leaves_the_best_so_far(
    read: Read, start: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = count()
    monkeypatch.setattr(descent_module.time, "perf_counter", lambda: float(next(clock)))
    found = run(read, start, 9, deadline=5.0)
    monkeypatch.undo()
    assert [one.steps for one in found] == [5, 5, 5]
    assert_same(found, run(read, start, 4))


def test_it_stops_between_steps(read: Read, start: Tensor) -> None:
    asked = iter([False, False, True])
    with pytest.raises(KeyboardInterrupt):
        run(read, start, 5, should_stop=lambda: next(asked))
    assert next(asked, None) is None


def test_gradients_are_taken_where_a_caller_takes_none(read: Read, start: Tensor) -> None:
    with torch.no_grad():
        inside = run(read, start, 2)
    assert_same(inside, run(read, start, 2))
    assert not any(one.recurrent is not None and one.recurrent.requires_grad for one in inside)
