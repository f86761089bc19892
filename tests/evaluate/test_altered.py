"""Answers from altered states: depth, temperature and bytes against the states they alter."""

import json
from dataclasses import replace

import numpy as np
import pytest
from lovelace import PARAGRAPHS, QUESTIONS

from precog.errors import UsageError
from precog.evaluate.depth import Depth, DepthSettings, paper_subsets
from precog.evaluate.experiment import Experiment, run
from precog.evaluate.pareto import Pareto, ParetoSettings
from precog.evaluate.squad_data import Question
from precog.evaluate.temperature import Temperature, TemperatureSettings
from precog.state import LayerSubset


def _texts(experiment, variant):
    return [experiment.measure(number)["said"][variant]["text"] for number in range(len(experiment))]


def test_the_papers_subsets_are_those_of_its_table_at_its_depth():
    assert paper_subsets(24) == (
        "all", "bottom:18", "bottom:12", "bottom:6", "top:12", "top:6", "alternate", "none",
    )  # fmt: skip
    assert paper_subsets(12)[1:6] == ("bottom:9", "bottom:6", "bottom:3", "top:6", "top:3")
    for num_layers in range(1, 40):
        for name in paper_subsets(num_layers):
            LayerSubset.parse(name, num_layers)


def test_depth_keeps_all_layers_or_none(brief_backbone):
    experiment = Depth(QUESTIONS, brief_backbone, DepthSettings(codec="fp32"))
    assert isinstance(experiment, Experiment)
    report = json.loads(json.dumps(run(experiment), allow_nan=False))
    rows = report["rows"]
    assert list(rows) == list(paper_subsets(brief_backbone.spec.layers))
    assert rows["none"]["state_bytes"] == 0
    assert rows["all"]["state_bytes"] == 4 * brief_backbone.spec.num_reals()
    assert rows["all"]["f1_gain"] == {"value": 0.0, "low": 0.0, "high": 0.0}
    reader = experiment._reader
    assert _texts(experiment, "none") == [reader.mask_only(q.question, q.context).text for q in QUESTIONS]
    injected = [reader.inject(q.question, [q.context], [1.0], 1.0).text for q in QUESTIONS]
    assert _texts(experiment, "all") == injected
    assert _texts(experiment, "none") != injected


def test_depth_leaves_missing_layers_empty(brief_backbone):
    experiment = Depth(QUESTIONS, brief_backbone, DepthSettings(("bottom:1",)))
    whole, bottom = (given.state.recurrent for given in experiment.given(QUESTIONS[0]))
    assert bottom[0].equal(whole[0])
    assert not bottom[1:].any()
    assert whole[1:].any()


def test_the_settings_tell_experiments_apart(brief_backbone):
    one, other = Depth(QUESTIONS, brief_backbone), Depth(QUESTIONS[:3], brief_backbone)
    assert one.settings != other.settings
    assert one.settings["fingerprint"] == brief_backbone.fingerprint
    assert json.loads(json.dumps(one.settings)) == one.settings
    assert one.settings != Depth(QUESTIONS, brief_backbone, DepthSettings(codec="int8")).settings


def test_a_subset_beyond_the_model_is_one_line(brief_backbone):
    with pytest.raises(UsageError, match=r"no such number of layers; given: bottom:18; expected: 1 to \d+$"):
        Depth(QUESTIONS, brief_backbone, DepthSettings(("bottom:18",)))


def test_temperature_goes_from_the_mean_to_the_best_alone(brief_backbone, words):
    settings = TemperatureSettings((1.0, 1e-4), codec="fp32")
    experiment = Temperature(QUESTIONS, QUESTIONS, brief_backbone, settings, words)
    report = run(experiment)
    rows = report["rows"]
    assert list(rows) == ["top1", "1", "0.0001"]
    assert report["against"] == "1"
    assert rows["1"]["mean_top_weight"] < 0.6
    assert rows["0.0001"]["mean_top_weight"] == pytest.approx(1)
    weights = [experiment.measure(number)["said"]["1"]["top_weight"] for number in range(len(QUESTIONS))]
    assert rows["1"]["mean_top_weight"] == pytest.approx(float(np.mean(weights)))
    for question in QUESTIONS:
        best, mean, nearly = (given.state.recurrent for given in experiment.given(question))
        assert not mean.allclose(best, atol=1e-4)
        assert nearly.allclose(best, atol=1e-4)


def test_temperature_puts_the_gold_paragraph_among_what_was_found_or_not(brief_backbone, words):
    asked = Question("e", "t", PARAGRAPHS[3], "How high is Mount Kenya?", ("x",))
    for context, expected in (("gold", PARAGRAPHS[3]), ("retrieved", PARAGRAPHS[2])):
        settings = TemperatureSettings((1.0,), 2, context)
        experiment = Temperature([asked], QUESTIONS, brief_backbone, settings, words)
        first, both = experiment.given(asked)
        assert list(first.paragraphs) == [expected]
        assert both.paragraphs[0] == expected
        assert (PARAGRAPHS[3] in both.paragraphs) == (context == "gold")


def test_pareto_has_every_pair_and_marks_the_front(brief_backbone):
    experiment = Pareto(QUESTIONS[:2], brief_backbone, ParetoSettings(("fp16", "int4"), ("bottom:1", "none")))
    report = run(experiment)
    rows = report["rows"]
    assert list(rows) == [f"{codec} {layers}" for codec in ("fp16", "int4") for layers in ("all", "bottom:1", "none")]
    assert rows["fp16 all"]["state_bytes"] > rows["int4 all"]["state_bytes"] > rows["int4 bottom:1"]["state_bytes"]
    for row in rows.values():
        better = [
            other
            for other in rows.values()
            if (other["f1"] > row["f1"] and other["state_bytes"] <= row["state_bytes"])
            or (other["f1"] >= row["f1"] and other["state_bytes"] < row["state_bytes"])
        ]
        assert row["on_front"] == (not better)
    assert any(row["on_front"] for row in rows.values())


@pytest.mark.parametrize(
    "made",
    [
        lambda: DepthSettings(("all", "all")),
        lambda: DepthSettings(codec="fp8"),
        lambda: ParetoSettings(()),
        lambda: ParetoSettings(("fp8",)),
        lambda: TemperatureSettings(()),
        lambda: TemperatureSettings((0.0,)),
        lambda: TemperatureSettings(top_k=1),
        lambda: TemperatureSettings(context="silver"),
    ],
)
def test_bad_settings_are_refused(made):
    with pytest.raises(UsageError):
        made()


def test_a_model_with_attention_has_no_depth_and_keeps_all_of_its_layers(brief_backbone, monkeypatch):
    monkeypatch.setattr(brief_backbone, "spec", replace(brief_backbone.spec, capacity=64))
    with pytest.raises(UsageError, match="no depth to measure"):
        Depth(QUESTIONS, brief_backbone)
    assert {variant.facts["layers"] for variant in Pareto(QUESTIONS, brief_backbone).variants} == {"all"}
