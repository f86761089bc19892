import pytest
import torch
from read_texts import TEXTS, Read

from precog.backbones.tenns.backbone import TennsBackbone
from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.model import build
from precog.refine.exercise import Exercise
from precog.refine.objective import Rows, row_losses
from precog.text.tokenizer import load_mistral_tokenizer

TOKENIZER = load_mistral_tokenizer()


@pytest.fixture(scope="module", params=["tiny", "tiny-outer"])
def backbone(request: pytest.FixtureRequest) -> TennsBackbone:
    model = build(TennsConfig.preset(request.param), 4).double()
    return TennsBackbone.wrap(model, TOKENIZER, dtype=torch.float64)


def asked(backbone: TennsBackbone) -> tuple[torch.Tensor, list[Exercise], list[list[int]]]:
    """States [L, R, S], exercises of unequal lengths, and the texts their answers are taken from."""
    read = Read.by(TennsBackbone.random("tiny-outer", TOKENIZER), TEXTS[:2])
    rows = [(one, ids) for some, ids in zip(read.exercises, read.token_ids, strict=True) for one in some.practice[:3]]
    shape = (backbone.spec.layers, len(rows), backbone.spec.reals_per_layer)
    states = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return states, [one for one, _ in rows], [ids for _, ids in rows]


def test_it_equals_a_loop_over_rows_and_tokens(backbone: TennsBackbone) -> None:
    states, exercises, sources = asked(backbone)
    found = row_losses(backbone, states, Rows.of(exercises, sources, TOKENIZER))
    for row, (exercise, source) in enumerate(zip(exercises, sources, strict=True)):
        ids = torch.tensor([exercise.token_ids])
        logits = backbone.model.logits(backbone.model(ids, state=states[:, row : row + 1]).hidden[0])
        answer = list(exercise.token_ids[exercise.num_prompt :])
        total = 0.0
        for j, target in enumerate(answer):
            before = answer[:j]
            allowed = {TOKENIZER.eos_id}
            allowed |= {source[at + j] for at in range(len(source) - j) if source[at : at + j] == before}
            scores = logits[exercise.num_prompt - 1 + j]
            total -= 0.5 * float(scores.log_softmax(-1)[target])
            total -= 0.5 * float(scores[target] - scores[sorted(allowed)].logsumexp(-1))
        assert float(found[row]) == pytest.approx(total / len(answer), rel=1e-9)


def test_its_gradient_is_that_of_finite_differences(backbone: TennsBackbone) -> None:
    states, exercises, sources = asked(backbone)
    rows = Rows.of(exercises, sources, TOKENIZER)
    states.requires_grad_()
    [gradient] = torch.autograd.grad(row_losses(backbone, states, rows).sum(), states)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for _ in range(4):
            direction = torch.randn(states.shape, dtype=torch.float64, generator=generator)
            direction /= direction.norm()
            ahead, behind = (row_losses(backbone, states + way * 1e-4 * direction, rows).sum() for way in (1, -1))
            assert float((gradient * direction).sum()) == pytest.approx(float((ahead - behind) / 2e-4), rel=1e-5)
    assert float(gradient.abs().amax((0, 2)).min()) > 0  # every row depends on its own state


def test_rows_do_not_depend_on_each_other(backbone: TennsBackbone) -> None:
    states, exercises, sources = asked(backbone)
    together = row_losses(backbone, states, Rows.of(exercises, sources, TOKENIZER))
    for row in range(len(exercises)):
        one = slice(row, row + 1)
        alone = row_losses(backbone, states[:, one], Rows.of(exercises[one], sources[one], TOKENIZER))
        torch.testing.assert_close(together[one], alone, rtol=1e-10, atol=1e-10)
