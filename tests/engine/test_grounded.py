"""Grounded decoding against a brute force over every span, and the mask against a loop over the text."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from precog.backbones.tenns.backbone import TennsBackbone
from precog.engine import (
    GroundedSettings,
    Source,
    answer_in_context,
    answer_inject,
    answer_none,
    build_suffix_array,
    check_suffix_array,
    ground,
)
from precog.engine.suffixes import successors
from precog.errors import InputError, UsageError
from precog.state import compose
from precog.text.tokenizer import load_mistral_tokenizer

TOKENIZER = load_mistral_tokenizer()
BACKBONES = {name: TennsBackbone.random(name, TOKENIZER) for name in ("tiny", "tiny-outer")}
QUESTION = [1, 500, 600, 700]
EOS = 2
EXHAUSTIVE = 10_000


def any_spans(*values, **options):
    """Settings whose spans need not be whole words: these tests make up their token ids."""
    return GroundedSettings(*values, whole_words=False, **options)


few_ids = st.lists(st.integers(3, 6), min_size=1, max_size=60)


@settings(deadline=None, max_examples=200)
@given(ids=few_ids)
def test_suffixes_are_sorted(ids):
    suffixes = build_suffix_array(ids)
    assert suffixes.dtype == np.uint16
    assert suffixes.tolist() == sorted(range(len(ids)), key=lambda i: ids[i:])
    check_suffix_array(np.array(ids), suffixes)


@pytest.mark.parametrize("ids", [[], [7], [7] * 300, list(range(300)), [0, 65_535, 0, 65_535]])
def test_suffixes_of_odd_texts(ids):
    assert build_suffix_array(np.array(ids, np.uint16)).tolist() == sorted(range(len(ids)), key=lambda i: ids[i:])


def test_a_long_text_takes_wider_positions():
    ids = np.random.default_rng(0).integers(0, 50, 70_000)
    suffixes = build_suffix_array(ids)
    assert suffixes.dtype == np.uint32
    check_suffix_array(ids, suffixes)


def test_suffix_arrays_of_other_texts_are_refused():
    ids = np.array([5, 3, 4])
    for wrong in ([0, 1, 2], [1, 2], [1, 1, 0]):
        with pytest.raises(InputError):
            check_suffix_array(ids, np.array(wrong))
    with pytest.raises(InputError):
        build_suffix_array([-1])
    with pytest.raises(InputError):
        Source.of([5, 6], np.array([0]))
    with pytest.raises(InputError):
        Source.of(np.array([], np.uint16))


@settings(deadline=None, max_examples=100)
@given(ids=few_ids, start=st.integers(0, 59), length=st.integers(0, 5))
def test_successors_equal_a_search_through_the_text(ids, start, length):
    start = min(start, len(ids) - 1)
    prefix = ids[start : start + length]
    array, suffixes = np.array(ids), build_suffix_array(ids)
    low, high = 0, len(ids)
    for depth, token in enumerate(prefix):
        tokens, bounds = successors(array, suffixes, low, high, depth)
        at = tokens.tolist().index(token)
        low, high = int(bounds[at]), int(bounds[at + 1])
    found = [i for i in range(len(ids)) if ids[i : i + len(prefix)] == prefix]
    assert sorted(suffixes[low:high].tolist()) == found
    tokens, bounds = successors(array, suffixes, low, high, len(prefix))
    following = [ids[i + len(prefix)] for i in found if i + len(prefix) < len(ids)]
    assert tokens.tolist() == sorted(set(following))
    assert np.diff(bounds).tolist() == [following.count(token) for token in sorted(set(following))]


def span_score(model, state, span, chunks):
    """log p of a span and its end, token by token, masks found by searching the text."""
    total = 0.0
    text = list(QUESTION)
    for depth in range(len(span) + 1):
        prefix = list(span[:depth])
        allowed = {
            chunk[i + depth]
            for chunk in chunks
            for i in range(len(chunk) - depth)
            if list(chunk[i : i + depth]) == prefix
        } | {EOS}
        order = sorted(allowed)
        logits = model.prefill(text, state)[1].double()[order]
        target = span[depth] if depth < len(span) else EOS
        total += float(torch.log_softmax(logits, 0)[order.index(target)])
        text.append(target)
    return total


def every_span(chunks, longest):
    return sorted(
        {tuple(chunk[i : i + n]) for chunk in chunks for n in range(1, longest + 1) for i in range(len(chunk) - n + 1)}
    )


@pytest.mark.parametrize("preset", BACKBONES)
@pytest.mark.parametrize("contrast", [0.0, 0.5])
@pytest.mark.parametrize("normalise", [False, True])
def test_an_exhaustive_beam_finds_the_best_of_all_spans(preset, contrast, normalise):
    model = BACKBONES[preset]
    chunk = [11, 12, 11, 13, 12, 11, 12, 14]
    [state] = model.encode_chunks([chunk])
    options = any_spans(EXHAUSTIVE, max_span_tokens=4, length_normalise=normalise, contrast=contrast)
    found = ground(model, state, QUESTION, [Source.of(chunk)], options)
    expected = {}
    for span in every_span([chunk], 4):
        score = span_score(model, state, span, [chunk])
        total = score - contrast * (span_score(model, None, span, [chunk]) if contrast else 0)
        expected[span] = (score, total / (len(span) + 1) if normalise else total)
    best = max(expected, key=lambda span: expected[span][1])
    assert found.best.token_ids == best
    for span in found.spans:
        assert span.log_probability == pytest.approx(expected[span.token_ids][0], abs=1e-4)
        assert span.score == pytest.approx(expected[span.token_ids][1], abs=1e-4)
        assert chunk[span.start : span.start + span.length] == list(span.token_ids)
    if normalise or contrast:
        assert {span.token_ids for span in found.spans} == set(expected)
    order = [*sorted(set(chunk)), EOS]
    order.sort()
    first = torch.log_softmax(model.prefill(QUESTION, state)[1].double()[order], 0)
    assert found.no_answer_log_probability == pytest.approx(float(first[order.index(EOS)]), abs=1e-4)


def test_spans_and_their_end_share_all_probability():
    model = BACKBONES["tiny-outer"]
    chunk = [21, 22, 21, 23]
    [state] = model.encode_chunks([chunk])
    options = any_spans(EXHAUSTIVE, contrast=1e-9)  # nothing pruned
    found = ground(model, state, QUESTION, [Source.of(chunk)], options)
    total = sum(np.exp(span.log_probability) for span in found.spans) + np.exp(found.no_answer_log_probability)
    assert total == pytest.approx(1, abs=1e-5)
    assert 0 < found.confidence < 1


@pytest.mark.parametrize("preset", BACKBONES)
def test_greedy_takes_the_best_allowed_token_each_time(preset):
    model = BACKBONES[preset]
    chunk = np.random.default_rng(3).integers(3, 40, 50).tolist()
    [state] = model.encode_chunks([chunk])
    found = ground(model, state, QUESTION, [Source.of(chunk)], any_spans(1, max_span_tokens=6))
    text, span = list(QUESTION), []
    while len(span) < 6:
        allowed = {chunk[i + len(span)] for i in range(len(chunk) - len(span)) if chunk[i : i + len(span)] == span}
        allowed = sorted(allowed if not span else allowed | {EOS})
        logits = model.prefill(text, state)[1][allowed]
        token = allowed[int(logits.argmax())]
        if token == EOS:
            break
        span.append(token)
        text.append(token)
    assert list(found.best.token_ids) == span
    assert len(found.spans) == 1
    assert found.tokens_processed == len(QUESTION) + len(span)


def test_a_wider_beam_never_finds_a_worse_span():
    model = BACKBONES["tiny"]
    for seed in range(5):
        chunk = np.random.default_rng(seed).integers(3, 20, 40).tolist()
        [state] = model.encode_chunks([chunk])
        source = [Source.of(chunk)]
        scores = [ground(model, state, QUESTION, source, any_spans(w)).best.score for w in (1, 4, EXHAUSTIVE)]
        assert max(scores[:2]) <= scores[2] + 1e-4


def test_the_union_of_sources_remembers_every_occurrence():
    model = BACKBONES["tiny-outer"]
    chunks = [[31, 32, 33], [32, 33, 34, 32, 33]]
    states = model.encode_chunks(chunks)
    state = compose(states, [1.0, 0.5], model.spec).state
    sources = [Source.of(chunk) for chunk in chunks]
    options = any_spans(EXHAUSTIVE, max_span_tokens=3, contrast=1e-9)
    found = ground(model, state, QUESTION, sources, options)
    by_tokens = {span.token_ids: span for span in found.spans}
    assert set(by_tokens) == set(every_span(chunks, 3))
    assert by_tokens[32, 33].occurrences == ((0, 1), (1, 0), (1, 3))
    assert (by_tokens[34,].member, by_tokens[34,].start) == (1, 2)
    for tokens in [(32, 33), (34,), (31, 32, 33)]:
        assert by_tokens[tokens].log_probability == pytest.approx(span_score(model, state, tokens, chunks), abs=1e-4)


def test_the_meters_count_what_was_touched():
    model = BACKBONES["tiny"]
    chunk = np.array([41, 42, 43, 44, 45], np.uint16)
    [state] = model.encode_chunks([chunk.tolist()])
    before = state.recurrent
    options = any_spans(1, max_span_tokens=2)
    found = ground(model, state, QUESTION, [Source.of(chunk)], options)
    expansions = found.best.length  # an expansion per step, the first over the whole chunk, the others over one place
    assert found.mask_bytes == 4 * (5 + expansions)
    assert 0 < found.mask_sec < found.total_sec
    assert found.first_token_sec < found.total_sec
    plain = found.tokens_processed
    twice = ground(model, state, QUESTION, [Source.of(chunk)], any_spans(1, 2, contrast=1e-9))
    assert twice.tokens_processed == 2 * plain
    assert state.recurrent.equal(before)


@pytest.mark.parametrize("preset", BACKBONES)
@pytest.mark.parametrize("options", [None, any_spans(3, 8, contrast=0.3), any_spans(1)])
def test_injecting_answers_as_reading_does(preset, options):
    model = BACKBONES[preset]
    rng = np.random.default_rng(0)
    for _ in range(5):
        chunk = rng.integers(3, 32_000, 60).tolist()
        [state] = model.encode_chunks([chunk])
        seen = []
        injected = answer_inject(
            model, state, QUESTION, sources=[Source.of(chunk)], settings=options, on_token=seen.append
        )
        read = answer_in_context(model, [chunk], QUESTION, settings=options)
        assert injected.token_ids == read.token_ids == tuple(seen)
        assert injected.log_probability == pytest.approx(read.log_probability, abs=1e-4)
        assert read.tokens_processed == injected.tokens_processed + len(chunk) + 1
        assert (injected.mode, read.mode) == ("inject", "in-context")
    mask_only = answer_none(model, QUESTION, sources=[Source.of(chunk)], settings=any_spans())
    assert mask_only.grounded is not None


def test_several_chunks_are_read_one_after_another_in_context():
    model = BACKBONES["tiny"]
    chunks = [[51, 52, 53], [54, 55]]
    read = answer_in_context(model, chunks, QUESTION)
    [first] = model.encode_chunks(chunks[:1])
    second = model.prefill(model.reading(chunks[1]), first)[0].at_boundary()
    replayed = answer_inject(model, second, QUESTION, sources=[Source.of(chunk) for chunk in chunks])
    assert read.token_ids == replayed.token_ids
    assert read.log_probability == pytest.approx(replayed.log_probability, abs=1e-4)
    with pytest.raises(InputError):
        answer_in_context(model, [], QUESTION)
    with pytest.raises(InputError, match="source"):
        answer_inject(model, first, QUESTION)


@pytest.mark.parametrize(
    "values", [{"beam_width": 0}, {"max_span_tokens": 0}, {"contrast": -1.0}, {"min_confidence": 2.0}]
)
def test_settings_out_of_range_are_refused(values):
    with pytest.raises(UsageError):
        any_spans(**values)


def test_settings_come_from_the_card():
    assert GroundedSettings.from_card({}) == GroundedSettings()
    assert GroundedSettings.from_card({"beam_width": 2, "contrast": 1}) == GroundedSettings(2, contrast=1.0)
    for bad in ({"beams": 2}, {"beam_width": 2.0}, {"length_normalise": 1}, {"contrast": "x"}, {"contrast": 10**400}):
        with pytest.raises(UsageError, match="decoding"):
            GroundedSettings.from_card(bad)
    assert GroundedSettings.from_card({"min_confidence": 0.25}).min_confidence == 0.25
