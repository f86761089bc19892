"""HotpotQA: what is found, what each rule answers, and what is told beside the scores."""

import json

import pytest

from precog.engine import GroundedSettings, Source, answer_inject, question_segment
from precog.engine.composed import RULES
from precog.errors import UsageError
from precog.evaluate import hotpot, hotpot_answers
from precog.evaluate.experiment import Experiment, run
from precog.evaluate.hotpot import Hotpot, HotpotSettings
from precog.evaluate.hotpot_answers import default_rules, parse_rule
from precog.evaluate.hotpot_data import OFFICIAL, REBUILT, HotpotParagraph, HotpotQuestion

PARAGRAPHS = (
    HotpotParagraph("Danube", "It flows through Vienna, Budapest and Belgrade to the Black Sea."),
    HotpotParagraph("Ada Lovelace", "She was born in London in 1815 and wrote the first program."),
    HotpotParagraph("Mount Kenya", "It is 5,199 metres high and is Africa's second highest mountain."),
    HotpotParagraph("Treaty of Ghent", "It ended the War of 1812 between two nations."),
)
QUESTIONS = [
    HotpotQuestion("a", "Where was Ada Lovelace born?", "London", ("Ada Lovelace", "Mount Kenya"), PARAGRAPHS),
    HotpotQuestion("b", "Which war did the Treaty of Ghent end?", "yes", ("Treaty of Ghent",), PARAGRAPHS[1:]),
    HotpotQuestion("c", "Which sea does the Danube reach?", "the Black Sea", (), PARAGRAPHS, REBUILT),
]
RULES_HERE = ("mean", "mean@0.1", "concat", "permute:2", "mix@0.1", "replay")


@pytest.fixture(scope="module")
def experiment(brief_backbone, words):
    return Hotpot(QUESTIONS, brief_backbone, HotpotSettings((1, 2, 10), RULES_HERE, codec="fp32"), words)


@pytest.fixture(scope="module")
def records(experiment):
    return [experiment.measure(number) for number in range(len(experiment))]


def test_records_are_json_of_every_rule_at_its_k(experiment, records):
    assert isinstance(experiment, Experiment)
    assert json.loads(json.dumps(records, allow_nan=False)) == records
    for record in records:
        said = record["said"]["grounded"]
        assert list(record["said"]) == ["grounded"]
        assert list(said) == ["1", "2", "10"]
        assert list(said["1"]) == ["best"]
        assert list(said["2"]) == ["mean", "mean@0.1", "concat", "permute", "mix@0.1", "replay"]
        assert list(said["10"]) == ["mean", "mean@0.1", "concat", "mix@0.1", "replay"]


def test_free_answers_have_rows_of_their_own(brief_backbone, words):
    report = run(Hotpot(QUESTIONS[:1], brief_backbone, HotpotSettings((2,), ("mean",), free=True), words))
    rows = report["tables"][OFFICIAL]["rows"]
    assert [(row["decoding"], row["k"]) for row in rows] == [("grounded", 1), ("grounded", 2), ("free", 1), ("free", 2)]


def test_recall_is_of_titles_among_the_best_k(records):
    assert records[0]["recall"]["1"] == [True, False]
    assert records[0]["recall"]["10"] == [True, True]
    assert records[1]["recall"]["1"] == [True, True]
    assert records[2]["recall"] is None


def test_the_title_is_read_with_its_paragraph_and_the_best_alone_is_injected(brief_backbone, records):
    text = "Ada Lovelace. She was born in London in 1815 and wrote the first program."
    ids = brief_backbone.tokenizer.encode(text)
    [state] = brief_backbone.encode_chunks([ids])
    settings = GroundedSettings.from_card(brief_backbone.card.decoding)
    asked = question_segment(brief_backbone, QUESTIONS[0].question)
    answer = answer_inject(brief_backbone, state, asked, sources=[Source.of(ids)], settings=settings)
    said = records[0]["said"]["grounded"]["1"]["best"]
    assert said["text"] == brief_backbone.tokenizer.decode(list(answer.token_ids)).strip()
    assert said["text"] in text
    assert said["tokens_processed"] == answer.tokens_processed


def test_only_what_is_exact_says_so(records):
    rows = records[0]["said"]["grounded"]["2"]
    assert {name: row["exact"] for name, row in rows.items()} == {
        "mean": False, "mean@0.1": False, "concat": False, "permute": False, "mix@0.1": True, "replay": True,
    }  # fmt: skip
    assert rows["replay"]["tokens_processed"] > rows["mean"]["tokens_processed"]


def test_yes_and_no_are_scored_apart_and_settings_too(experiment, records):
    report = experiment.report(records)
    tables = report["tables"]
    assert list(tables) == [OFFICIAL, REBUILT, "all"]
    official = tables[OFFICIAL]
    assert (official["n"], official["num_yes_no"]) == (2, 1)
    assert official["recall"] == {
        "n": 2,
        "recall_any": {"1": 1.0, "2": 1.0, "10": 1.0},
        "recall_all": {"1": 0.5, "2": official["recall"]["recall_all"]["2"], "10": 1.0},
    }
    assert tables[REBUILT]["recall"] == {"n": 0, "recall_any": None, "recall_all": None}
    for name, table in tables.items():
        assert table["setting"] == name
        assert len(table["rows"]) == 1 + 6 + 5
        first = table["rows"][0]
        assert (first["k"], first["rule"], first["f1_gain"]["value"]) == (1, "best", 0.0)
    for row in official["rows"]:
        assert row["f1"] == pytest.approx(row["without_yes_no"]["f1"] / 2)  # yes is never a span
    assert tables["all"]["n"] == report["n"] == 3


def test_yes_alone_leaves_nothing_to_score_without_it(brief_backbone, words):
    settings = HotpotSettings((2,), ("mean",))
    table = run(Hotpot(QUESTIONS[1:2], brief_backbone, settings, words))["tables"][OFFICIAL]
    assert [(row["k"], row["rule"], row["without_yes_no"]) for row in table["rows"]] == [
        (1, "best", None),
        (2, "mean", None),
    ]


def test_the_settings_tell_experiments_apart(experiment, brief_backbone, words):
    assert json.loads(json.dumps(experiment.settings)) == experiment.settings
    assert experiment.settings["fingerprint"] == brief_backbone.fingerprint
    assert "permute:2" in experiment.settings["rules"]
    assert Hotpot(QUESTIONS, brief_backbone, None, words).settings != experiment.settings


def test_a_model_whose_states_are_not_averaged_is_measured_by_the_other_rules(brief_backbone, words, monkeypatch):
    allowed = ("mix", "replay")
    for module in (hotpot, hotpot_answers):
        monkeypatch.setattr(module, "rules_of", lambda _backbone: allowed)
    assert [rule.name for rule in Hotpot(QUESTIONS, brief_backbone, None, words).rules] == ["mix@0.1", "replay"]
    with pytest.raises(UsageError, match="cannot be composed so; given: mean; expected: mix, replay"):
        Hotpot(QUESTIONS, brief_backbone, HotpotSettings(rules=("mean",)), words)


def test_every_rule_of_the_engine_is_measured_by_default(brief_backbone):
    assert {parse_rule(name).how.rule for name in default_rules(brief_backbone)} == set(RULES)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: HotpotSettings((2, 1)), "rising numbers"),
        (lambda: HotpotSettings((0,)), "rising numbers"),
        (lambda: HotpotSettings(rules=("mean", "mean:2")), "names a rule twice"),
        (lambda: HotpotSettings(rules=("soup",)), "no such rule"),
        (lambda: HotpotSettings(rules=("mean:1",)), "2 or more members"),
        (lambda: HotpotSettings(rules=("mean:x",)), "2 or more members"),
        (lambda: HotpotSettings(rules=("best",)), "composes nothing"),
        (lambda: HotpotSettings(codec="fp8"), "no such state codec"),
    ],
)
def test_bad_settings_are_refused(made, said):
    with pytest.raises(UsageError, match=said):
        made()
