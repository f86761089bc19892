"""What paragraphs are found by: every way searches what it says, and gains are those of ranks."""

import json
from pathlib import Path

import numpy as np
import pytest
from lovelace import PARAGRAPHS, QUESTIONS

from precog.evaluate.experiment import Experiment, measured
from precog.evaluate.keys import KINDS, WAYS, Keys, Paragraph
from precog.evaluate.paragraphs import Paragraphs
from precog.evaluate.squad_data import Question
from precog.questions.found_by import words_text


@pytest.fixture(scope="module")
def experiment(words):
    return Keys(QUESTIONS, QUESTIONS, words)


def row(report, retrieval, keys, words):
    [found] = [r for r in report["rows"] if (r["retrieval"], r["keys"], r["words"]) == (retrieval, keys, words)]
    return found


def test_every_way_is_measured_and_told(experiment):
    assert isinstance(experiment, Experiment)
    records = measured(experiment)
    assert json.loads(json.dumps(records, allow_nan=False)) == records
    report = experiment.report(records)
    json.dumps(report, allow_nan=False)
    assert len(report["rows"]) == len(WAYS) == 2 * len(KINDS) + len(KINDS) ** 2
    assert report["n"] == 4
    assert report["collection"]["paragraphs"] == 4
    assert report["collection"]["keys_per_paragraph"]["text"] == 1
    assert report["collection"]["keys_per_paragraph"]["questions"] > 2
    assert report["collection"]["key_bytes_per_paragraph"]["title"] == 64 * 4
    for found in report["rows"]:
        assert found["recall"]["1"] <= found["recall"]["3"] <= found["recall"]["10"] == 1.0
    for kind, retrieval in (("text", "dense"), ("text", "hybrid")):
        assert row(report, retrieval, kind, "text" if retrieval == "hybrid" else None)["recall1_gain"]["value"] == 0


def test_texts_alone_are_found_as_a_small_corpus_finds_them(experiment, words):
    paragraphs = Paragraphs(QUESTIONS, encoder=words)
    for number, question in enumerate(QUESTIONS):
        found, _ = paragraphs.search(question.question, 4)
        rank = found.index(question.context) + 1
        assert experiment.measure(number)["ranks"]["hybrid:text:text"] == rank


def test_titles_and_questions_are_what_finds(words):
    asked = [
        Question("a", "Moon_Landing", "It was a great day for all.", "What of the moon landing?", ("It",)),
        Question("b", "Harvest", "It was a great day for all, and it rained.", "What of the harvest?", ("It",)),
    ]
    report_of = Keys(asked, asked, words)
    report = report_of.report(measured(report_of))
    assert row(report, "bm25", None, "text")["recall"]["10"] == 0
    assert row(report, "bm25", None, "title")["recall"]["1"] == 1
    assert row(report, "bm25", None, "title")["recall1_gain"]["value"] == 1
    assert row(report, "dense", "title", None)["recall"]["1"] == 1


def test_words_with_questions_are_those_that_a_corpus_counts():
    paragraph = Paragraph.of(PARAGRAPHS[0], "Ada Lovelace")
    assert paragraph.words("title+questions") == words_text("questions", PARAGRAPHS[0], title="Ada Lovelace")
    assert paragraph.words("title") == words_text("title", PARAGRAPHS[0], title="Ada Lovelace")
    assert paragraph.words("questions") == "\n".join([PARAGRAPHS[0], *paragraph.questions])
    own, *asked = paragraph.key_texts("title+questions")
    assert own == f"Ada Lovelace\n{PARAGRAPHS[0]}"
    assert asked == [f"Ada Lovelace: {question}" for question in paragraph.questions] != []


def test_a_question_far_down_has_no_rank(words):
    many = [Question(str(n), "", f"{PARAGRAPHS[0]} {n}", "Ada Lovelace?", ("London",)) for n in range(30)]
    ranks = [Keys(many, many, words).measure(29)["ranks"][name] for name in ("dense:text:", "bm25::text")]
    assert None in ranks


def test_kept_keys_are_used_again(tmp_path: Path, words):
    class Once:
        dim, fingerprint, window_tokens, name = words.dim, words.fingerprint, words.window_tokens, words.name
        encode_query = staticmethod(words.encode_query)

        def encode_passages(self, texts: list[str]) -> list[np.ndarray]:
            raise AssertionError("made again")

    first = Keys(QUESTIONS, QUESTIONS, words, tmp_path).measure(1)["ranks"]
    assert Keys(QUESTIONS, QUESTIONS, Once(), tmp_path).measure(1)["ranks"] == first
