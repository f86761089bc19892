"""Sampling as pure functions, free decoding, sentence ends, and the question's segment."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from speaker import MODEL, TOKENIZER, Speaker

from precog.engine import (
    FreeSettings,
    Sampling,
    answer_in_context,
    answer_inject,
    answer_none,
    decode,
    question_segment,
)
from precog.engine.decode import sentence_ended
from precog.engine.sampling import choose, filtered
from precog.errors import InputError, UsageError

CHUNK = TOKENIZER.encode("The bridge was opened in 1932. It is long.")
QUESTION = question_segment(MODEL, "When was it opened?")
logit_rows = st.lists(st.floats(-20, 20, width=32), min_size=1, max_size=12).map(torch.tensor)


@settings(deadline=None)
@given(logits=logit_rows, top_p=st.floats(0.01, 1), top_k=st.integers(0, 12), temperature=st.floats(0.05, 5))
def test_filtering_keeps_the_least_set_that_is_enough(logits, top_p, top_k, temperature):
    logits = logits.double()
    kept = filtered(logits, Sampling(temperature, top_p, top_k)).exp()
    assert kept.sum() == pytest.approx(1)
    assert kept[logits.argmax()] > 0
    chosen = kept > 0
    assert logits[chosen].min() >= logits[~chosen].max() if (~chosen).any() else True
    assert chosen.sum() <= (top_k or len(logits))
    if not top_k:
        full = torch.softmax(logits / temperature, 0)
        assert full[chosen].sum() >= top_p - 1e-9
        assert full[chosen].sum() - full[chosen].min() < top_p + 1e-9


def test_sampling_follows_the_probabilities_and_the_seed():
    logits = torch.log(torch.tensor([0.5, 0.3, 0.2]))
    sampling = Sampling(temperature=1.0, seed=4)
    generator = sampling.generator()
    drawn = [choose(logits, sampling, generator) for _ in range(3000)]
    again = sampling.generator()
    assert drawn == [choose(logits, sampling, again) for _ in range(3000)]
    for token, share in enumerate((0.5, 0.3, 0.2)):
        assert drawn.count(token) / 3000 == pytest.approx(share, abs=0.04)
    assert choose(logits, Sampling()) == 0
    assert {choose(logits, Sampling(1.0, top_k=1), generator) for _ in range(20)} == {0}
    with pytest.raises(UsageError, match="generator"):
        choose(logits, sampling)


@pytest.mark.parametrize("values", [{"temperature": -0.1}, {"top_p": 0.0}, {"top_p": 1.1}, {"top_k": -1}])
def test_sampling_out_of_range_is_refused(values):
    with pytest.raises(UsageError):
        Sampling(**values)


def test_greedy_decoding_equals_reading_the_growing_text():
    [state] = MODEL.encode_chunks([CHUNK])
    tokens = list(decode(MODEL, state, QUESTION, max_tokens=6, whole_sentences=False))
    text = list(QUESTION)
    for number, token in enumerate(tokens):
        logits = MODEL.prefill(text, state)[1]
        assert token.token_id == int(logits.argmax())
        assert token.log_probability == pytest.approx(float(torch.log_softmax(logits, 0)[token.token_id]), abs=1e-4)
        assert token.tokens_processed == len(QUESTION) + number
        text.append(token.token_id)
    assert len(tokens) == 6
    with pytest.raises(UsageError):
        next(decode(MODEL, state, QUESTION, max_tokens=0))


def test_free_answers_are_equal_from_state_and_from_text():
    [state] = MODEL.encode_chunks([CHUNK])
    for sampling in (Sampling(), Sampling(0.8, 0.9, 50, seed=3)):
        options = FreeSettings(max_tokens=8, sampling=sampling)
        seen = []
        injected = answer_inject(MODEL, state, QUESTION, settings=options, on_token=seen.append)
        read = answer_in_context(MODEL, [CHUNK], QUESTION, settings=options)
        assert injected.token_ids == read.token_ids == tuple(seen)
        assert injected.grounded is None
        assert read.tokens_processed - injected.tokens_processed == 0 or read.token_ids
        assert 0 < injected.first_token_sec <= injected.total_sec
    bare = answer_none(MODEL, QUESTION, settings=FreeSettings(max_tokens=3))
    assert len(bare.token_ids) <= 3
    assert bare.tokens_processed == len(QUESTION) + len(bare.token_ids)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("In 1932. It is long.", "In 1932."),
        ("It weighs 3.5 tons! Yes.", "It weighs 3.5 tons!"),
        ('He said "No." Then he left.', 'He said "No."'),
        ("Mr. J. R. Smith of the U.S. army. He left.", "Mr. J. R. Smith of the U.S. army."),
        ("one line\nanother", "one line"),
        ("没有。是的。", "没有。"),
        ("no end at all", "no end at all"),
        ("Really?! Yes", "Really?!"),
    ],
)
def test_an_answer_ends_with_its_sentence(text, said):
    speaker = Speaker(TOKENIZER.encode(text))
    tokens = [token.token_id for token in decode(speaker, None, [1, 5])]
    assert TOKENIZER.decode(tokens) == said
    everything = [token.token_id for token in decode(speaker, None, [1, 5], whole_sentences=False)]
    assert TOKENIZER.decode(everything) == text
    assert len(list(decode(speaker, None, [1, 5], max_tokens=1))) == 1


def test_nothing_said_is_no_sentence():
    newline = TOKENIZER.encode("\n")[-1]
    assert not sentence_ended([], newline, TOKENIZER)
    assert sentence_ended(TOKENIZER.encode("word"), newline, TOKENIZER)


def test_the_question_is_a_segment_of_its_own():
    assert [1, *TOKENIZER.encode("###When was it opened? ###Long Answer:")] == QUESTION
    assert question_segment(MODEL, " a ", "Q: {question}") == [1, *TOKENIZER.encode("Q: a")]
    assert 1 not in question_segment(MODEL, "<s> {question}")[1:]
    for empty in ("", "  \n"):
        with pytest.raises(InputError, match="empty"):
            question_segment(MODEL, empty)
