"""When to say nothing: the pairs that are asked, the figures of a confidence, and coefficients fitted to answers."""

import json
from dataclasses import replace

import numpy as np
import pytest
from lovelace import PARAGRAPHS, QUESTIONS

from precog.engine.confidence import Calibration
from precog.engine.evidence import FEATURES
from precog.engine.grounded import GroundedSettings
from precog.engine.modes import FreeSettings
from precog.errors import InputError, UsageError
from precog.evaluate.abstention import Abstention, AbstentionSettings, fitted_to
from precog.evaluate.experiment import measured
from precog.evaluate.reader import ParagraphReader
from precog.evaluate.reliability import auroc

SURE = Calibration(0.0, {"no_answer": -1.0}, 0.5)
NEVER = Calibration(-3.0, {}, 0.5)


@pytest.fixture(scope="module")
def made(brief_backbone, words):
    def make(questions=QUESTIONS, calibration=None, **chosen):
        reader = ParagraphReader(brief_backbone, "fp32", GroundedSettings.from_card(brief_backbone.card.decoding))
        return Abstention(questions, questions, reader, AbstentionSettings(**chosen), calibration, words)

    return make


@pytest.fixture(scope="module")
def records(made):
    return measured(made())


def test_wrong_paragraphs_are_wrong_and_answers_are_spans_of_them(records):
    for record, question in zip(records, QUESTIONS, strict=True):
        said = record["said"]
        assert list(said) == ["own", "best", "random"]
        assert said["own"]["text"] in question.context
        for kind in ("best", "random"):
            assert any(said[kind]["text"] in text for text in PARAGRAPHS if text != question.context)
        assert tuple(said["own"]["evidence"]) == FEATURES
        assert json.loads(json.dumps(record, allow_nan=False)) == record


def test_an_item_gives_the_same_record_whatever_was_measured_before(made, records):
    alone = made().measure(3)
    for kind, said in records[3]["said"].items():
        assert alone["said"][kind]["text"] == said["text"]
        assert alone["said"][kind]["evidence"] == pytest.approx(said["evidence"], abs=1e-5)


def test_the_best_wrong_paragraph_is_of_the_same_title_where_it_has_others(made):
    titled = [replace(question, title=str(number // 2)) for number, question in enumerate(QUESTIONS)]
    experiment = made(titled)
    for number, question in enumerate(titled):
        partner = titled[number ^ 1].context
        for kind in ("best", "random"):
            assert experiment.measure(number)["said"][kind]["text"] in partner
            assert question.context != partner
    alone = made([replace(question, title=question.id) for question in QUESTIONS])
    assert alone.measure(0)["said"]["best"]["text"]


def test_the_report_says_what_the_coefficients_do(made, records):
    report = json.loads(json.dumps(made(calibration=SURE).report(records), allow_nan=False))
    said = [record["said"] for record in records]
    scores = np.array([[SURE.probability(row[kind]["evidence"]) for kind in ("own", "best")] for row in said])
    expected = auroc(scores, np.tile([True, False], (4, 1)))
    assert report["passage"]["own_and_best"]["auroc"] == pytest.approx(expected)
    raw = np.array([[row[kind]["raw"] for kind in ("own", "best")] for row in said])
    assert report["passage"]["own_and_best"]["raw_auroc"] == pytest.approx(auroc(raw, np.tile([True, False], (4, 1))))
    assert set(report["answer"]) == set(report["exact"]) == {"own", "own_and_best", "own_and_random"}
    assert report["answer"]["own"]["n"] == 4
    assert report["coefficients"]["weights"] == {"no_answer": -1.0}
    assert report["withheld"] == {kind: float(np.mean([SURE.probability(row[kind]["evidence"]) < 0.5 for row in said]))
                                  for kind in ("own", "best", "random")}  # fmt: skip
    shy = made(calibration=NEVER).report(records)
    assert set(shy["withheld"].values()) == {1.0}
    assert set(shy["right_of_given"].values()) == {None}


def test_without_coefficients_the_number_is_the_models_own(made, records):
    report = made().report(records)
    assert report["coefficients"] is None
    row = report["passage"]["own_and_random"]
    assert row["auroc"] == row["raw_auroc"]


def test_coefficients_are_fitted_to_right_and_wrong_paragraphs(records):
    rng = np.random.default_rng(0)
    many = []
    for number in range(60):
        said = {}
        for kind in ("own", "best"):
            evidence = {name: float(rng.normal()) for name in FEATURES}
            evidence["no_answer"] = float(rng.normal(-2 if kind == "own" else 0))
            said[kind] = {"evidence": evidence, "f1": 20.0}  # what was answered does not matter
        many.append({"id": str(number), "said": said})
    found = fitted_to(many, {"ids_sha256": "ab"})
    assert found.weights["no_answer"] < -1
    asked = "whether the answer stands in the passage"
    assert found.fitted == {"questions": 60, "ids_sha256": "ab", "asked": asked}
    with pytest.raises(InputError, match="too few answers to fit"):
        fitted_to(records, {"ids_sha256": "ab"})


def test_what_cannot_be_asked_is_refused(made, brief_backbone, words):
    with pytest.raises(InputError, match="wrong paragraphs are needed"):
        made(QUESTIONS[:1])
    with pytest.raises(UsageError, match="no such wrong paragraph"):
        AbstentionSettings(("worst",))
    with pytest.raises(UsageError, match="a free answer has no confidence"):
        Abstention(QUESTIONS, QUESTIONS, ParagraphReader(brief_backbone, "fp32", FreeSettings()), None, None, words)
