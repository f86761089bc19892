"""Composition that needs the model: against reading in the order, an explicit loop over members, and every span."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from precog.backbones.gates import decay_of
from precog.backbones.tenns.backbone import TennsBackbone
from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.model import build
from precog.engine import (
    RULES,
    Composing,
    FreeSettings,
    GroundedSettings,
    Sampling,
    Source,
    answer_composed,
    answer_in_context,
    answer_inject,
    decode,
    decode_mixture,
    ground,
    ground_mixture,
    replay,
)
from precog.errors import ForeignStateError, InputError, StateError, UsageError
from precog.state import compose, softmax_weights
from precog.text.tokenizer import load_mistral_tokenizer

TOKENIZER = load_mistral_tokenizer()
EOS, BOUNDARY = 2, 1
QUESTION = [1, 500, 600, 700]
EXHAUSTIVE = 10_000
SHAPES = {
    "diagonal": ("tiny", {}),
    "real-diagonal": ("tiny", {"frequencies": "zero", "dt": "mode"}),
    "outer": ("tiny-outer", {}),
}


def backbone(preset, **changes):
    config = TennsConfig.from_dict({**TennsConfig.preset(preset).to_dict(), **changes})
    return TennsBackbone.wrap(build(config, 1), TOKENIZER, name=preset)


BACKBONES = {name: backbone(preset, **changes) for name, (preset, changes) in SHAPES.items()}
models = pytest.mark.parametrize("model", BACKBONES.values(), ids=BACKBONES)
OUTER = BACKBONES["outer"]


def chunks_of(*lengths, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.integers(3, 32_000, length).tolist() for length in lengths]


def read_in_order(model, chunks):
    return model.prefill([token for chunk in chunks for token in model.reading(chunk)])[0].at_boundary()


@models
@settings(max_examples=8)
@given(lengths=st.lists(st.integers(1, 30), min_size=2, max_size=4), seed=st.integers(0, 2**32 - 1))
def test_concat_is_exact_in_layer_1_for_chunks_read_from_nothing(model, lengths, seed):
    chunks = chunks_of(*lengths, seed=seed)
    scores = np.random.default_rng(seed).normal(size=len(chunks)).tolist()
    made = compose(model.encode_chunks(chunks), scores, model.spec, rule="concat", decay=decay_of(model))
    order = sorted(range(len(chunks)), key=lambda j: scores[j])
    read = read_in_order(model, [chunks[j] for j in order])
    torch.testing.assert_close(made.state.recurrent[0], read.recurrent[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(made.state.decay_time[0], read.decay_time[0], rtol=1e-4, atol=1e-4)
    assert made.state.num_tokens == read.num_tokens
    assert not made.exact


@pytest.mark.parametrize(("preset", "changes"), SHAPES.values(), ids=SHAPES)
def test_concat_is_exact_for_a_model_of_one_layer(preset, changes):
    model = backbone(preset, layers=1, **changes)
    chunks = chunks_of(9, 17, 4)
    made = compose(model.encode_chunks(chunks), [0.1, 0.2, 0.3], model.spec, rule="concat", decay=decay_of(model))
    assert made.exact
    _, logits = model.prefill(QUESTION, made.state)
    _, judge = model.prefill(QUESTION, read_in_order(model, chunks))
    assert (logits - judge).abs().max() <= 1e-4


@models
@settings(max_examples=8)
@given(lengths=st.lists(st.integers(1, 30), min_size=1, max_size=4), seed=st.integers(0, 2**32 - 1))
def test_replay_equals_reading_in_its_order(model, lengths, seed):
    chunks = chunks_of(*lengths, seed=seed)
    scores = np.random.default_rng(seed).normal(size=len(chunks)).tolist()
    states = model.encode_chunks(chunks)
    before = [state.recurrent for state in states]
    made = replay(model, states, chunks, scores)
    longest = max(range(len(chunks)), key=lambda j: (len(chunks[j]), -j))
    rest = sorted((j for j in range(len(chunks)) if j != longest), key=lambda j: scores[j])
    assert made.order == (longest, *rest)
    assert made.tokens_read == sum(len(model.reading(chunks[j])) for j in rest)
    read = read_in_order(model, [chunks[j] for j in made.order])
    assert made.state.num_tokens == read.num_tokens
    _, logits = model.prefill(QUESTION, made.state)
    _, judge = model.prefill(QUESTION, read)
    assert (logits - judge).abs().max() <= 1e-4
    assert all(torch.equal(state.recurrent, reals) for state, reals in zip(states, before, strict=True))


def test_replay_refuses_what_does_not_match():
    chunks = chunks_of(3, 5)
    states = OUTER.encode_chunks(chunks)
    for given_states, given_chunks, scores in (([], [], []), (states, chunks[:1], [1.0, 2.0]), (states, chunks, [1.0])):
        with pytest.raises(StateError, match="a text and a score for every state"):
            replay(OUTER, given_states, given_chunks, scores)
    with pytest.raises(ForeignStateError):
        replay(BACKBONES["diagonal"], states, chunks, [1.0, 2.0])
    live, _ = OUTER.prefill(OUTER.reading(chunks[1]))
    with pytest.raises(StateError, match="live"):
        replay(OUTER, [states[0], live], chunks, [1.0, 2.0])


def mixed_by_a_loop(model, states, weights, answer):
    """log p of each next token after an answer, member by member, each read anew from its own state."""
    evidence, following = [], []
    for state, weight in zip(states, weights, strict=True):
        _, logits = model.prefill_logits([*QUESTION, *answer], state)
        logits = logits[len(QUESTION) - 1 :].double()
        logits[0, [EOS, BOUNDARY]] = -torch.inf
        each = torch.log_softmax(logits, 1)
        evidence.append(math.log(weight) + sum(float(each[t, token]) for t, token in enumerate(answer)))
        following.append(each[len(answer)])
    top = max(evidence)
    shares = [math.exp(value - top) for value in evidence]
    return sum(share / sum(shares) * each.exp() for share, each in zip(shares, following, strict=True)).log()


@models
def test_mix_equals_a_loop_over_members(model):
    states = model.encode_chunks(chunks_of(12, 5, 20))
    weights = softmax_weights([0.2, 0.9, 0.5])
    said = list(decode_mixture(model, states, weights, QUESTION, max_tokens=6, whole_sentences=False))
    assert said
    for t, token in enumerate(said):
        expected = mixed_by_a_loop(model, states, weights, [before.token_id for before in said[:t]])
        assert token.token_id == int(expected.argmax())
        assert token.log_probability == pytest.approx(float(expected[token.token_id]), abs=1e-4)
        assert token.tokens_processed == 3 * (len(QUESTION) + t)


@models
def test_mix_of_one_or_of_equals_is_plain_decoding(model):
    [state] = model.encode_chunks(chunks_of(12))
    plain = [token.token_id for token in decode(model, state, QUESTION, max_tokens=5)]
    for states, weights in (([state], [1.0]), ([state, state], [0.25, 0.75])):
        mixed = [token.token_id for token in decode_mixture(model, states, weights, QUESTION, max_tokens=5)]
        assert mixed == plain
    sampling = Sampling(temperature=1.0, seed=7)
    one, again = (
        list(decode_mixture(model, [state, state], [0.5, 0.5], QUESTION, max_tokens=5, sampling=sampling))
        for _ in range(2)
    )
    assert one == again


def every_span(model, states, weights, sources, owners, contrast=0.0):
    """log p of every span that stands in a source, mixed over members whose source holds it; nothing clever."""
    texts = [source.token_ids.tolist() for source in sources]
    found = {}
    for text in texts:
        for start in range(len(text)):
            for stop in range(start + 1, len(text) + 1):
                found[tuple(text[start:stop])] = 0.0
    for span in found:
        mixtures = []
        read = [model.prefill_logits([*QUESTION, *span], state)[1] for state in states]
        unread = [model.prefill_logits([*QUESTION, *span], model.empty_state())[1]] if contrast else []
        for all_logits in [read, unread * len(states)] if contrast else [read]:
            terms = []
            for logits, weight, owner in zip(all_logits, weights, owners, strict=True):
                mine = texts if owner is None else [texts[owner]]
                total = math.log(weight)
                for t in range(len(span) + 1):
                    prefix, wanted = list(span[:t]), [*span, EOS][t]
                    allowed = {EOS} | {
                        text[i + t] for text in mine for i in range(len(text) - t) if text[i : i + t] == prefix
                    }
                    if wanted not in allowed or (
                        t and not any(text[i : i + t] == prefix for text in mine for i in range(len(text)))
                    ):
                        total = -math.inf
                        break
                    ids = sorted(allowed)
                    row = torch.log_softmax(logits[len(QUESTION) - 1 + t, ids].double(), 0)
                    total += float(row[ids.index(wanted)])
                terms.append(total)
            mixtures.append(float(torch.logsumexp(torch.tensor(terms, dtype=torch.float64), 0)))
        found[span] = mixtures[0] - contrast * mixtures[1] if contrast else mixtures[0]
    return found


@models
@pytest.mark.parametrize("owners", [None, [0, 1, None]])
@pytest.mark.parametrize("contrast", [0.0, 0.3])
def test_grounded_mix_finds_the_best_of_all_spans(model, owners, contrast):
    texts = [[10, 11, 12, 10, 13], [11, 12, 14]]
    states = model.encode_chunks([*texts, [20, 21]][: 2 if owners is None else 3])
    weights = [0.6, 0.4] if owners is None else [0.3, 0.5, 0.2]
    sources = [Source.of(text) for text in texts]
    options = GroundedSettings(beam_width=EXHAUSTIVE, whole_words=False, contrast=contrast)
    found = ground_mixture(model, states, weights, QUESTION, sources, owners=owners, settings=options)
    expected = every_span(model, states, weights, sources, owners or [0, 1], contrast)
    best = max(expected, key=lambda span: expected[span])
    assert found.best.token_ids == best
    for span in found.spans:
        assert span.score == pytest.approx(expected[span.token_ids], abs=1e-4)
        for member, start in span.occurrences:
            assert tuple(texts[member][start : start + span.length]) == span.token_ids
    if contrast:
        assert {span.token_ids for span in found.spans} == set(expected)


@models
@pytest.mark.parametrize("options", [{}, {"contrast": 0.5}, {"length_normalise": True}, {"beam_width": 1}])
def test_grounded_mix_of_one_is_grounded_decoding(model, options):
    [chunk] = chunks_of(25)
    [state] = model.encode_chunks([chunk])
    chosen = GroundedSettings(**options)
    one = ground(model, state, QUESTION, [Source.of(chunk)], chosen)
    mixed = ground_mixture(model, [state], [1.0], QUESTION, [Source.of(chunk)], settings=chosen)
    assert [span.token_ids for span in mixed.spans] == [span.token_ids for span in one.spans]
    assert mixed.best.occurrences == one.best.occurrences
    assert mixed.confidence == pytest.approx(one.confidence, abs=1e-5)
    assert mixed.tokens_processed == one.tokens_processed
    assert mixed.mask_bytes == one.mask_bytes


def test_members_whose_source_lacks_the_answer_cost_no_row():
    texts = [[10, 11, 12], [13, 14, 15]]
    states = OUTER.encode_chunks(texts)
    found = ground_mixture(OUTER, states, [0.5, 0.5], QUESTION, [Source.of(text) for text in texts])
    branches = found.tokens_processed - 2 * len(QUESTION)
    alone = [ground(OUTER, state, QUESTION, [Source.of(text)]) for state, text in zip(states, texts, strict=True)]
    assert branches <= sum(one.tokens_processed - len(QUESTION) for one in alone)


def test_mixtures_refuse_what_is_none():
    chunks = chunks_of(5, 6)
    states, sources = OUTER.encode_chunks(chunks), [Source.of(chunk) for chunk in chunks]
    for weights in ([1.0], [0.5, 0.6], [1.5, -0.5], []):
        with pytest.raises(StateError, match="weight"):
            ground_mixture(OUTER, states, weights, QUESTION, sources)
        with pytest.raises(StateError, match="weight"):
            list(decode_mixture(OUTER, states, weights, QUESTION))
    with pytest.raises(StateError, match="weight"):
        list(decode_mixture(OUTER, [], [], QUESTION))
    with pytest.raises(InputError):
        ground_mixture(OUTER, states, [0.5, 0.5], QUESTION, [])
    for owners in ([0], [0, 2], [0, -1]):
        with pytest.raises(StateError, match="needs a source"):
            ground_mixture(OUTER, states, [0.5, 0.5], QUESTION, sources, owners=owners)
    with pytest.raises(UsageError):
        list(decode_mixture(OUTER, states, [0.5, 0.5], QUESTION, max_tokens=0))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("spoken", [FreeSettings(max_tokens=4), GroundedSettings(beam_width=2)])
def test_every_rule_of_one_member_is_injection(rule, spoken):
    [chunk] = chunks_of(20)
    [state] = OUTER.encode_chunks([chunk])
    plain = answer_inject(OUTER, state, QUESTION, sources=[Source.of(chunk)], settings=spoken)
    made = answer_composed(
        OUTER,
        [state],
        [0.4],
        QUESTION,
        how=Composing(rule),
        chunks=[chunk],
        sources=[Source.of(chunk)],
        settings=spoken,
    )
    assert made.exact
    assert made.weights == (1.0,)
    assert made.answer.token_ids == plain.token_ids
    assert made.answer.tokens_processed == plain.tokens_processed


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("spoken", [FreeSettings(max_tokens=4), GroundedSettings(beam_width=2)])
def test_every_rule_answers_and_says_what_it_is(rule, spoken):
    chunks, scores = chunks_of(20, 12, 15), [0.2, 0.9, 0.5]
    states = OUTER.encode_chunks(chunks)
    sources = [Source.of(chunk) for chunk in chunks]
    [semantic] = OUTER.encode_chunks(chunks_of(8, seed=5))
    for share in (0.0, 0.25):
        made = answer_composed(
            OUTER,
            states,
            scores,
            QUESTION,
            how=Composing(rule, baseline_share=share),
            chunks=chunks,
            semantic_state=semantic,
            sources=sources,
            settings=spoken,
        )
        assert made.exact == (rule in ("mix", "replay") and share == 0)
        assert made.baseline == share
        assert sum(made.weights) + made.baseline == pytest.approx(1)
        assert made.answer.token_ids
    if rule == "replay":
        read = sum(len(OUTER.reading(chunks[j])) for j in (1, 2))
        assert made.answer.tokens_processed > read + len(QUESTION)


def test_replay_answers_as_reading_in_its_order_does():
    chunks, scores = chunks_of(20, 12, 15), [0.2, 0.9, 0.5]
    sources = [Source.of(chunk) for chunk in chunks]
    made = answer_composed(
        OUTER,
        OUTER.encode_chunks(chunks),
        scores,
        QUESTION,
        how=Composing("replay"),
        chunks=chunks,
        sources=sources,
    )
    read = answer_in_context(OUTER, [chunks[j] for j in (0, 2, 1)], QUESTION, sources=sources)
    assert made.answer.token_ids == read.token_ids
    assert made.answer.log_probability == pytest.approx(read.log_probability, abs=1e-4)
    assert read.tokens_processed - made.answer.tokens_processed == len(OUTER.reading(chunks[0]))


@pytest.mark.parametrize(
    "values",
    [{"rule": "soup"}, {"renorm": "row"}, {"rule": "mix", "renorm": "layer"}, {"baseline_share": 2.0}],
)
def test_composing_refuses_what_it_cannot_do(values):
    with pytest.raises(UsageError):
        Composing(**values)


@pytest.mark.parametrize("rule", RULES)
def test_composing_nothing_is_refused(rule):
    with pytest.raises(StateError):
        answer_composed(OUTER, [], [], QUESTION, how=Composing(rule), settings=FreeSettings())


def over_a_semantic_state(spoken, baseline, model):
    """Two members over a semantic state; the rows of their mixture with weights and owners, and their sources."""
    texts = [[10, 11, 12, 10, 13], [11, 12, 14]]
    [first, other, semantic] = model.encode_chunks([*texts, [20, 21]])
    sources = [Source.of(text) for text in texts]
    made = answer_composed(
        model,
        [first, other],
        [0.2, 0.3],
        QUESTION,
        how=Composing("mix", 0.1, baseline_share=baseline),
        semantic_state=semantic,
        sources=sources,
        settings=spoken,
    )
    one, two = ((1 - baseline) * weight for weight in softmax_weights([0.2, 0.3], 0.1))
    rows = [(first, one, 0), (other, two, 1), (semantic, baseline, None)]
    return made, [row for row in rows if row[1]], sources


@models
@pytest.mark.parametrize("baseline", [0.0, 0.3])
def test_a_mixture_over_a_semantic_state_equals_a_loop_over_all_of_them(model, baseline):
    made, rows, _ = over_a_semantic_state(FreeSettings(max_tokens=5, whole_sentences=False), baseline, model)
    states, weights, _ = zip(*rows, strict=True)
    said, log_probability = [], 0.0
    while len(said) < 5:
        following = mixed_by_a_loop(model, states, weights, said)
        said.append(int(following.argmax()))
        log_probability += float(following[said[-1]])
    assert made.answer.token_ids == tuple(said)
    assert made.answer.log_probability == pytest.approx(log_probability, abs=1e-3)
    assert made.answer.tokens_processed == len(rows) * (len(QUESTION) + 5)
    assert made.weights == pytest.approx([(1 - baseline) * one for one in softmax_weights([0.2, 0.3], 0.1)])
    assert (made.baseline, made.exact) == (baseline, baseline == 0)


@models
@pytest.mark.parametrize("baseline", [0.0, 0.3])
def test_a_semantic_state_says_what_stands_in_any_source(model, baseline):
    spoken = GroundedSettings(beam_width=EXHAUSTIVE, whole_words=False)
    made, rows, sources = over_a_semantic_state(spoken, baseline, model)
    states, weights, owners = zip(*rows, strict=True)
    expected = every_span(model, states, weights, sources, owners)
    found = made.answer.grounded
    assert found.best.token_ids == max(expected, key=lambda span: expected[span])
    for span in found.spans:
        assert span.score == pytest.approx(expected[span.token_ids], abs=1e-4)
    assert 0 < found.confidence < 1
