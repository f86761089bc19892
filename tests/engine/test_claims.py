"""What states say of themselves: the odds of an end before any word, the states in one batch."""

import math

import pytest
import torch

from precog.backbones.tenns.backbone import TennsBackbone
from precog.engine.claims import claims
from precog.errors import BoundaryError
from precog.text.tokenizer import load_mistral_tokenizer

QUESTION = [1, 50, 60, 70]


@pytest.fixture(scope="module", params=["tiny-outer", "tiny"])
def model(request: pytest.FixtureRequest) -> TennsBackbone:
    return TennsBackbone.random(request.param, load_mistral_tokenizer(), seed=3)


def test_claims_are_those_of_each_state_read_alone(model: TennsBackbone) -> None:
    states = model.encode_chunks([[5, 6, 7], [8, 9], [10, 11, 12, 13]])
    found = claims(model, states, QUESTION)
    for said, state in zip(found, states, strict=True):
        _, logits = model.prefill(QUESTION, state)
        shares = torch.softmax(logits.double(), 0)
        none = float(shares[model.tokenizer.eos_id] + shares[model.tokenizer.boundary_id])
        assert said == pytest.approx(math.log((1 - none) / none), abs=1e-4)
    assert len(set(found)) == 3


def test_who_is_sure_beyond_measure_claims_a_finite_number(
    model: TennsBackbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    [state] = model.encode_chunks([[5, 6, 7]])
    for end, expected in ((1e5, -30.0), (-1e5, 30.0)):

        def logits(hidden: torch.Tensor, end: float = end) -> torch.Tensor:
            made = torch.zeros(len(hidden), model.tokenizer.vocab_size)
            made[:, [model.tokenizer.eos_id, model.tokenizer.boundary_id]] = end
            return made

        monkeypatch.setattr(model, "logits", logits)
        assert claims(model, [state], QUESTION) == [expected]


def test_a_question_without_boundary_is_refused(model: TennsBackbone) -> None:
    with pytest.raises(BoundaryError):
        claims(model, model.encode_chunks([[5, 6, 7]]), [50, 60])
