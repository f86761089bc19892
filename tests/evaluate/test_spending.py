"""What a budget of bytes can be spent on."""

from dataclasses import replace

import pytest

from precog.errors import UsageError
from precog.evaluate.spending import spendings
from precog.state import codec_named


def _spent(spec, budget, codecs, states):
    return [s.name for s in spendings([budget], spec, [codec_named(name) for name in codecs], states)]


def test_a_budget_is_spent_on_the_most_layers_that_fit(brief_backbone):
    spec = brief_backbone.spec
    layer = codec_named("fp16").state_bytes(spec) // spec.layers
    assert _spent(spec, spec.layers * layer, ["fp16"], [1]) == ["fp16 all"]
    assert _spent(spec, spec.layers * layer - 1, ["fp16"], [1]) == [
        f"fp16 {end}:{spec.layers - 1}" for end in ("top", "bottom")
    ]
    assert _spent(spec, 2 * layer, ["fp16"], [2]) == ["fp16 top:1 ×2"]
    assert _spent(spec, 2 * spec.layers * layer, ["fp32", "fp16"], [1, 2]) == ["fp32 all", "fp16 all", "fp16 all ×2"]
    assert _spent(spec, 2 * spec.layers * layer - 1, ["fp32", "fp16"], [1]) == ["fp16 all"]


def test_several_budgets_name_nothing_twice(brief_backbone):
    spec, codecs = brief_backbone.spec, [codec_named("fp16"), codec_named("int8")]
    whole = codecs[0].state_bytes(spec)
    found = spendings([2 * whole, whole], spec, codecs, [1, 2])
    assert len(set(found)) == len(found)
    for spending in found:
        assert spending.num_bytes(spec) <= 2 * whole
        assert spending.encoded_bytes(spec) >= spending.num_bytes(spec)
    assert [s.name for s in found if s.states == 1] == ["fp16 all", "int8 all"]


def test_states_that_grow_keep_all_layers(brief_backbone):
    grown = replace(brief_backbone.spec, capacity=64)
    whole = codec_named("fp16").state_bytes(grown)
    assert _spent(grown, 2 * whole, ["fp16"], [1, 2]) == ["fp16 all", "fp16 all ×2"]
    with pytest.raises(UsageError, match="the smallest, fp16 all, takes"):
        _spent(grown, whole - 1, ["fp16"], [1, 2])
