import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precog.questions.cloze import BLANK, make_cloze
from precog.questions.spans import SpanType, find_spans, split_sentences
from precog.questions.verbs import base_form, is_verb
from precog.questions.wh import make_wh


def typed(sentence: str) -> dict[str, SpanType]:
    return {sentence[s.start : s.stop]: s.type for s in find_spans(sentence)}


def test_types_of_spans() -> None:
    found = typed(
        "On 4 July 1776, Thomas Jefferson sold 12,500 books for $3 million in Paris, 45% of them about ships."
    )
    assert found["4 July 1776"] is SpanType.DATE
    assert found["Thomas Jefferson"] is SpanType.PERSON
    assert found["12,500"] is SpanType.NUMBER
    assert found["$3 million"] is SpanType.MONEY
    assert found["Paris"] is SpanType.PLACE
    assert found["45%"] is SpanType.PERCENT


def test_quotes_measures_reasons_and_phrases() -> None:
    found = typed('He called it "the long road" because the bridge was broken, and it ran 12 km to the old mill.')
    assert found["the long road"] is SpanType.QUOTE
    assert found["12 km"] is SpanType.MEASURE
    assert found["the bridge was broken"] is SpanType.REASON
    assert found["old mill"] is SpanType.PHRASE


def test_sentence_openers_are_no_names() -> None:
    assert not any(t is SpanType.NAME for t in typed("However, it was late. ").values())
    assert "In March" not in typed("In March it rained.")


def test_sentences_keep_abbreviations_and_initials_together() -> None:
    text = 'Dr. J. Smith met Mr. Hall. "Was it St. Paul?" he asked. Yes.'
    assert [text[a:b] for a, b in split_sentences(text)] == [
        "Dr. J. Smith met Mr. Hall.",
        '"Was it St. Paul?" he asked.',
        "Yes.",
    ]


@given(st.text(alphabet="aB c.D'!?\"(1,)é日\n", max_size=200))
@settings(max_examples=150)
def test_sentences_and_spans_stay_inside_the_text(text: str) -> None:
    edges = split_sentences(text)
    assert all(0 <= a <= b <= len(text) for a, b in edges)
    assert all(left[1] <= right[0] for left, right in pairwise(edges))
    assert "".join("".join(text[a:b] for a, b in edges).split()) == "".join(text.split())
    assert all(0 <= s.start < s.stop <= len(text) for s in find_spans(text))


@pytest.mark.parametrize(
    ("verb", "base"),
    [("wrote", "write"), ("carried", "carry"), ("stopped", "stop"), ("called", "call"), ("produced", "produce"),
     ("created", "create"), ("treated", "treat"), ("joined", "join"), ("divided", "divide"), ("developed", "develop")],
)  # fmt: skip
def test_base_forms(verb: str, base: str) -> None:
    assert base_form(verb) == base
    assert is_verb(verb)


SENTENCE = "The composer Johann Bach wrote the cello suites in Leipzig, and he died there in 1750."


@given(st.integers(0, 10_000))
def test_cloze_has_one_blank_and_no_answer(seed: int) -> None:
    start = SENTENCE.index("Leipzig")
    question = make_cloze(SENTENCE, start, start + 7, random.Random(seed))
    if question is not None:
        assert question.count(BLANK) == 1
        assert "Leipzig" not in question
        assert len(question.split()) >= 5


def test_cloze_refuses_what_leaves_nothing_to_ask_by() -> None:
    assert make_cloze("In Leipzig.", 3, 10, random.Random(0)) is None


def questions(sentence: str, answer: str, kind: SpanType) -> set[str]:
    start = sentence.index(answer)
    made = (make_wh(sentence, start, start + len(answer), kind, "Bach", random.Random(i)) for i in range(300))
    return {m.question for m in made if m is not None}


def test_wh_questions_take_the_expected_shapes() -> None:
    born = questions("Johann Bach was born in Eisenach.", "Eisenach", SpanType.PLACE)
    assert "Where was Johann Bach born?" in born
    year = questions("The suites were published in 1824 by Probst.", "1824", SpanType.YEAR)
    assert {"When were the suites published by Probst?", "In what year were the suites published by Probst?"} <= year
    subject = questions("Mary Shelley wrote the novel in Geneva.", "Mary Shelley", SpanType.PERSON)
    assert "Who wrote the novel in Geneva?" in subject
    count = questions("The town has 300 inhabitants today.", "300", SpanType.NUMBER)
    assert any(q.startswith("How many inhabitants does the town have") for q in count)
    pronoun = questions("He died in Leipzig after an operation.", "Leipzig", SpanType.PLACE)
    assert any("Bach" in q for q in pronoun)


def test_wh_question_never_holds_its_answer() -> None:
    for span in find_spans(SENTENCE):
        answer = SENTENCE[span.start : span.stop]
        for seed in range(50):
            made = make_wh(SENTENCE, span.start, span.stop, span.type, "", random.Random(seed))
            if made is not None:
                assert SENTENCE[made.start : made.stop] in answer
                assert SENTENCE[made.start : made.stop] not in made.question
