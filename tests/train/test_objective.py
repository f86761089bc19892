"""The training loss against plain restatements of it."""

import torch
from torch.nn import functional

from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.model import build
from precog.train.objective import LossWeights, score
from precog.train.questions import QuestionBatch

CONFIG = TennsConfig(
    width=16,
    layers=2,
    inner=32,
    mixer="outer",
    heads=2,
    coefficients=4,
    channels=4,
    bottleneck=8,
    tied=True,
    vocabulary=40,
)


def make_batch():
    context = torch.tensor([[1, 10, 11, 12, 10, 11, 13, 14], [1, 20, 21, 22, 0, 0, 0, 0]])
    questions = torch.tensor([[1, 30, 31, 10, 11, 13, 2, 0], [1, 30, 21, 2, 0, 0, 0, 0], [1, 32, 12, 2, 0, 0, 0, 0]])
    return QuestionBatch(
        context=context,
        context_length=torch.tensor([8, 4]),
        questions=questions,
        prompt_length=torch.tensor([3, 2, 2]),
        row_length=torch.tensor([7, 4, 4]),
        owner=torch.tensor([0, 1, 1]),
        answerable=torch.tensor([True, True, False]),
    )


def test_grounded_loss_equals_a_loop_over_rows_and_tokens():
    model = build(CONFIG, seed=3)
    batch = make_batch()
    scores = score(model, batch, LossWeights())
    total, count, hits = 0.0, 0, []
    for row in range(3):
        chunk = batch.owner[row]
        tokens = batch.context[chunk, : batch.context_length[chunk]]
        state = model(tokens[None]).state
        prompt, end = int(batch.prompt_length[row]), int(batch.row_length[row])
        answer = batch.questions[row, prompt:end].tolist() if batch.answerable[row] else [2]
        hidden = model(batch.questions[row, :end][None], state=state).hidden[0]
        hit = True
        for j, target in enumerate(answer):
            prefix = answer[:j]
            allowed = {2}
            for p in range(1, len(tokens) - j):
                if tokens[p : p + j].tolist() == prefix:
                    allowed.add(int(tokens[p + j]))
            logits = model.logits(hidden[prompt - 1 + j])
            names = sorted(allowed)
            chosen = functional.log_softmax(logits[names], -1)
            total -= float(chosen[names.index(target)].detach())
            count += 1
            hit = hit and names[int(chosen.argmax())] == target
        if batch.answerable[row]:
            hits.append(hit)
    torch.testing.assert_close(scores.grounded[0].detach(), torch.tensor(total), rtol=1e-5, atol=1e-5)
    assert int(scores.grounded[1]) == count == 7
    assert [int(x) for x in scores.exact] == [sum(hits), 2]


def test_branched_questions_give_the_gradients_of_separate_ones():
    batch = make_batch()
    weights = LossWeights(context=0.0, question=0.0, answer=1.0, grounded=1.0)
    model = build(CONFIG, seed=5).double()
    score(model, batch, weights).answer[0].backward()
    together = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    for row in range(3):
        one = QuestionBatch(
            batch.context, batch.context_length, *(x[row : row + 1] for x in (
                batch.questions, batch.prompt_length, batch.row_length, batch.owner, batch.answerable
            ))
        )  # fmt: skip
        score(model, one, weights).answer[0].backward()
    for name, parameter in model.named_parameters():
        if name in together:
            torch.testing.assert_close(parameter.grad, together[name], rtol=1e-9, atol=1e-9)


def test_without_a_state_the_chunk_matters_through_the_mask_alone():
    model = build(CONFIG, seed=3)
    batch = make_batch()
    with_state = score(model, batch, LossWeights())
    without = score(model, batch, LossWeights(), use_state=False)
    assert not torch.allclose(with_state.answer[0], without.answer[0])
    other = make_batch()
    other.context[1, 1:4] = torch.tensor([25, 21, 26])  # the answer stays a span, the rest changes
    changed = score(model, other, LossWeights(), use_state=False)
    torch.testing.assert_close(changed.answer[0], without.answer[0])
