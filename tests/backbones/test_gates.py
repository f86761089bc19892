"""Gates are the factors that the recurrence itself uses: their product is what a state loses."""

import pytest
import torch

from precog.backbones.gates import GatedBackbone
from precog.backbones.tenns.backbone import TennsBackbone
from precog.errors import InputError
from precog.text.tokenizer import load_mistral_tokenizer

TOKENIZER = load_mistral_tokenizer()
IDS = [1, *TOKENIZER.encode("A token writes, and every later token lets a share of it live.")]


@pytest.mark.parametrize("preset", ["tiny", "tiny-outer"])
def test_gates_are_those_of_reading(preset: str) -> None:
    model = TennsBackbone.random(preset, TOKENIZER)
    assert isinstance(model, GatedBackbone)
    gates = model.gates(IDS)
    layers, length, groups = gates.steps.shape
    assert (layers, length, groups) == (model.spec.layers, len(IDS), model.spec.decay_groups)
    assert gates.rates.shape[1] % groups == 0
    assert (gates.steps > 0).all()
    assert (gates.rates < 0).all()
    state, _ = model.prefill(IDS)
    torch.testing.assert_close(gates.steps.sum(1), state.decay_time)
    with pytest.raises(InputError):
        model.gates([])


@pytest.mark.parametrize("preset", ["tiny", "tiny-outer"])
def test_a_state_decays_by_the_product_of_the_gates(preset: str) -> None:
    """In layer 1, where inputs do not depend on the state, two states approach each other by exactly that product."""
    model = TennsBackbone.random(preset, TOKENIZER)
    [low, high] = model.encode_chunks([TOKENIZER.encode("one text"), TOKENIZER.encode("and quite another one")])
    gates = model.gates(IDS)
    before = (low.recurrent - high.recurrent)[0]
    after = (model.prefill(IDS, low)[0].recurrent - model.prefill(IDS, high)[0].recurrent)[0]
    groups, coordinates = gates.steps.shape[2], gates.rates.shape[1]
    elapsed = gates.steps[0].sum(0).repeat_interleave(coordinates // groups)
    decay = (elapsed * gates.rates[0]).exp()
    if preset == "tiny":  # complex modes: real parts first; the modulus decays
        modulus = torch.stack((before[:coordinates], before[coordinates:])).norm(dim=0) * decay
        found = torch.stack((after[:coordinates], after[coordinates:])).norm(dim=0)
    else:
        modulus, found = before.view(coordinates, -1) * decay[:, None], after.view(coordinates, -1)
    torch.testing.assert_close(found, modulus, rtol=1e-3, atol=1e-6)
