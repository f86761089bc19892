"""Bytes spent on bits, layers and states: which configurations there are, what they answer, which is best."""

import json
from dataclasses import replace

import numpy as np
import pytest
from lovelace import PARAGRAPHS, QUESTIONS

from precog.engine.composed import Composing
from precog.errors import UsageError
from precog.evaluate.budgets import Budgets, BudgetSettings
from precog.evaluate.experiment import Experiment, run
from precog.evaluate.pareto import Pareto, ParetoSettings
from precog.evaluate.pieces import pieces_of
from precog.evaluate.spending import KB
from precog.evaluate.squad_data import Question
from precog.state import codec_named

SENTENCES = " ".join(PARAGRAPHS)
LONGER = [replace(question, context=SENTENCES) for question in QUESTIONS]


def _kb(backbone, codec, states=1):
    return -(-codec_named(codec).state_bytes(backbone.spec) * states // KB)


@pytest.fixture
def experiment(brief_backbone, words):
    whole = _kb(brief_backbone, "fp16")
    settings = BudgetSettings((whole, 2 * whole), ("fp16", "int8"), (1, 2), ("best", "mix@0.1", "mean"))
    return Budgets(LONGER, brief_backbone, settings, words)


def test_a_single_state_answers_as_the_pareto_front_measures_it(brief_backbone, experiment):
    known = Pareto(LONGER, brief_backbone, ParetoSettings(("fp16", "int8"), ("all",)))
    for number in range(len(LONGER)):
        said, expected = experiment.measure(number)["said"], known.measure(number)["said"]
        for name in ("fp16 all", "int8 all"):
            for key in ("text", "em", "f1", "tokens_processed"):
                assert said[name][key] == expected[name][key]
            assert said[name]["pieces"] == 1


def test_several_states_are_those_of_the_pieces_composed(brief_backbone, experiment, monkeypatch):
    asked = []

    def noted(backbone, members, scores, question, how, decoding):
        asked.append((members, scores, how))
        return answer(backbone, members, scores, question, how, decoding)

    from precog.evaluate import budgets

    answer = budgets.answer_by
    monkeypatch.setattr(budgets, "answer_by", noted)
    said = experiment.measure(0)["said"]
    by_row = dict(zip(said, asked, strict=True))
    pieces = pieces_of(SENTENCES, 2)
    assert len(pieces) == 2
    members, scores, how = by_row["fp16 all ×2 mix@0.1"]
    assert sorted(member.text for member in members) == sorted(pieces)
    assert list(scores) == sorted(scores, reverse=True)
    assert how == Composing("mix", 0.1)
    tokenizer, codec = brief_backbone.tokenizer, codec_named("fp16")
    for member in members:
        [alone] = brief_backbone.encode_chunks([tokenizer.encode(member.text)])
        assert member.state.recurrent.equal(codec.rounded(alone, brief_backbone.spec).recurrent)
    assert [member.text for member in by_row["fp16 all ×2 best"][0]] == [members[0].text]
    assert "Ada Lovelace" in members[0].text
    assert said["fp16 all ×2 mix@0.1"]["pieces"] == said["fp16 all ×2 best"]["pieces"] == 2
    assert by_row["fp16 all ×2 mean"][2].rule == "mean"


def test_the_report_marks_the_best_of_what_fits(brief_backbone, experiment):
    assert isinstance(experiment, Experiment)
    report = json.loads(json.dumps(run(experiment), allow_nan=False))
    rows, spec = report["rows"], brief_backbone.spec
    fp16 = codec_named("fp16").state_bytes(spec)
    assert report["against"] == "fp16 all"
    assert rows["fp16 all"]["f1_gain"] == {"value": 0.0, "low": 0.0, "high": 0.0}
    assert rows["fp16 all ×2 mean"]["state_bytes"] == 2 * fp16
    assert rows["fp16 all ×2 mean"]["mean_states"] == 2
    assert rows["fp16 all"]["rule"] is None
    small, large = report["budgets"].values()
    assert set(small["fitting"]) < set(large["fitting"]) == set(rows)
    for budget, told in report["budgets"].items():
        assert set(told["fitting"]) == {n for n, row in rows.items() if row["state_bytes"] <= int(budget) * KB}
        assert rows[told["best"]]["f1"] == max(rows[name]["f1"] for name in told["fitting"])
        assert all(
            rows[name]["state_bytes"] >= rows[told["best"]]["state_bytes"]
            for name in told["fitting"]
            if rows[name]["f1"] == rows[told["best"]]["f1"]
        )
        assert told["chosen_elsewhere"]["f1"] <= rows[told["best"]]["f1"] + 1e-9
    assert any(row["on_front"] for row in rows.values())
    assert json.loads(json.dumps(experiment.settings)) == experiment.settings


def _records(scores):
    """Records of the experiment where each row has these F1, question by question."""
    count = len(next(iter(scores.values())))
    plain = {"em": 0.0, "tokens_processed": 1, "latency_sec": 0.1, "first_token_sec": 0.1, "pieces": 1, "text": ""}
    said = [{name: {**plain, "f1": f1[number]} for name, f1 in scores.items()} for number in range(count)]
    return [{"id": str(number), "said": one} for number, one in enumerate(said)]


def test_the_best_is_also_scored_on_questions_it_was_not_chosen_on(experiment):
    names = [variant.name for variant in experiment.variants]
    scores = {name: [0.0, 0.0, 0.0, 0.0] for name in names}
    scores["int8 all"] = [90.0, 10.0, 90.0, 10.0]  # the best on even questions, and over all
    scores["fp16 all"] = [20.0, 60.0, 20.0, 60.0]  # the best on odd ones
    small = experiment.report(_records(scores))["budgets"][str(min(map(int, experiment.settings["budgets"])))]
    assert small["best"] == "int8 all"
    elsewhere = small["chosen_elsewhere"]
    assert elsewhere["f1"] == pytest.approx(np.mean([20.0, 10.0, 20.0, 10.0]))
    assert set(elsewhere["rows"]) == {"int8 all", "fp16 all"}
    alone = experiment.report(_records({name: [1.0] for name in names}))
    assert all(told["chosen_elsewhere"] is None for told in alone["budgets"].values())


def test_what_all_are_compared_with_is_no_choice_unless_it_is_asked_for(brief_backbone, words):
    budget = _kb(brief_backbone, "fp16")
    experiment = Budgets(LONGER, brief_backbone, BudgetSettings((budget,), ("int8",), (1,)), words)
    rows = {variant.name: variant.facts for variant in experiment.variants}
    assert rows["fp16 all"]["budget"] is None
    assert rows["int8 all"]["budget"] == budget
    assert run(experiment)["budgets"][str(budget)]["fitting"] == ["int8 all"]


def test_a_paragraph_of_one_sentence_has_one_state(brief_backbone, words):
    asked = [Question("a", "t", PARAGRAPHS[0], "Where was Ada Lovelace born?", ("London",))]
    settings = BudgetSettings((_kb(brief_backbone, "fp16", 2),), ("fp16",), (1, 2), ("mix@0.1", "concat"))
    said = Budgets(asked, brief_backbone, settings, words).measure(0)["said"]
    assert {answer["text"] for answer in said.values()} == {said["fp16 all"]["text"]}
    assert {answer["pieces"] for answer in said.values()} == {1}


def test_a_budget_below_the_smallest_configuration_names_it(brief_backbone, words):
    least = _kb(brief_backbone, "fp32", 16)
    expected = rf"nothing fits.*given: {least - 1} KB; expected: at least {least} KB: the smallest, fp32 all ×16, takes"
    with pytest.raises(UsageError, match=expected):
        Budgets(LONGER, brief_backbone, BudgetSettings((2 * least, least - 1), ("fp32",), (16, 32)), words)


def test_rules_follow_what_the_model_allows(brief_backbone, words, monkeypatch):
    monkeypatch.setattr(brief_backbone, "spec", replace(brief_backbone.spec, capacity=64))
    settings = BudgetSettings((_kb(brief_backbone, "fp16", 2),), ("fp16",), (1, 2))
    monkeypatch.setattr("precog.evaluate.budgets.rules_of", lambda backbone: ("mix", "replay"))
    assert Budgets(LONGER, brief_backbone, settings, words).settings["rules"] == ["best", "mix@0.1"]
    with pytest.raises(UsageError, match=r"cannot be composed so; given: mean; expected: best, mix$"):
        Budgets(LONGER, brief_backbone, replace(settings, rules=("mean", "mix")), words)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: BudgetSettings(()), "--budgets names one twice, or none"),
        (lambda: BudgetSettings((24, 24)), "--budgets names one twice"),
        (lambda: BudgetSettings((0,)), "--budgets is a list of whole numbers above 0; given: 0"),
        (lambda: BudgetSettings(codecs=("fp8",)), "no such state codec; given: fp8"),
        (lambda: BudgetSettings(codecs=()), "--codec-grid names one twice, or none"),
        (lambda: BudgetSettings(states=(0, 1)), "--states is a list of whole numbers above 0"),
        (lambda: BudgetSettings(rules=("replay",)), "reads the text again; given: replay"),
        (lambda: BudgetSettings(rules=("in_context",)), "reads the text again"),
        (lambda: BudgetSettings(rules=("mean", "mean")), "--rules names one twice"),
        (lambda: BudgetSettings(rules=("median",)), "no such rule"),
    ],
)
def test_bad_settings_are_refused(made, said):
    with pytest.raises(UsageError, match=said):
        made()
