"""When to say nothing: the pairs that are asked, the figures of a confidence, and coefficients fitted to answers."""

import json
from copy import copy
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
from precog.evaluate.parts import Parts
from precog.evaluate.reader import ParagraphReader
from precog.evaluate.reliability import auroc
from precog.evaluate.squad_data import Question
from precog.state import codec_named

SURE = Calibration(0.0, {"no_answer": -1.0}, 0.5)
NEVER = Calibration(-3.0, {}, 0.5)


@pytest.fixture(scope="module")
def made(brief_backbone, words):
    def make(questions=QUESTIONS, calibration=None, **chosen):
        reader = ParagraphReader(brief_backbone, "fp32", GroundedSettings.from_card(brief_backbone.card.decoding))
        return Abstention(questions, questions, reader, AbstentionSettings(**chosen), calibration, words)

    return make


FIRST, SECOND = " ".join(PARAGRAPHS[:2]), " ".join(PARAGRAPHS[2:])
SINGLE = "Tom Reed made the wheel of the mill of oak in 1790."
OF_SEVERAL = [
    Question("a", "t", FIRST, "Which sea does the Danube reach?", ("the Black Sea",)),
    Question("b", "t", SECOND, "How high is Mount Kenya?", ("5,199 metres",)),
    Question("c", "u", SINGLE, "Who made the wheel?", ("Tom Reed",)),
]


@pytest.fixture(scope="module")
def focused_on(brief_backbone, words):
    def make(with_parts=True):
        parts = Parts(brief_backbone, words, codec_named("fp32")) if with_parts else None
        grounded = GroundedSettings.from_card(brief_backbone.card.decoding)
        reader = ParagraphReader(brief_backbone, "fp32", grounded, parts=parts)
        return Abstention(OF_SEVERAL, OF_SEVERAL, reader, AbstentionSettings(("best",)), None, words), reader

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


def test_right_and_wrong_paragraphs_are_answered_from_focused_states(focused_on):
    (experiment, reader), (plain, _) = focused_on(), focused_on(with_parts=False)
    record = experiment.measure(0)
    for kind, paragraph in (("own", FIRST), ("best", SECOND)):
        found = reader.focused(OF_SEVERAL[0].question, paragraph)
        said = record["said"][kind]
        assert said["focused"]
        assert found.part.text in PARAGRAPHS
        expected = reader.answer_from(found.state, OF_SEVERAL[0].question, [paragraph])
        assert (said["text"], said["raw"]) == (expected.text, pytest.approx(expected.confidence, abs=1e-6))
    as_read = plain.measure(0)["said"]
    assert all("focused" not in said for said in as_read.values())
    assert as_read["own"]["raw"] != pytest.approx(record["said"]["own"]["raw"], abs=1e-5)
    single, as_read = experiment.measure(2)["said"]["own"], plain.measure(2)["said"]["own"]
    assert single == {**as_read, "focused": False}
    assert (experiment.settings["quality"], experiment.settings["parts"]["most"]) == ("study", 3)
    assert {
        key: value for key, value in experiment.settings.items() if key not in ("quality", "parts")
    } == plain.settings


def test_focused_answers_are_judged_by_their_own_coefficients(brief_backbone, focused_on, words):
    experiment, reader = focused_on()
    records = measured(experiment)
    assert [record["said"]["own"]["focused"] for record in records] == [True, True, False]
    reader.backbone = copy(brief_backbone)
    none = {"weights": {}, "fitted": {}}
    sets = {**none, "bias": 3.0, "threshold": 0.9, "focused": {**none, "bias": -3.0, "threshold": 0.1}}
    reader.backbone.card = replace(brief_backbone.card, confidence=sets)
    own = Abstention(OF_SEVERAL, OF_SEVERAL, reader, AbstentionSettings(("best",)), None, words)
    told = own.report(records)
    assert (told["threshold"], told["coefficients"]) == (0.1, sets["focused"])
    assert told["withheld"]["own"] == pytest.approx(2 / 3)  # those that are focused
    given = Abstention(OF_SEVERAL, OF_SEVERAL, reader, AbstentionSettings(("best",)), Calibration(3.0, {}, 0.96), words)
    told = given.report(records)
    assert (told["threshold"], told["withheld"]["own"]) == (0.96, pytest.approx(2 / 3))  # the other keeps its own


def test_a_fit_to_focused_answers_is_of_those_alone():
    rng = np.random.default_rng(1)

    def said(no_answer, focused):
        values = dict(zip(FEATURES, rng.normal(size=3), strict=True)) | {"no_answer": float(rng.normal(no_answer))}
        return {"evidence": {name: float(value) for name, value in values.items()}, "focused": focused}

    focused = [{"id": str(n), "said": {"own": said(-2, True), "best": said(0, True)}} for n in range(60)]
    others = [{"id": f"x{n}", "said": {"own": said(9, False), "best": said(-9, False)}} for n in range(60)]
    settings = {"ids_sha256": "ab", "quality": "study"}
    found, both = fitted_to(focused, settings), fitted_to([*focused, *others], settings)
    assert (found.fitted["quality"], found.fitted["questions"]) == ("study", 60)
    assert both.weights == found.weights
    assert (both.bias, both.fitted) == (found.bias, found.fitted)


def test_what_cannot_be_asked_is_refused(made, brief_backbone, words):
    with pytest.raises(InputError, match="wrong paragraphs are needed"):
        made(QUESTIONS[:1])
    with pytest.raises(UsageError, match="no such wrong paragraph"):
        AbstentionSettings(("worst",))
    with pytest.raises(UsageError, match="a free answer has no confidence"):
        Abstention(QUESTIONS, QUESTIONS, ParagraphReader(brief_backbone, "fp32", FreeSettings()), None, None, words)
