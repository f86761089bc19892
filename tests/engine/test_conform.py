"""The conformance table says exact of a model that is, and can say otherwise."""

import dataclasses

import pytest
import torch

from precog.backbones.tenns.backbone import TennsBackbone
from precog.engine.conform import conform
from precog.text.tokenizer import load_mistral_tokenizer


@pytest.fixture(scope="module")
def model():
    return TennsBackbone.random("tiny", load_mistral_tokenizer())


def test_an_exact_model_passes_and_would_fail_without_its_state(model):
    table = conform(model)
    assert table.is_exact, [check for check in table.checks if not check.ok]
    assert table.max_abs_logit_error <= 1e-4
    assert table.lost > 1e-3
    assert len({check.name for check in table.checks}) == len(table.checks)


class Forgetful(TennsBackbone):
    """Reads several tokens as if nothing had been read, as some libraries do; single ones rightly."""

    def _pass(self, batch, tokens):
        if tokens.shape[1] > 1 and any(batch.num_tokens):
            batch = dataclasses.replace(batch, recurrent=torch.zeros_like(batch.recurrent))
        return super()._pass(batch, tokens)


def test_a_model_that_loses_its_state_is_found(model):
    table = conform(Forgetful(model.model, model.card, model.tokenizer))
    failed = {check.name for check in table.checks if not check.ok}
    assert "split at 17, rest at once" in failed
    assert "split at 17, token by token" not in failed
    assert not table.is_exact


class Leaking(TennsBackbone):
    """Writes into the states it is given."""

    def open(self, states):
        for state in states:
            state._part("_recurrent").mul_(1.01)
        return super().open(states)


def test_a_model_that_changes_states_is_found(model):
    table = conform(Leaking(model.model, model.card, model.tokenizer))
    failed = {check.name for check in table.checks if not check.ok}
    assert {"injected 100 times", "state unchanged by its use"} <= failed


def test_another_process_is_asked(model):
    def elsewhere(data, num_tokens, ids):
        assert num_tokens == 65
        assert len(data) == 4 * model.spec.num_reals()
        return torch.zeros(len(ids), model.tokenizer.vocab_size)

    [check] = [check for check in conform(model, elsewhere=elsewhere).checks if "another process" in check.name]
    assert not check.ok
