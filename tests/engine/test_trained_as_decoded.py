"""The loss of training is the score of decoding: same mask, same state, same end."""

import numpy as np
import pytest
import torch

from precog.backbones.tenns.backbone import TennsBackbone
from precog.engine import GroundedSettings, Source, ground
from precog.text.tokenizer import load_mistral_tokenizer
from precog.train.objective import LossWeights, score
from precog.train.questions import QuestionBatch

TOKENIZER = load_mistral_tokenizer()


@pytest.mark.parametrize("preset", ["tiny", "tiny-outer"])
def test_the_grounded_loss_of_a_span_is_its_log_probability(preset):
    model = TennsBackbone.random(preset, TOKENIZER)
    chunk = np.random.default_rng(1).integers(3, 9, 30).tolist()
    prompt = [1, 500, 600, 700]
    [state] = model.encode_chunks([chunk])
    options = GroundedSettings(10_000, max_span_tokens=3, contrast=1e-12)
    found = ground(model, state, prompt, [Source.of(chunk)], options)
    spans = {span.token_ids: span.log_probability for span in found.spans}
    assert len(spans) > 20
    for tokens, expected in list(spans.items())[::5]:
        row = [*prompt, *tokens, TOKENIZER.eos_id]
        batch = QuestionBatch(
            context=torch.tensor([[1, *chunk]]),
            context_length=torch.tensor([len(chunk) + 1]),
            questions=torch.tensor([row]),
            prompt_length=torch.tensor([len(prompt)]),
            row_length=torch.tensor([len(row)]),
            owner=torch.tensor([0]),
            answerable=torch.tensor([True]),
        )
        with torch.no_grad():
            total, count = score(model.model, batch, LossWeights()).grounded
        assert int(count) == len(tokens) + 1
        assert -float(total) == pytest.approx(expected, abs=1e-4)
