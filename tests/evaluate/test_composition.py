"""The table of composition rules: what it compares, and that its judge is reading itself."""

import json

import pytest
from lovelace import QUESTIONS as FOUR
from lovelace import Words

from precog.backbones.tenns.backbone import TennsBackbone
from precog.engine import RULES, GroundedSettings
from precog.errors import InputError, UsageError
from precog.evaluate import composition as composition_module
from precog.evaluate.composer import BEST, DEFAULT_WAYS, READ, CompositionSettings, Way
from precog.evaluate.composition import evaluate_composition
from precog.evaluate.squad_data import Question
from precog.text.tokenizer import load_mistral_tokenizer

QUESTIONS = [
    *FOUR,
    Question("e", "alone", "One paragraph is no corpus.", "What is no corpus?", ("One paragraph",)),
]


@pytest.fixture(scope="module")
def backbone():
    return TennsBackbone.random("tiny-outer", load_mistral_tokenizer(), seed=1)


@pytest.fixture(scope="module")
def report(backbone):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(composition_module, "load_encoder", lambda _spec: Words())
        settings = CompositionSettings(codec="fp32", grounded=GroundedSettings(beam_width=2))
        return evaluate_composition(QUESTIONS, None, 0, backbone, settings)


def test_every_way_has_its_row(report, backbone):
    assert list(report["rules"]) == list(DEFAULT_WAYS)
    assert report["n"] == 4  # an article of one paragraph has nothing to compose
    for row in report["rules"].values():
        assert (row["free"]["f1_where_gold_is_not_best"] is None) == (report["num_gold_not_best"] == 0)
        assert 0 <= row["grounded"]["em"] <= row["grounded"]["f1"] <= 100
        assert row["median_latency_sec"] >= row["median_first_token_sec"] > 0
        assert row["state_error"] is None or len(row["state_error"]) == backbone.spec.layers
    json.dumps(report, allow_nan=False)


def test_the_judge_is_reading_and_the_rules_are_measured_against_it(report):
    rows = report["rules"]
    assert rows[READ]["mean_state_error"] == 0
    assert rows[READ]["max_logit_error"] <= 1e-4
    assert rows["mix"]["state_error"] is None
    assert rows["mix"]["mean_max_logit_error"] is None
    assert rows["concat"]["state_error"][0] <= 1e-5  # exact in layer 1
    assert rows["concat"]["mean_state_error"] < rows["mean"]["mean_state_error"]
    for name in ("mean", "permute", BEST):
        assert rows[name]["state_error"][0] > 1e-2
    assert [name for name, row in rows.items() if row["exact"]] == [READ, BEST, "mix", "mix@0.1", "replay"]


def test_bytes_and_tokens_are_those_of_the_rule(report, backbone):
    rows = report["rules"]
    state = backbone.spec.num_reals() * 4
    assert rows[BEST]["mean_bytes_loaded"] == state
    assert rows["mean"]["mean_bytes_loaded"] == rows["mix"]["mean_bytes_loaded"] == 3 * state
    assert rows["concat"]["mean_bytes_loaded"] == 3 * (state + backbone.spec.decay_time_bytes)
    assert state < rows["replay"]["mean_bytes_loaded"] < 2 * state
    assert rows[READ]["mean_tokens_read"] > rows["replay"]["mean_tokens_read"] > rows["mix"]["mean_tokens_read"]


@pytest.mark.parametrize("rule", RULES)
def test_rows_are_named_by_rule_temperature_and_norm(rule):
    assert Way.parse(f" {rule}@0.25").how.temperature == 0.25
    assert Way.parse(rule).how.rule == rule
    assert Way.parse("mean@2+layer").how.renorm == "layer"
    assert Way.parse(READ).how is None


@pytest.mark.parametrize("name", ["", "soup", "mean@", "mean@x", "mean@0", "mean@-1", "mean@nan", "mean+", "mix+layer"])
def test_rows_that_do_not_exist_are_refused(name):
    with pytest.raises(UsageError):
        Way.parse(name)


def test_settings_and_files_that_cannot_be_are_refused(backbone):
    for values in ({"num_chunks": 1}, {"ways": ()}, {"ways": (Way.parse("mean"), Way.parse("mean"))}):
        with pytest.raises(UsageError):
            CompositionSettings(**values)
    with pytest.raises(InputError, match="enough paragraphs"):
        evaluate_composition(QUESTIONS[4:], None, 0, backbone, CompositionSettings())
