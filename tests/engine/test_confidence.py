"""A probability of being right is made of the search's evidence by coefficients that a card holds."""

import dataclasses
import math

import pytest
import torch

from precog.backbones.tenns.backbone import TennsBackbone
from precog.engine import GroundedSettings, Source, answer_inject, answer_none, ground
from precog.engine.confidence import Calibration, Confidence
from precog.engine.evidence import FEATURES, Evidence
from precog.engine.grounded import entropy
from precog.engine.mixture import ground_mixture
from precog.engine.modes import answer_mixture
from precog.errors import ModelError
from precog.text.tokenizer import load_mistral_tokenizer

QUESTION = [1, 500, 600, 700]
CARD = {"bias": 0.5, "weights": {"no_answer": -0.25, "free_entropy": 0.5}, "threshold": 0.6, "fitted": {"questions": 3}}


@pytest.fixture(scope="module")
def backbone():
    return TennsBackbone.random("tiny-outer", load_mistral_tokenizer(), seed=3)


@pytest.fixture(scope="module")
def read(backbone):
    ids = backbone.tokenizer.encode("The mill at Gorse was built in 1850 by Anna Miller and burnt in 1901.")
    return backbone.encode_chunks([ids])[0], Source.of(ids)


def test_evidence_is_what_the_search_and_the_vocabulary_say(backbone, read):
    state, source = read
    found = ground(backbone, state, QUESTION, [source])
    evidence = Evidence.of(found)
    assert evidence.log_probability == found.best.log_probability
    assert evidence.no_answer == found.no_answer_log_probability
    free = torch.log_softmax(backbone.prefill_logits(QUESTION, state)[1][-1].double(), 0)
    assert evidence.free_entropy == pytest.approx(float(-(free.exp() * free).sum()), abs=1e-4)
    assert tuple(evidence.values()) == FEATURES
    contrasted = ground(backbone, state, QUESTION, [source], GroundedSettings(contrast=1.0))
    assert contrasted.free_entropy == pytest.approx(evidence.free_entropy, abs=1e-4)


def test_what_is_impossible_does_not_outweigh_the_rest(backbone, read):
    state, source = read
    found = dataclasses.replace(ground(backbone, state, QUESTION, [source]), no_answer_log_probability=-math.inf)
    assert Evidence.of(found).no_answer == -30.0


def test_a_mixture_of_one_state_twice_has_the_evidence_of_one(backbone, read):
    state, source = read
    one = Evidence.of(ground(backbone, state, QUESTION, [source]))
    two = Evidence.of(ground_mixture(backbone, [state, state], [0.3, 0.7], QUESTION, [source, source]))
    assert two.values() == pytest.approx(one.values(), abs=1e-4)


@pytest.mark.parametrize("weights", [(1.0, 0.0), (0.9, 0.1), (0.5, 0.5)])
def test_a_source_that_does_not_hold_the_answer_has_no_say_in_its_evidence(backbone, read, weights):
    state, source = read
    ids = backbone.tokenizer.encode("Nobody knows that other thing")
    states, sources = [state, backbone.encode_chunks([ids])[0]], [source, Source.of(ids)]
    found = ground_mixture(backbone, states, weights, QUESTION, sources)
    own = found.best.member
    alone = ground(backbone, states[own], QUESTION, [sources[own]])
    assert found.best.token_ids == alone.best.token_ids
    assert Evidence.of(found).values() == pytest.approx(Evidence.of(alone).values(), abs=1e-4)
    assert found.confidence == pytest.approx(alone.confidence, abs=1e-4)
    if all(weights):  # of the mixture itself the other source is a part
        assert abs(found.no_answer_log_probability - alone.no_answer_log_probability) > 1e-4


def test_a_source_of_two_states_and_a_state_of_all_sources_speak_for_it_together(backbone, read):
    state, source = read
    ids = backbone.tokenizer.encode("Nobody knows that other thing")
    other, empty = backbone.encode_chunks([ids])[0], backbone.empty_state()
    shares, owners = [0.3, 0.3, 0.1, 0.3], [0, 0, 1, None]
    states = [state, empty, other, empty]
    found = ground_mixture(backbone, states, shares, QUESTION, [source, Source.of(ids)], owners=owners)
    assert found.best.member == 0
    log_probabilities = [
        float(ground(backbone, member, QUESTION, [source]).no_answer_log_probability) for member in (state, empty)
    ]
    both = ground(backbone, empty, QUESTION, [source, Source.of(ids)]).no_answer_log_probability
    ends = [*map(math.exp, log_probabilities), math.exp(both)]
    assert math.exp(Evidence.of(found).no_answer) == pytest.approx(sum(ends) / 3, rel=1e-3)


def test_the_entropy_of_a_known_distribution():
    known = torch.tensor([0.5, 0.25, 0.25, 0.0], dtype=torch.float64)
    assert entropy(known.log()) == pytest.approx(1.5 * math.log(2))


def test_a_card_with_coefficients_makes_a_probability_of_evidence(backbone, read):
    state, source = read
    answer = answer_inject(backbone, state, QUESTION, sources=[source])
    assert answer.grounded is not None
    evidence = Evidence.of(answer.grounded)
    own = Confidence.of_model(dataclasses.replace(backbone.card, confidence=CARD))
    odds = 0.5 - 0.25 * evidence.no_answer + 0.5 * evidence.free_entropy
    said = own.of(answer)
    assert said == pytest.approx(1 / (1 + math.exp(-odds)))
    assert own.threshold == 0.6
    assert own.withholds(said, 1.0)
    assert not own.withholds(said, 0.0)
    assert own.withholds(0.59)
    assert not own.withholds(0.6)
    assert Calibration.from_json(CARD).to_json() == CARD


OF_FOCUSED = {"bias": -1.5, "weights": {"free_entropy": 0.25}, "threshold": 0.2, "fitted": {}}


def test_an_answer_is_judged_by_what_was_fitted_to_states_like_its_own(backbone, read):
    state, source = read
    ids = backbone.tokenizer.encode("Nobody knows that other thing")
    both = Confidence.of_model(dataclasses.replace(backbone.card, confidence={**CARD, "focused": OF_FOCUSED}))
    assert (both.calibration, both.focused) == (Calibration.from_json(CARD), Calibration.from_json(OF_FOCUSED))
    answer = answer_inject(backbone, state, QUESTION, sources=[source])
    for focused, calibration in (([], CARD), ([False], CARD), ([False, True], CARD), ([True], OF_FOCUSED)):
        sure, expected = both.judging(answer, focused), Calibration.from_json(calibration)
        assert sure.of(answer) == expected.probability(Evidence.of(answer.grounded).values())
        assert sure.threshold == expected.threshold
        assert (sure.withholds(0.3), sure.withholds(0.1)) == (calibration is CARD, True)
        assert sure.withholds(0.3, 0.31)
    assert both.judging(answer_none(backbone, QUESTION), [True]).of(answer_none(backbone, QUESTION)) is None
    states, sources = [state, backbone.encode_chunks([ids])[0]], [source, Source.of(ids)]
    for weights in ((0.999, 0.001), (0.001, 0.999)):
        mixed = answer_mixture(backbone, states, weights, QUESTION, sources=sources)
        own = mixed.grounded.scores.source
        assert own == mixed.grounded.best.member
        sets = [both.judging(mixed, [number == focused for number in range(2)]) for focused in range(2)]
        assert [one.threshold for one in sets] == [0.2 if focused == own else 0.6 for focused in range(2)]


def test_a_card_without_a_set_for_focused_answers_judges_all_alike(backbone, read):
    state, source = read
    answer = answer_inject(backbone, state, QUESTION, sources=[source])
    for confidence in (CARD, {}):
        sure = Confidence.of_model(dataclasses.replace(backbone.card, confidence=confidence))
        assert sure.judging(answer, [True]) is sure


@pytest.mark.parametrize(
    "focused",
    [0.5, None, [], {}, {**OF_FOCUSED, "focused": OF_FOCUSED}, {**OF_FOCUSED, "more": 1}, {**OF_FOCUSED, "bias": "0"}],
)
def test_a_set_for_focused_answers_is_checked_as_the_other_is(backbone, focused):
    with pytest.raises(ModelError, match=r"precog\.json: confidence: focused") as refused:
        Confidence.of_model(dataclasses.replace(backbone.card, confidence={**CARD, "focused": focused}))
    assert "\n" not in str(refused.value)
    with pytest.raises(ModelError, match="has other keys"):  # it stands beside the other, never alone
        Confidence.of_model(dataclasses.replace(backbone.card, confidence={"focused": OF_FOCUSED}))
    with pytest.raises(ModelError, match="has other keys"):  # a file of coefficients is one set
        Calibration.from_json({**CARD, "focused": OF_FOCUSED})


def test_a_card_without_says_what_it_always_said(backbone, read):
    state, source = read
    answer = answer_inject(backbone, state, QUESTION, sources=[source])
    plain = Confidence.of_model(dataclasses.replace(backbone.card, decoding={"min_confidence": 0.3}))
    assert answer.grounded is not None
    assert plain.of(answer) == answer.grounded.confidence
    assert plain.threshold == 0.3


def test_a_free_answer_has_no_confidence_and_is_never_withheld(backbone):
    plain = Confidence.of_model(backbone.card)
    said = plain.of(answer_none(backbone, QUESTION))
    assert said is None
    assert not plain.withholds(said, 1.0)


@pytest.mark.parametrize(
    "changed",
    [
        {"bias": "0"},
        {"bias": True},
        {"bias": float("nan")},
        {"bias": float("-inf")},
        {"bias": 10**400},
        {"threshold": 10**400},
        {"weights": {"no_answer": 1e300}},  # times evidence, infinite
        {"weights": {"no_such": 1.0}},
        {"weights": {"no_answer": None}},
        {"weights": [1.0]},
        {"threshold": 1.5},
        {"fitted": "yesterday"},
        {"more": 1},
    ],
)
def test_coefficients_that_are_none_are_refused(backbone, changed):
    with pytest.raises(ModelError, match=r"precog\.json: confidence"):
        Confidence.of_model(dataclasses.replace(backbone.card, confidence={**CARD, **changed}))


def test_the_largest_coefficients_make_a_probability():
    evidence = dict(zip(FEATURES, (-5000.0, -30.0, 12.0), strict=True))
    for sign in (-1, 1):
        weights = dict.fromkeys(FEATURES, sign * 1000000.0)
        assert Calibration.from_json({**CARD, "bias": -1e6, "weights": weights}).probability(evidence) in (
            pytest.approx(0.0),
            pytest.approx(1.0),
        )
