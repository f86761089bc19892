"""Theorem 1 in numbers, each part with a model that breaks it: what is measured must be able to say no."""

from dataclasses import replace

import pytest
import torch

from precog.backbones.tenns.backbone import TennsBackbone
from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.model import build
from precog.errors import InputError, UsageError
from precog.evaluate.theorem import averages, convolution
from precog.evaluate.theorem.averages import measure_averages
from precog.evaluate.theorem.bound import FP64_EXPECTED
from precog.evaluate.theorem.convolution import measure_convolution, twin
from precog.evaluate.theorem.exactness import MARKS, marks_of, measure_exactness
from precog.evaluate.theorem.passage import random_passages, real_passages
from precog.evaluate.theorem.positions import measure_placeless
from precog.evaluate.theorem.rollout import Memory, WideRollout, stored
from precog.evaluate.theorem.sufficiency import HALVINGS, measure_sufficiency
from precog.state import State
from precog.text.sample import sample_text
from precog.text.tokenizer import load_mistral_tokenizer

EXACT = 1e-4
TOKENIZER = load_mistral_tokenizer()
MARKED = (1, 4, 12)


class Forgetful(TennsBackbone):
    """Injects all layers of a state but one."""

    def open(self, states):
        batch = super().open(states)
        batch.recurrent[1] = 0
        return batch


class Counting(TennsBackbone):
    """What it says depends on how many tokens a state has read: a position."""

    def prefill_logits(self, token_ids, state=None):
        after, logits = super().prefill_logits(token_ids, state)
        return after, logits + 1e-3 * (0 if state is None else state.num_tokens)


class Timed(TennsBackbone):
    """What it says depends on something of the context that is not its recurrent state."""

    def prefill_logits(self, token_ids, state=None):
        after, logits = super().prefill_logits(token_ids, state)
        return after, logits + (0 if state is None else state.decay_time.sum())


def backbone_of(kind=TennsBackbone, preset="tiny"):
    return kind.random(preset, TOKENIZER, seed=3)


@pytest.fixture(scope="module", params=["tiny", "tiny-outer"])
def backbone(request):
    return backbone_of(preset=request.param)


@pytest.fixture(scope="module")
def passage(backbone):
    return real_passages(backbone, sample_text(), 1, 10, 12)[0]


@pytest.mark.parametrize("from_nothing", [True, False])
@pytest.mark.parametrize("kind", ["random", "real"])
def test_reading_on_from_a_stored_state_is_reading_everything(backbone, passage, kind, from_nothing):
    if kind == "random":
        [passage] = random_passages(backbone, 1, 10, 12, 5)
    record = measure_exactness(backbone, passage, from_nothing=from_nothing, marks=MARKED)
    assert (record["kind"], record["marks"]) == (kind, [1, 4, 12])
    rows = record["stored"]
    assert rows["fp64"]["max_abs_logit_error"] <= FP64_EXPECTED
    assert rows["fp32"]["max_abs_logit_error"] <= EXACT
    assert rows["fp64"]["element_error"] == rows["fp32"]["element_error"] == 0
    for name in ("bf16", "fp16"):
        assert 0.5 < rows[name]["element_error"] <= 1  # of thousands of reals, some are rounded by nearly half a unit
        assert max(map(max, rows[name]["inf_norm"])) < (2**-7 if name == "bf16" else 2**-10)
    for fine, coarse in (("fp64", "fp32"), ("fp32", "fp16"), ("fp16", "bf16")):
        assert rows[fine]["max_abs_logit_error"] < rows[coarse]["max_abs_logit_error"]
    for row in rows.values():
        assert row["positions"] == row["agreeing"] == 12
        assert [len(layers) for layers in row["inf_norm"]] == [backbone.spec.layers] * 3


def test_a_backbone_that_loses_a_layer_of_the_state_is_found_out(passage):
    record = measure_exactness(backbone_of(Forgetful), passage, from_nothing=True, marks=MARKED)
    assert record["stored"]["fp32"]["max_abs_logit_error"] > 100 * EXACT
    assert record["stored"]["fp32"]["inf_norm"][0][1] > 0.1


def test_an_earlier_text_is_really_read(backbone, passage):
    rolls = WideRollout(backbone.model, backbone.spec, backbone.device)
    start = rolls.roll(passage.prior)[0].at_boundary(backbone.spec)
    alone, after = rolls.roll(passage.context)[1], rolls.roll(passage.context, start)[1]
    assert (alone - after).abs().max() > 0.01
    assert alone.dtype == torch.float64


def test_states_are_rounded_as_their_storage_rounds(backbone):
    generator = torch.Generator().manual_seed(0)
    reals = torch.randn(backbone.spec.layers, backbone.spec.reals_per_layer, generator=generator)
    memory = Memory(reals, None, 3)
    assert torch.equal(stored(memory, "bf16", backbone.spec).recurrent, reals.bfloat16().float())
    assert torch.equal(stored(memory, "fp16", backbone.spec).recurrent, reals.half().float())
    assert torch.equal(stored(memory, "fp32", backbone.spec).recurrent, reals)
    with pytest.raises(UsageError, match="given: fp8"):
        stored(memory, "fp8", backbone.spec)


def test_marks_end_with_the_question():
    assert marks_of(40) == (1, 2, 4, 8, 16, 32, 40)
    assert marks_of(128) == MARKS
    assert marks_of(5) == (1, 2, 4, 5)


def test_the_state_is_all_that_a_context_leaves(backbone, passage):
    record = measure_sufficiency(backbone, passage)
    assert len(record["transplant"]) == backbone.spec.layers + 1
    assert record["transplant"][-1] == 0
    assert min(record["transplant"][:-1]) > 0.01
    assert record["elsewhere"] == {"max_abs_logit_error": 0.0, "another_process": False}
    moved = record["interpolation"]["max_abs_logit_error"]
    assert len(moved) == len(HALVINGS)
    assert moved == sorted(moved, reverse=True)
    assert moved[-1] < 1e-4 * moved[0]


def test_something_besides_the_state_is_found_out(passage):
    record = measure_sufficiency(backbone_of(Timed), passage)
    assert record["transplant"][-1] > 0.01
    assert record["elsewhere"]["max_abs_logit_error"] > 0.01


def test_other_bytes_than_those_that_were_kept_are_found_out(backbone, passage):
    def elsewhere(data, num_tokens, ids):
        return backbone.prefill_logits(ids)[1]

    record = measure_sufficiency(backbone, passage, elsewhere)
    assert record["elsewhere"]["another_process"]
    assert record["elsewhere"]["max_abs_logit_error"] > 0.01


def test_the_window_of_the_convolution_belongs_to_the_memory_where_it_crosses(backbone, passage):
    record = measure_convolution(backbone, passage)
    kept = record["carried"]["kept"]
    assert list(kept) == ["0", "1", "2", "3"]
    assert max(kept["3"]) <= EXACT
    assert all(min(kept[count]) > EXACT for count in "012")  # from the first question token on
    assert max(kept["0"]) > max(kept["2"])
    assert [cut["tokens"] for cut in record["carried"]["cuts"]][:4] == [1, 2, 3, 4]
    assert all(cut["error"] > EXACT for cut in record["carried"]["cuts"])
    segment = record["segment"]
    assert max(segment["boundary"]) <= EXACT
    assert [cut["error"] > EXACT for cut in segment["cuts"]] == [False] + [True] * 6
    assert all(cut["error"] <= EXACT for cut in segment["cuts_with_tail"])
    assert segment["refused"]


def test_a_convolution_that_does_not_cross_is_found_out(backbone, passage, monkeypatch):
    monkeypatch.setattr(convolution, "twin", lambda backbone, how: twin(backbone, "segment"))
    assert max(measure_convolution(backbone, passage)["carried"]["kept"]["0"]) <= EXACT


def test_a_twin_shares_its_weights_and_is_another_model(backbone):
    other = twin(backbone, "carried")
    assert other.spec.carries_tail
    assert not backbone.spec.carries_tail
    assert other.fingerprint != backbone.fingerprint
    assert twin(backbone, "segment").fingerprint == backbone.fingerprint
    weights = zip(other.model.parameters(), backbone.model.parameters(), strict=True)
    assert all(one.data_ptr() == same.data_ptr() for one, same in weights)


def test_a_state_has_no_position_and_knows_only_its_text(backbone, passage):
    record = measure_placeless(backbone, passage)
    assert set(record["counted"].values()) == {0.0}
    assert record["reread"] <= EXACT
    assert min(record["unread"], record["lost"]) > 0.01


def test_a_model_with_positions_is_found_out(passage):
    record = measure_placeless(backbone_of(Counting), passage)
    assert record["counted"]["1000"] > 0.5


def test_a_mean_is_no_state_of_these_texts_and_the_unrolling_is_exact_for_given_inputs(backbone, passage):
    record = measure_averages(backbone, passage)
    assert list(record["mean"]) == ["a", "b", "ab", "ba"]
    assert all(max(row["layers"]) > 0.1 and row["max_abs_logit_error"] > 0.01 for row in record["mean"].values())
    assert all(0 < norm < 1 for norm in record["norm"])  # states that differ: their mean is shorter (ERRATA 15)
    assert record["unrolled"][0] <= 1e-5
    assert min(record["unrolled"][1:]) > 1e-3
    assert max(record["given_inputs"]) <= 1e-5


def test_other_rates_of_fading_are_found_out(backbone, passage, monkeypatch):
    real = backbone.decay()
    slow = replace(real, rates=real.rates / 2)
    monkeypatch.setattr(averages, "decay_of", lambda _: slow)
    assert measure_averages(backbone, passage)["unrolled"][0] > 1e-3


def test_a_single_layer_is_unrolled_exactly():
    config = replace(TennsConfig.preset("tiny"), layers=1)
    alone = TennsBackbone.wrap(build(config, 0), TOKENIZER)
    [passage] = random_passages(alone, 1, 10, 12, 0)
    record = measure_averages(alone, passage)
    assert len(record["unrolled"]) == 1
    assert record["unrolled"][0] <= 1e-5


def test_passages_are_of_the_lengths_asked_for_and_do_not_overlap(backbone):
    ids = TOKENIZER.encode(sample_text())
    passages = real_passages(backbone, sample_text(), 3, 10, 12)
    assert [(len(p.prior), len(p.context), len(p.other), len(p.question)) for p in passages] == [(11, 11, 11, 12)] * 3
    assert [p.name for p in passages] == ["real 1", "real 2", "real 3"]
    first = passages[0]
    assert [*first.other[1:], *first.prior[1:], *first.context[1:], *first.question[1:]] == ids[:41]
    assert len({p.context for p in passages}) == 3
    assert random_passages(backbone, 1, 10, 12, 1) != random_passages(backbone, 1, 10, 12, 2)
    with pytest.raises(InputError, match="too short"):
        real_passages(backbone, "A few words.", 1, 10, 12)


def test_a_state_that_is_passed_on_is_not_changed(backbone, passage):
    before = backbone.prefill(passage.context)[0].at_boundary()
    kept = before.recurrent
    measure_exactness(backbone, passage, from_nothing=True, marks=MARKED)
    assert isinstance(before, State)
    assert torch.equal(before.recurrent, kept)
