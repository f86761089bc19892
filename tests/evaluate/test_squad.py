"""The evaluation itself: its modes, its pairing, its controls."""

import json

import pytest
from lovelace import PARAGRAPHS, QUESTIONS

from precog.backbones.tenns.backbone import TennsBackbone
from precog.encoders import load_encoder
from precog.engine.grounded import GroundedSettings
from precog.engine.modes import FreeSettings
from precog.errors import UsageError
from precog.evaluate.experiment import measured as records_of
from precog.evaluate.paragraphs import Paragraphs
from precog.evaluate.reader import ParagraphReader
from precog.evaluate.squad import MODES, Squad, SquadSettings
from precog.text.tokenizer import load_mistral_tokenizer


@pytest.fixture(scope="module")
def backbone():
    return TennsBackbone.random("tiny-outer", load_mistral_tokenizer(), seed=1)


def both(experiment):
    records = records_of(experiment)
    return experiment.report(records), records


@pytest.fixture(scope="module")
def measured(backbone):
    reader = ParagraphReader(backbone, "fp32", GroundedSettings(beam_width=2))
    return both(Squad(QUESTIONS, QUESTIONS, reader, SquadSettings()))


def test_injected_answers_are_those_of_in_context(measured):
    report, records = measured
    assert report["agreement"]["inject_top1"] == 1.0
    for record in records:
        assert record["said"]["inject_top1"]["text"] == record["said"]["in_context"]["text"]


def test_grounded_answers_are_spans_of_their_paragraph(measured):
    _, records = measured
    for record, question in zip(records, QUESTIONS, strict=True):
        for mode in ("in_context", "inject_top1", "mask_only", "other"):
            assert record["said"][mode]["text"] in question.context
            assert record["said"][mode]["text"]


def test_injection_reads_question_and_answer_only(measured):
    report, _ = measured
    read = {mode: row["mean_tokens_processed"] for mode, row in report["modes"].items()}
    mean_paragraph = sum(1 + len(load_mistral_tokenizer().encode(p)) for p in PARAGRAPHS) / len(PARAGRAPHS)
    assert read["in_context"] - read["inject_top1"] == pytest.approx(mean_paragraph)


def test_controls_do_not_use_the_right_state(measured, backbone):
    reader = ParagraphReader(backbone, "fp32", GroundedSettings(beam_width=2))
    question = QUESTIONS[0]
    found = [reader.focused(question.question, paragraph) for paragraph in (PARAGRAPHS[1], PARAGRAPHS[0])]
    wrong, right = (reader.inject_other(question.question, PARAGRAPHS[0], one) for one in found)
    assert right.text == measured[1][0]["said"]["inject_top1"]["text"]
    assert right.confidence != wrong.confidence


def test_report_is_json_with_the_fields_of_the_contract(measured):
    report = json.loads(json.dumps(measured[0], allow_nan=False))
    assert list(report["modes"]) == list(MODES)
    assert {"modes", "n", "ids_sha256", "decoding", "context", "recall", "agreement", "model", "seed"} <= set(report)
    for row in report["modes"].values():
        assert set(row) >= {"em", "f1", "mean_tokens_processed", "mean_latency_sec"}
        for score in ("em", "f1"):
            low, high = row[f"{score}_interval"]
            assert 0 <= low <= row[score] <= high <= 100
    assert report["recall"]["3"] == 1.0


def test_an_item_gives_the_same_record_whatever_was_measured_before(backbone):
    def fresh():
        return Squad(QUESTIONS, QUESTIONS, ParagraphReader(backbone, "fp16", GroundedSettings()), SquadSettings(seed=3))

    def told(record):
        said = {mode: row["text"] for mode, row in record["said"].items()}
        return {**record, "said": said, "offline_sec": None}

    forward, last = fresh(), fresh().measure(3)
    assert [told(forward.measure(number)) for number in range(4)][3] == told(last)
    assert json.loads(json.dumps(last)) == last


def test_keys_are_kept_and_are_those_of_the_texts_they_were_made_for(tmp_path):
    encoder = load_encoder()
    fresh = Paragraphs(QUESTIONS, encoder=encoder, keys_folder=tmp_path)
    [kept] = tmp_path.iterdir()
    again = Paragraphs(QUESTIONS, encoder=encoder, keys_folder=tmp_path)
    assert (
        again.search("Which sea?", 4) == fresh.search("Which sea?", 4) == Paragraphs(QUESTIONS).search("Which sea?", 4)
    )
    kept.write_bytes(kept.read_bytes()[:200])
    assert (
        Paragraphs(QUESTIONS, encoder=encoder, keys_folder=tmp_path).search("Which sea?", 4)[0]
        == again.search("Which sea?", 4)[0]
    )
    Paragraphs(QUESTIONS[:2], encoder=encoder, keys_folder=tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


def test_free_answers_run_in_every_mode_that_has_no_mask(backbone):
    reader = ParagraphReader(backbone, "fp16", FreeSettings(max_tokens=3))
    report, records = both(
        Squad(QUESTIONS[:2], QUESTIONS, reader, SquadSettings(modes=("in_context", "inject_top1", "none")))
    )
    assert report["decoding"]["grounded"] is False
    assert records[0]["said"]["none"]["tokens_processed"] < records[0]["said"]["in_context"]["tokens_processed"]


@pytest.mark.parametrize("settings", [{"modes": ("inject",)}, {"modes": ()}, {"context": "silver"}])
def test_unknown_modes_and_contexts_are_refused(settings):
    with pytest.raises(UsageError, match="no such"):
        SquadSettings(**settings)
