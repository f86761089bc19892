"""Parts of passages: chosen by the question, read without it, and what is answered from them."""

import json
from copy import copy
from dataclasses import replace
from functools import partial

import pytest
import torch
from lovelace import PARAGRAPHS

from precog.engine import FreeSettings, GroundedSettings, Source, answer_inject, question_segment
from precog.errors import UsageError
from precog.evaluate.experiment import run
from precog.evaluate.hotpot import Hotpot, HotpotSettings
from precog.evaluate.hotpot_data import HotpotParagraph, HotpotQuestion
from precog.evaluate.natural_questions import NaturalQuestions, NaturalQuestionsSettings
from precog.evaluate.parts import Parts, parts_for
from precog.evaluate.reader import ParagraphReader
from precog.evaluate.squad import MODES, PART_MODES, Squad, SquadSettings
from precog.evaluate.squad_data import Question
from precog.refine import focus as focus_module
from precog.state import codec_named

FIRST, SECOND = " ".join(PARAGRAPHS[:2]), " ".join(PARAGRAPHS[2:])
SINGLE = "Tom Reed made the wheel of the mill of oak in 1790."
ABOUT_BOTH = "Did Ada Lovelace see the Danube?"
ABOUT_SEA, ABOUT_MOUNT = "Which sea does the Danube reach?", "How high is Mount Kenya?"
QUESTIONS = [
    Question("a", "t", FIRST, ABOUT_SEA, ("the Black Sea",)),
    Question("b", "t", SECOND, ABOUT_MOUNT, ("The Treaty of Ghent",)),
    Question("c", "t", SINGLE, "Who made the wheel?", ("Tom Reed",)),
]
GROUNDED = GroundedSettings(beam_width=2, max_span_tokens=4)
FP32 = codec_named("fp32")


class Counted:
    """An encoder that writes down the passages it was given."""

    def __init__(self, words):
        self._words, self.passages = words, []
        self.dim, self.fingerprint = words.dim, words.fingerprint
        self.window_tokens, self.name = words.window_tokens, words.name

    def encode_query(self, text):
        return self._words.encode_query(text)

    def encode_passages(self, texts):
        self.passages += texts
        return self._words.encode_passages(texts)


@pytest.fixture
def reader(brief_backbone, words):
    return ParagraphReader(brief_backbone, "fp32", GROUNDED, parts=Parts(brief_backbone, words, FP32))


def read_alone(backbone, text):
    [state] = backbone.encode_chunks([backbone.tokenizer.encode(text)])
    return state


def nearest_to(backbone, parts, question, passage):
    return parts.nearest(question, question_segment(backbone, question), passage)


def confidence_from(backbone, recurrent, question, paragraph):
    state = copy(read_alone(backbone, paragraph))
    state = type(state).adopt(
        recurrent,
        tail=None,
        num_tokens=state.num_tokens,
        fingerprint=state.fingerprint,
        decay_time=state.decay_time,
        encoding_dtype=state.encoding_dtype,
    )
    source = Source.of(backbone.tokenizer.encode(paragraph))
    asked = question_segment(backbone, question)
    answer = answer_inject(backbone, state, asked, sources=[source], settings=GROUNDED)
    return answer.grounded.confidence


def mean_of(backbone, paragraph, part):
    return 0.5 * read_alone(backbone, paragraph).recurrent + 0.5 * read_alone(backbone, part).recurrent


def test_the_part_that_a_question_is_nearest_to_is_chosen(brief_backbone, words):
    parts = Parts(brief_backbone, words, FP32)
    assert [part.text for part in parts.of(FIRST)] == list(PARAGRAPHS[:2])
    near_to = partial(nearest_to, brief_backbone, parts)
    [(part, near), *others] = near_to(ABOUT_SEA, FIRST)
    assert part.text == PARAGRAPHS[1]
    assert all(other <= near for _, other in others)
    assert near_to("Where was Ada Lovelace born?", FIRST)[0][0].text == PARAGRAPHS[0]
    assert near_to(ABOUT_SEA, SINGLE) == []
    state = read_alone(brief_backbone, SINGLE)
    assert parts.focused(state, ABOUT_SEA, SINGLE).state is state


def test_parts_are_read_once_and_without_the_question(brief_backbone, words):
    counted = Counted(words)
    parts = Parts(brief_backbone, counted, FP32)
    for question in (ABOUT_SEA, "Where was Ada Lovelace born?", ABOUT_SEA):
        parts.focused(read_alone(brief_backbone, FIRST), question, FIRST)
    assert counted.passages == list(PARAGRAPHS[:2])
    for part in parts.of(FIRST):
        alone = read_alone(brief_backbone, part.text).recurrent
        torch.testing.assert_close(part.stored.state(FP32, brief_backbone.spec).recurrent, alone)


def test_only_so_many_passages_are_kept(brief_backbone, words):
    counted = Counted(words)
    parts = Parts(brief_backbone, counted, FP32, kept=1)
    for passage in (FIRST, FIRST, SECOND, FIRST):
        parts.of(passage)
    assert counted.passages == [*PARAGRAPHS, *PARAGRAPHS[:2]]


def test_what_is_injected_is_the_mean_of_the_paragraph_and_its_nearest_part(brief_backbone, reader):
    said = reader.inject(ABOUT_SEA, [FIRST], [1.0], 1.0)
    focused = mean_of(brief_backbone, FIRST, PARAGRAPHS[1])
    assert said.confidence == pytest.approx(confidence_from(brief_backbone, focused, ABOUT_SEA, FIRST), abs=1e-5)
    alone = reader.inject_part(ABOUT_SEA, FIRST, reader.focused(ABOUT_SEA, FIRST))
    part = read_alone(brief_backbone, PARAGRAPHS[1]).recurrent
    assert alone.confidence == pytest.approx(confidence_from(brief_backbone, part, ABOUT_SEA, FIRST), abs=1e-5)
    plain = ParagraphReader(brief_backbone, "fp32", GROUNDED).inject(ABOUT_SEA, [FIRST], [1.0], 1.0)
    assert len({round(one.confidence, 5) for one in (said, alone, plain)}) == 3
    asked = len(question_segment(brief_backbone, ABOUT_SEA))
    assert all(asked <= one.tokens_processed <= asked + 5 for one in (said, alone, plain))
    assert said.latency_sec > said.first_token_sec > 0


def test_where_the_nearest_part_is_in_doubt_the_states_are_asked(brief_backbone, words, monkeypatch):
    confidence = {"bias": 0.0, "weights": {}, "threshold": 0.0, "fitted": {}}
    monkeypatch.setattr(brief_backbone, "card", replace(brief_backbone.card, confidence=confidence))
    reader = ParagraphReader(brief_backbone, "fp32", GROUNDED, parts=Parts(brief_backbone, words, FP32))
    asked = len(question_segment(brief_backbone, ABOUT_BOTH))
    for sure in range(2):
        monkeypatch.setattr(
            focus_module, "claims", lambda _, rows, __, sure=sure: [5.0 * (n % 2 == sure) for n in range(len(rows))]
        )
        found = reader.focused(ABOUT_BOTH, FIRST)
        [first, second] = [part for part, _ in nearest_to(brief_backbone, reader.parts, ABOUT_BOTH, FIRST)]
        assert (found.part, found.in_doubt, found.tokens_read) == ((first, second)[sure], True, 4 * asked)
        torch.testing.assert_close(found.state.recurrent, mean_of(brief_backbone, FIRST, found.part.text))
        said = reader.inject(ABOUT_BOTH, [FIRST], [1.0], 1.0)
        plain = reader.answer_from(found.state, ABOUT_BOTH, [FIRST])
        assert (said.text, said.confidence) == (plain.text, plain.confidence)
        assert said.tokens_processed == plain.tokens_processed + 4 * asked
        alone = reader.inject_part(ABOUT_BOTH, FIRST, found)
        part = reader.answer_from(read_alone(brief_backbone, found.part.text), ABOUT_BOTH, [FIRST])
        assert (alone.text, alone.confidence) == (part.text, pytest.approx(part.confidence, abs=1e-6))
        assert alone.tokens_processed == part.tokens_processed + 4 * asked


def test_a_wrong_paragraph_is_focused_within_itself(brief_backbone, reader):
    said = reader.inject_other(ABOUT_MOUNT, FIRST, reader.focused(ABOUT_MOUNT, SECOND))
    focused = mean_of(brief_backbone, SECOND, PARAGRAPHS[2])
    assert said.confidence == pytest.approx(confidence_from(brief_backbone, focused, ABOUT_MOUNT, FIRST), abs=1e-5)


def test_several_members_are_each_focused(brief_backbone, reader):
    said = reader.inject(ABOUT_SEA, [FIRST, SECOND], [1.0, 1.0], 1.0, [reader.source(FIRST)] * 2)
    nearest = reader.focused(ABOUT_SEA, SECOND).part.text
    both = 0.5 * mean_of(brief_backbone, FIRST, PARAGRAPHS[1]) + 0.5 * mean_of(brief_backbone, SECOND, nearest)
    assert said.confidence == pytest.approx(confidence_from(brief_backbone, both, ABOUT_SEA, FIRST), abs=1e-5)


def test_a_paragraph_of_one_part_is_answered_from_its_own_state(brief_backbone, reader):
    plain = ParagraphReader(brief_backbone, "fp32", GROUNDED).inject("Who made it?", [SINGLE], [1.0], 1.0)
    found = reader.focused("Who made it?", SINGLE)
    injected = reader.inject("Who made it?", [SINGLE], [1.0], 1.0)
    for said in (injected, reader.inject_part("Who made it?", SINGLE, found)):
        assert (said.text, said.confidence) == (plain.text, plain.confidence)
    read, again = reader.in_context("Who made it?", SINGLE), reader.in_context_part("Who made it?", SINGLE, found)
    assert read.tokens_processed == again.tokens_processed


def test_reading_in_context_is_as_it_was_and_the_part_is_read_once_more(brief_backbone, reader):
    plain = ParagraphReader(brief_backbone, "fp32", GROUNDED).in_context(ABOUT_SEA, FIRST)
    found = reader.focused(ABOUT_SEA, FIRST)
    said, again = reader.in_context(ABOUT_SEA, FIRST), reader.in_context_part(ABOUT_SEA, FIRST, found)
    assert (said.text, said.confidence) == (plain.text, plain.confidence)
    part = brief_backbone.tokenizer.encode(PARAGRAPHS[1])
    free = ParagraphReader(brief_backbone, "fp32", FreeSettings(max_tokens=1), parts=reader.parts)
    once, more = free.in_context(ABOUT_SEA, FIRST), free.in_context_part(ABOUT_SEA, FIRST, found)
    assert more.tokens_processed - once.tokens_processed == len(part)
    assert again.text in FIRST
    assert again.confidence != said.confidence
    whole = read_alone(brief_backbone, FIRST + " " + PARAGRAPHS[1])
    expected = confidence_from(brief_backbone, whole.recurrent, ABOUT_SEA, FIRST)
    assert again.confidence == pytest.approx(expected, abs=1e-4)


def test_squad_tells_what_parts_cost_and_find(brief_backbone, words, reader):
    settings = SquadSettings(("in_context", "inject_top1", *PART_MODES), quality="study")
    experiment = Squad(QUESTIONS, QUESTIONS, reader, settings, words)
    records = [experiment.measure(number) for number in range(3)]
    report = json.loads(json.dumps(experiment.report(records), allow_nan=False))
    one = FP32.encoded_bytes(brief_backbone.spec)
    assert [record["bytes"] for record in records] == [3 * one, 3 * one, one]
    assert report["bytes"] == pytest.approx(7 * one / 3)
    assert [record["part_hit"] for record in records] == [True, False, None]
    assert report["part_hit"] == 0.5
    assert [record["in_doubt"] for record in records] == [False, False, None]
    assert report["in_doubt_share"] == 0.0
    assert report["offline_sec"] == pytest.approx(sum(record["offline_sec"] for record in records) / 3)
    assert all(record["offline_sec"] > 0 for record in records)
    assert list(report["modes"]) == ["in_context", "inject_top1", *PART_MODES]
    for row in report["modes"].values():
        assert 0 < row["mean_ttft_sec"] <= row["mean_latency_sec"]
    assert (experiment.settings["quality"], experiment.settings["encoder"]) == ("study", words.fingerprint)


def test_a_paragraph_is_focused_once_for_all_modes(brief_backbone, words, reader, monkeypatch):
    asked, focused = [], reader.parts.focused
    monkeypatch.setattr(reader.parts, "focused", lambda *given: asked.append(given[1:]) or focused(*given))
    modes = ("in_context", "inject_top1", "inject_top3", *PART_MODES, "other")
    experiment = Squad(QUESTIONS, QUESTIONS, reader, SquadSettings(modes, quality="study"), words)
    said = experiment.measure(0)["said"]
    assert sorted(asked) == sorted({(ABOUT_SEA, text) for text in (FIRST, SECOND, SINGLE)})
    found = reader.focused(ABOUT_SEA, FIRST)
    alone = {
        "inject_top1": reader.inject(ABOUT_SEA, [FIRST], [1.0], 1.0),
        "inject_part": reader.inject_part(ABOUT_SEA, FIRST, found),
        "in_context_part": reader.in_context_part(ABOUT_SEA, FIRST, found),
    }
    for mode, one in alone.items():
        for key in ("text", "confidence", "tokens_processed"):
            assert said[mode][key] == one.to_json()[key]
    asked.clear()
    Squad(QUESTIONS, QUESTIONS, reader, SquadSettings(("inject_top1",), quality="study"), words).measure(0)
    assert asked == [(ABOUT_SEA, FIRST)]


def test_squad_without_parts_tells_its_bytes(brief_backbone, words):
    plain = ParagraphReader(brief_backbone, "fp16", GROUNDED)
    report = run(Squad(QUESTIONS[:1], QUESTIONS, plain, SquadSettings(("inject_top1",)), words))
    assert report["bytes"] == codec_named("fp16").encoded_bytes(brief_backbone.spec)
    assert report["part_hit"] is None
    assert report["in_doubt_share"] is None


@pytest.mark.parametrize("mode", PART_MODES)
@pytest.mark.parametrize("quality", ["fast", "twice"])
def test_modes_of_parts_need_parts(mode, quality):
    assert mode not in MODES
    with pytest.raises(UsageError, match=f"--modes {mode} needs --quality study; given: --quality {quality}"):
        SquadSettings((mode,), quality=quality)


def test_passages_and_their_chunks_are_focused(brief_backbone, words):
    long = Question("d", "t", f"{FIRST} {SECOND}", ABOUT_MOUNT, ("5,199 metres",))
    settings = NaturalQuestionsSettings(chunk_tokens=40, codec="fp32")
    found = {
        quality: NaturalQuestions([long], [long], brief_backbone, settings, words, quality=quality)
        for quality in ("fast", "study")
    }
    records = {quality: experiment.measure(0) for quality, experiment in found.items()}
    assert records["study"]["chunks"] > 1
    assert records["study"]["said"]["in_context"]["text"] == records["fast"]["said"]["in_context"]["text"]
    states = found["study"]._states
    for text in (long.context, SECOND):
        got = states.focused(text, FP32, ABOUT_MOUNT).state
        torch.testing.assert_close(got.recurrent, mean_of(brief_backbone, text, PARAGRAPHS[2]))
    plain = found["fast"]._states.focused(SECOND, FP32, ABOUT_MOUNT).state
    torch.testing.assert_close(plain.recurrent, read_alone(brief_backbone, SECOND).recurrent)
    assert found["study"].settings["quality"] == "study"
    assert "quality" not in found["fast"].settings


def test_answers_about_passages_come_from_focused_states(brief_backbone, words, monkeypatch):
    long = Question("d", "t", f"{FIRST} {SECOND}", ABOUT_MOUNT, ("5,199 metres",))
    settings = NaturalQuestionsSettings(chunk_tokens=40, codec="fp32")
    experiment = NaturalQuestions([long], [long], brief_backbone, settings, words, quality="study")
    given = []
    answer_from = experiment._reader.answer_from
    monkeypatch.setattr(
        experiment._reader, "answer_from", lambda state, *rest: given.append(state) or answer_from(state, *rest)
    )
    experiment.measure(0)
    whole, chunk = given
    torch.testing.assert_close(whole.recurrent, mean_of(brief_backbone, long.context, PARAGRAPHS[2]))
    assert chunk.num_tokens < whole.num_tokens


def test_members_are_focused_on_parts_of_their_own_and_never_exact(brief_backbone, words):
    paragraphs = (
        HotpotParagraph("Ada and the Danube", FIRST),
        HotpotParagraph("Kenya and Ghent", SECOND),
        HotpotParagraph("Mill", SINGLE),
    )
    asked = HotpotQuestion("a", ABOUT_MOUNT, "5,199 metres", (), paragraphs)
    alone = HotpotQuestion("b", "Who made the wheel of the mill?", "Tom Reed", (), (paragraphs[2],))
    settings = HotpotSettings((1, 2), ("mean", "mix", "concat"), codec="fp32")
    said = {}
    for quality in ("fast", "study"):
        experiment = Hotpot([asked, alone], brief_backbone, settings, words, quality=quality)
        said[quality] = [experiment.measure(number)["said"]["grounded"] for number in range(2)]
    assert said["fast"][0]["1"]["best"]["exact"]
    assert said["fast"][0]["2"]["mix"]["exact"]
    assert not any(row["exact"] for rows in said["study"][0].values() for row in rows.values())
    assert said["study"][1]["1"]["best"]["exact"]  # "Mill." and its one sentence are one part


def test_every_rule_but_the_one_that_reads_on_has_focused_states(brief_backbone, words):
    asked = HotpotQuestion("a", ABOUT_BOTH, "London", (), (HotpotParagraph("", FIRST), HotpotParagraph("", SINGLE)))
    rules = ("mean", "mix", "replay")
    said = {}
    for quality in ("fast", "study"):
        settings = HotpotSettings((1, 2), rules, codec="fp32")
        experiment = Hotpot([asked], brief_backbone, settings, words, quality=quality)
        said[quality] = experiment.measure(0)["said"]["grounded"]
    fast, study = said["fast"], said["study"]
    for key in ("text", "tokens_processed", "exact"):
        assert study["2"]["replay"][key] == fast["2"]["replay"][key]
    for k, rule in (("1", "best"), ("2", "mix")):
        assert (fast[k][rule]["exact"], study[k][rule]["exact"]) == (True, False)


def test_a_paragraph_that_is_only_read_on_is_not_focused(brief_backbone, words, monkeypatch):
    asked = HotpotQuestion("a", ABOUT_BOTH, "London", (), (HotpotParagraph("", FIRST), HotpotParagraph("", SECOND)))
    for rules, focused in ((("replay",), 1), (("mean", "replay"), 2), (("mix:3", "replay"), 1)):
        experiment = Hotpot(
            [asked], brief_backbone, HotpotSettings((1, 2), rules, codec="fp32"), words, quality="study"
        )
        passages, focus = [], experiment._parts.focused
        monkeypatch.setattr(
            experiment._parts, "focused", lambda *given, p=passages, f=focus: p.append(given[2]) or f(*given)
        )
        experiment.measure(0)
        assert len(passages) == len(set(passages)) == focused


def test_parts_are_kept_for_states_that_are_studied_alone(brief_backbone, words):
    assert parts_for("fast", brief_backbone, words, FP32) is parts_for("twice", brief_backbone, words, FP32) is None
    assert parts_for("study", brief_backbone, words, FP32).encoder is words
    attention = copy(brief_backbone)
    attention.spec = replace(brief_backbone.spec, averages=False)
    with pytest.raises(UsageError, match=r"cannot be averaged.*--quality twice"):
        parts_for("study", attention, words, FP32)
