import dataclasses

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from read_texts import BARE, MARROW, TEXTS

from precog.backbones.tenns.backbone import TennsBackbone
from precog.engine.templates import question_segment
from precog.refine import exercise
from precog.refine.exercise import Exercises, answer_tokens, exercises_of
from precog.text.tokenizer import load_mistral_tokenizer
from precog.train.data.tokens import answer_span, shared_pieces

TOKENIZER = load_mistral_tokenizer()


@pytest.fixture(scope="module")
def backbone() -> TennsBackbone:
    return TennsBackbone.random("tiny-outer", TOKENIZER)


def made(backbone: TennsBackbone, text: str, title: str = "", seed: int = 0) -> Exercises | None:
    return exercises_of(backbone, text, title, TOKENIZER.encode(text), seed)


def answers(exercises: tuple[exercise.Exercise, ...]) -> set[tuple[int, ...]]:
    return {one.token_ids[one.num_prompt : -1] for one in exercises}


@pytest.mark.parametrize("text", TEXTS)
def test_rows_are_questions_as_they_are_asked_and_the_texts_own_tokens(backbone: TennsBackbone, text: str) -> None:
    found = made(backbone, text)
    assert found is not None
    ids = tuple(TOKENIZER.encode(text))
    everything = found.practice + found.held_out
    assert 10 <= len(everything) <= exercise.MOST_QUESTIONS
    before, after = backbone.card.question_template.split("{question}")
    for one in everything:
        prompt, answer = one.token_ids[: one.num_prompt], one.token_ids[one.num_prompt : -1]
        assert one.token_ids[-1] == TOKENIZER.eos_id
        question = TOKENIZER.decode(prompt).removeprefix(before).removesuffix(after)
        assert list(prompt) == question_segment(backbone, question)
        assert any(ids[at : at + len(answer)] == answer for at in range(len(ids)))
        assert TOKENIZER.decode(answer).strip().lower() not in question.lower()
    assert len({one.token_ids[: one.num_prompt] for one in everything}) == len(everything)


@pytest.mark.parametrize("text", TEXTS)
def test_no_answer_that_is_held_out_is_practised(backbone: TennsBackbone, text: str) -> None:
    found = made(backbone, text)
    assert found is not None
    practised, held = answers(found.practice), answers(found.held_out)
    assert practised
    assert not practised & held
    assert len(held) == pytest.approx(exercise.HELD_OUT * (len(practised) + len(held)), abs=0.51)


def test_they_follow_from_text_title_and_seed(backbone: TennsBackbone) -> None:
    first = made(backbone, MARROW)
    assert first == made(backbone, MARROW)
    assert first not in (made(backbone, MARROW, seed=1), made(backbone, MARROW, "Lamps"), made(backbone, MARROW[:-1]))


@pytest.mark.parametrize("text", ["…", "", BARE * 50, "It rains.", "Ada Quill."])
def test_a_text_of_which_little_can_be_asked_gives_none(backbone: TennsBackbone, text: str) -> None:
    assert made(backbone, text) is None


def test_tokens_that_are_not_the_texts_give_none(backbone: TennsBackbone) -> None:
    assert exercises_of(backbone, MARROW, "", TOKENIZER.encode(MARROW)[:-1]) is None


def test_long_rows_and_answers_are_left_out(backbone: TennsBackbone, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exercise, "MAX_ROW_TOKENS", 30)
    monkeypatch.setattr(exercise, "MAX_ANSWER_TOKENS", 2)
    found = made(backbone, MARROW)
    assert found is not None
    for one in found.practice + found.held_out:
        assert len(one.token_ids) <= 30
        assert len(one.token_ids) - one.num_prompt - 1 <= 2


def test_another_template_is_asked_in(backbone: TennsBackbone) -> None:
    card = dataclasses.replace(backbone.card, question_template="Q: {question} A:")
    other = TennsBackbone(backbone.model, card, TOKENIZER)
    found = made(other, MARROW)
    assert found is not None
    for one in found.practice:
        assert TOKENIZER.decode(one.token_ids[: one.num_prompt]).startswith("Q: ")


def test_a_token_that_says_more_than_the_answer_is_none() -> None:
    text = "unhappy days, 1901"
    spans = [(0, 7), (7, 12), (12, 13), (13, 15), (15, 16), (16, 18)]
    assert answer_tokens(text, spans, 2, 7) is None
    assert answer_tokens(text, spans, 0, 5) is None
    assert answer_tokens(text, spans, 0, 7) == (0, 1)
    assert answer_tokens(text, spans, 8, 12) == (1, 2)  # a space before it says nothing
    assert answer_tokens(text, spans, 14, 18) == (3, 6)
    assert answer_tokens(text, spans, 18, 18) is None


@settings(max_examples=300, deadline=None)
@given(st.text(st.sampled_from("ab Zé—1漢😀.,\n"), min_size=1, max_size=40), st.data())
@example("Zoë 漢 1901", None)
def test_answers_are_placed_as_in_training_data(text: str, data: st.DataObject | None) -> None:
    places = [(4, 5)]
    if data is not None:
        start = data.draw(st.integers(0, len(text) - 1))
        places = [(start, data.draw(st.integers(start + 1, len(text))))]
    ids, spans = TOKENIZER.encode_with_offsets(text)
    ends, total = [], 0
    for token in shared_pieces().encode([text])[0]:
        total += shared_pieces().num_bytes[token]
        ends.append(total)
    for start, stop in places:
        if text[start].isspace() or text[stop - 1].isspace():
            continue  # nobody asks for a space
        assert len(ids) == len(ends)
        assert answer_tokens(text, spans, start, stop) == answer_span(text, ends, start, stop)
