"""Passages by length: one state says what reading in context says, and what the chunks and the documents are."""

import json
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from precog.errors import InputError, UsageError
from precog.evaluate.experiment import Experiment, run
from precog.evaluate.lengths import BINS, bin_of, bounds_of
from precog.evaluate.long_documents import DISTANCES, LongDocuments, LongSettings, documents_of
from precog.evaluate.natural_questions import NaturalQuestions, NaturalQuestionsSettings, sample_per_bin
from precog.evaluate.passages import WAYS
from precog.evaluate.squad_data import Question
from precog.text.tokenizer import load_mistral_tokenizer

FACTS = (
    "Ada Lovelace was born in London in 1815 and wrote the first program.",
    "The Danube flows through Vienna, Budapest and Belgrade to the Black Sea.",
    "Mount Kenya is 5,199 metres high and is Africa's second highest mountain.",
    "The Treaty of Ghent ended the War of 1812 between two nations.",
)
FILLING = " The rain fell on the hills, and nobody in the valley said a word about it."
SHORT = Question("a", "t", FACTS[0], "Where was Ada Lovelace born?", ("London",))
CUT = Question("b", "t", " ".join(FACTS), "How high is Mount Kenya?", ("5,199 metres",))
ARTICLES = [
    Question(
        f"{title}{number}",
        title,
        f"{title} {number}. {FACTS[number % 4]}{FILLING * (1 + number % 3)}",
        f"What is number {number} of {title}?",
        (FACTS[number % 4].split()[0],),
    )
    for title in ("Rivers", "Hills")
    for number in range(30)
]


def test_bins_are_those_of_the_table():
    assert [bin_of(n) for n in (0, 99, 100, 299, 300, 1199, 1200, 2399, 2400, 9999)] == [
        "<100", "<100", "[100,300)", "[100,300)", "[300,600)", "[600,1200)", "[1200,2400)", "[1200,2400)",
        ">=2400", ">=2400",
    ]  # fmt: skip
    for name in BINS:
        low, high = bounds_of(name, 3000)
        assert bin_of(low) == bin_of(high - 1) == name


@pytest.fixture(scope="module")
def asked(brief_backbone, words):
    settings = NaturalQuestionsSettings(chunk_tokens=24, codec="fp32")
    experiment = NaturalQuestions([SHORT, CUT], [SHORT, CUT, replace(CUT, id="c")], brief_backbone, settings, words)
    return experiment, [experiment.measure(number) for number in range(2)]


def test_one_state_says_what_reading_in_context_says(asked):
    experiment, records = asked
    assert isinstance(experiment, Experiment)
    report = json.loads(json.dumps(experiment.report(records), allow_nan=False))
    assert list(report["bins"]) == list(BINS)
    assert report["bins"]["<100"]["share"] == 1.0
    assert report["bins"][">=2400"] == {"share": 0.0, "measured": None}
    row = report["bins"]["<100"]["measured"]
    assert row == report["all"]
    assert row["agreement"] == 1.0
    assert row["gap_whole"] == {"value": 0.0, "low": 0.0, "high": 0.0}
    assert row["gap_chunked"]["value"] == pytest.approx(row["chunked"]["f1"] - row["in_context"]["f1"])


def test_a_passage_of_one_chunk_is_not_cut_and_a_longer_one_is_searched(asked):
    short, cut = asked[1]
    assert short["chunks"] == 1
    assert short["said"]["chunked"] == short["said"]["whole"]
    assert cut["chunks"] > 2
    assert cut["chunk_holds_answer"]
    assert list(cut["said"]) == list(WAYS)
    found = FACTS[2]
    assert cut["said"]["chunked"]["text"] in found
    assert cut["said"]["in_context"]["tokens_processed"] > cut["tokens"] > cut["said"]["whole"]["tokens_processed"]


def test_whether_the_chunk_holds_an_answer_is_asked_only_where_the_passage_does(brief_backbone, words):
    asked = [CUT, replace(CUT, id="c", answers=("in three words",)), replace(CUT, id="d", answers=("Vienna",))]
    settings = NaturalQuestionsSettings(chunk_tokens=24)
    experiment = NaturalQuestions(asked, asked, brief_backbone, settings, words)
    records = [experiment.measure(number) for number in range(3)]
    assert [record["chunk_holds_answer"] for record in records] == [True, None, False]
    assert experiment.report(records)["all"]["chunk_holds_answer"] == 0.5
    assert experiment.report(records[1:2])["all"]["chunk_holds_answer"] is None


def test_a_chunk_is_answered_from_its_own_state(asked, brief_backbone):
    experiment, records = asked
    chunks = experiment._cut(CUT.context)
    assert "".join(chunks).replace(" ", "") == CUT.context.replace(" ", "")
    assert max(len(brief_backbone.tokenizer.encode(chunk)) for chunk in chunks) <= 24
    best = next(chunk for chunk in chunks if "Mount Kenya" in chunk)
    expected = experiment._reader.inject(CUT.question, [best], [1.0], 1.0)
    assert records[1]["said"]["chunked"]["text"] == expected.text


def test_the_models_own_chunk_length_is_the_default(brief_backbone, words):
    assert NaturalQuestions([SHORT], [SHORT], brief_backbone, None, words).settings["chunk_tokens"] == 256


def test_bins_are_sampled_apart():
    tokenizer = load_mistral_tokenizer()
    longer = [replace(CUT, id=f"l{n}", context=CUT.context + FILLING * 5) for n in range(5)]
    short = [replace(SHORT, id=f"s{n}") for n in range(2)]
    chosen = sample_per_bin([*longer, *short], tokenizer, 3, 0)
    assert [question.id[0] for question in chosen] == ["s", "s", "l", "l", "l"]
    assert chosen == sample_per_bin([*short, *longer[::-1]], tokenizer, 3, 0)


@pytest.fixture(scope="module")
def items():
    return documents_of(ARTICLES, load_mistral_tokenizer(), LongSettings(per_bin=6, per_document=3, most_tokens=2600))


def test_documents_fill_their_bins_with_consecutive_paragraphs(items):
    tokenizer = load_mistral_tokenizer()
    known = {question.id: question for question in ARTICLES}
    order = [question.context for question in ARTICLES]
    counts = Counter(item.id.split(" ")[1] for item in items)
    assert set(counts) == set(BINS[:-1])  # the articles end before the last
    assert max(counts.values()) == 6
    for item in items:
        id_, name = item.id.split(" ")
        passage, gold = item.question.context, known[id_].context
        assert bin_of(len(tokenizer.encode(passage))) == name
        parts = passage.split("\n\n")
        places = [order.index(part) for part in parts]
        assert all(after - before == 1 for before, after in pairwise(places))
        assert len({known_.title for known_ in ARTICLES if known_.context in parts}) == 1
        assert parts[item.facts["place"]] == gold
        rest = "\n\n".join(parts[item.facts["place"] + 1 :])
        assert abs(item.facts["distance"] - len(tokenizer.encode(rest))) <= 4  # what joins the parts has tokens
        assert (item.facts["distance_bin"] == "0") == (rest == "")
        assert item.question.answers == known[id_].answers


def test_questions_about_a_document_follow_each_other_and_places_vary(items):
    passages = [item.question.context for item in items]
    assert len({passage for passage, before in zip(passages[1:], passages, strict=False) if passage != before}) == (
        len(set(passages)) - 1
    )
    assert len({item.facts["place"] for item in items if len(item.question.context) > 1500}) > 2


def test_the_seed_draws_documents(items):
    tokenizer = load_mistral_tokenizer()
    settings = LongSettings(per_bin=6, per_document=3, most_tokens=2600)
    assert documents_of(ARTICLES, tokenizer, settings) == items
    assert documents_of(ARTICLES, tokenizer, replace(settings, seed=1)) != items


def test_long_documents_are_reported_by_length_and_by_distance(brief_backbone, words):
    settings = LongSettings(per_bin=2, per_document=2, codec="fp32", chunk_tokens=64)
    experiment = LongDocuments(ARTICLES, brief_backbone, settings, words)
    assert isinstance(experiment, Experiment)
    report = json.loads(json.dumps(run(experiment), allow_nan=False))
    assert list(report["bins"]) == list(BINS)
    assert list(report["distances"]) == list(DISTANCES)
    assert report["all"]["agreement"] == 1.0
    for rows in (report["bins"], report["distances"]):
        assert sum(row["n"] for row in rows.values() if row) == report["n"] == len(experiment)
    assert json.loads(json.dumps(experiment.settings)) == experiment.settings
    other = LongDocuments(ARTICLES, brief_backbone, replace(settings, seed=3), words)
    assert other.settings["documents_sha256"] != experiment.settings["documents_sha256"]


def test_an_answer_is_found_in_a_passage_of_2400_tokens(brief_backbone, words):
    passage = f"{FACTS[0]}{FILLING * 160}"
    question = replace(SHORT, context=passage)
    record = NaturalQuestions([question], [question], brief_backbone, None, words).measure(0)
    assert record["bin"] == ">=2400"
    assert record["said"]["whole"]["text"] == record["said"]["in_context"]["text"]
    assert record["said"]["whole"]["text"] in passage


def test_articles_that_fill_nothing_are_told(brief_backbone):
    with pytest.raises(InputError, match="no article of this file fills a document"):
        documents_of([replace(SHORT, context=FACTS[0] + FILLING * 300)], brief_backbone.tokenizer, LongSettings())


@pytest.mark.parametrize(
    "made",
    [
        lambda: LongSettings(per_bin=0),
        lambda: LongSettings(per_document=0),
        lambda: LongSettings(most_tokens=2400),
        lambda: LongSettings(codec="fp8"),
        lambda: LongSettings(chunk_tokens=15),
        lambda: NaturalQuestionsSettings(chunk_tokens=-1),
        lambda: NaturalQuestionsSettings(codec="fp8"),
    ],
)
def test_bad_settings_are_refused(made):
    with pytest.raises(UsageError):
        made()
