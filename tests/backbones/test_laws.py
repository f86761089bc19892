"""Laws 1, 5 and 6 for TENNs-LLM: reading can be split anywhere, rows are independent, a query changes nothing."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from precog.backbones.tenns.backbone import TennsBackbone
from precog.backbones.tenns.checkpoint import save_model
from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.model import build
from precog.errors import BoundaryError, ForeignStateError, InputError, StateError
from precog.state import codec_named
from precog.text.tokenizer import load_mistral_tokenizer

TOKENIZER = load_mistral_tokenizer()
PRESETS = ("tiny", "tiny-outer")
BOUND = 1e-4
ids = st.integers(3, 31_999)


def backbone(preset, seed=0, **changes):
    config = TennsConfig.from_dict({**TennsConfig.preset(preset).to_dict(), **changes})
    return TennsBackbone.wrap(build(config, seed), TOKENIZER, name=preset)


BACKBONES = {preset: backbone(preset) for preset in PRESETS}


def tokens(count, seed=0):
    return np.random.default_rng(seed).integers(3, 32_000, count).tolist()


def close(actual, expected):
    assert (actual - expected).abs().max() <= BOUND
    assert actual.argmax(-1).equal(expected.argmax(-1))


@pytest.mark.parametrize("preset", PRESETS)
@settings(deadline=None, max_examples=20)
@given(body=st.lists(ids, min_size=1, max_size=40), cut=st.integers(1, 40), singly=st.booleans())
def test_reading_splits_at_any_cut_of_a_live_state(preset, body, cut, singly):
    model = BACKBONES[preset]
    text = [1, *body]
    cut = min(cut, len(text) - 1)
    whole, logits = model.prefill_logits(text)
    state, first = model.prefill(text[:cut])
    close(first, logits[cut - 1])
    if singly:
        batch = model.open([state])
        for position, token in enumerate(text[cut:], cut):
            batch, hidden = model.step(batch, [token])
            close(model.logits(hidden[0]), logits[position])
        state = batch.row(0)
    else:
        state, rest = model.prefill_logits(text[cut:], state)
        close(rest, logits[cut:])
    assert state.num_tokens == whole.num_tokens == len(text)
    torch.testing.assert_close(state.recurrent, whole.recurrent, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(state.tail, whole.tail, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(state.decay_time, whole.decay_time, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("cut", [1, 2, 3, 4, 5])
def test_cuts_inside_the_convolution_window_need_the_tail(preset, cut):
    model = BACKBONES[preset]
    text = [1, *tokens(12)]
    _, logits = model.prefill_logits(text)
    state, _ = model.prefill(text[:cut])
    assert state.is_live
    assert state.tail[:, -1].abs().max() > 0
    assert (state.tail[:, : max(0, 3 - cut)] == 0).all()
    close(model.prefill_logits(text[cut:], state)[1], logits[cut:])


@pytest.mark.parametrize("preset", PRESETS)
@settings(deadline=None, max_examples=15)
@given(chunk=st.lists(ids, min_size=1, max_size=90), question=st.lists(ids, min_size=0, max_size=40))
def test_a_boundary_state_alone_is_the_whole_chunk(preset, chunk, question):
    model = BACKBONES[preset]
    segment = [1, *question]
    _, one_pass = model.prefill_logits(model.reading(chunk) + segment)
    [state] = model.encode_chunks([chunk])
    assert not state.is_live
    codec = codec_named("fp32")
    stored = codec.decode(codec.encode(state, model.spec), model.spec, num_tokens=state.num_tokens)
    close(model.prefill_logits(segment, stored)[1], one_pass[-len(segment) :])


@pytest.mark.parametrize("preset", PRESETS)
def test_an_interior_state_continued_by_a_boundary_is_exact_without_its_tail(preset):
    model = BACKBONES[preset]
    head, question = [1, *tokens(9)], [1, *tokens(5, seed=1)]
    _, one_pass = model.prefill_logits(head + question)
    live, _ = model.prefill(head)
    close(model.prefill_logits(question, live)[1], one_pass[len(head) :])
    close(model.prefill_logits(question, live.at_boundary())[1], one_pass[len(head) :])


@pytest.mark.parametrize("preset", PRESETS)
def test_several_segments_in_one_pass_equal_segment_after_segment(preset):
    model = BACKBONES[preset]
    segments = [[1, *tokens(7, seed=i)] for i in range(4)]
    _, one_pass = model.prefill_logits([token for segment in segments for token in segment])
    state = None
    for segment in segments:
        live, logits = model.prefill(segment, state)
        state = live.at_boundary()
    close(logits, one_pass[-1])


@pytest.mark.parametrize("preset", PRESETS)
def test_a_boundary_state_is_continued_by_a_new_segment_only(preset):
    model = BACKBONES[preset]
    [state] = model.encode_chunks([tokens(9)])
    for start in (state, None, model.empty_state()):
        with pytest.raises(BoundaryError, match="new segment"):
            model.prefill([5, 6], start)
    with pytest.raises(BoundaryError):
        model.step(model.open([state]), [5])
    batch, _ = model.step(model.open([state]), [1])
    model.step(batch, [5])


@pytest.mark.parametrize("preset", PRESETS)
def test_step_opens_a_segment_with_an_empty_window(preset):
    model = BACKBONES[preset]
    text = [1, *tokens(5), 1, *tokens(6, seed=3)]
    _, logits = model.prefill_logits(text)
    batch = model.open([model.empty_state()])
    for position, token in enumerate(text):
        batch, hidden = model.step(batch, [token])
        close(model.logits(hidden[0]), logits[position])


@pytest.mark.parametrize("preset", PRESETS)
@settings(deadline=None, max_examples=15)
@given(lengths=st.lists(st.integers(1, 70), min_size=1, max_size=6), seed=st.integers(0, 99))
def test_chunks_encoded_together_equal_chunks_encoded_alone(preset, lengths, seed):
    model = BACKBONES[preset]
    chunks = [tokens(length, seed + i) for i, length in enumerate(lengths)]
    together = model.encode_chunks(chunks)
    for chunk, state in zip(chunks, together, strict=True):
        [alone] = model.encode_chunks([chunk])
        read, _ = model.prefill(model.reading(chunk))
        for other in (alone, read):
            torch.testing.assert_close(state.recurrent, other.recurrent, rtol=1e-5, atol=1e-5)
            torch.testing.assert_close(state.decay_time, other.decay_time, rtol=1e-5, atol=1e-5)
        assert state.num_tokens == alone.num_tokens == len(chunk) + 1


@pytest.mark.parametrize("preset", PRESETS)
def test_branches_in_one_batch_equal_branches_alone(preset):
    model = BACKBONES[preset]
    [first, second] = model.encode_chunks([tokens(20), tokens(33, seed=1)])
    question = torch.tensor([[1, *tokens(6, seed=2)]] * 2)
    batch, hidden = model.read(model.open([first, second]), question)
    batch, hidden = model.step(batch.select([1, 0, 1]), [7, 8, 9])
    for row, (state, token) in enumerate([(second, 7), (first, 8), (second, 9)]):
        _, logits = model.prefill([*question[0].tolist(), token], state)
        close(model.logits(hidden)[row], logits)
        wanted = torch.tensor([5, 900, 31_999])
        torch.testing.assert_close(model.scores(hidden, wanted)[row], logits[wanted], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("preset", PRESETS)
def test_a_hundred_injections_give_a_hundred_equal_answers(preset):
    model = BACKBONES[preset]
    [mine, yours] = model.encode_chunks([tokens(20), tokens(20, seed=1)])
    before = mine.recurrent
    question = [1, *tokens(4, seed=2)]
    expected = [model.prefill(question, state)[1] for state in (mine, yours)]
    assert not expected[0].equal(expected[1])
    for _ in range(50):
        for state, logits in zip((mine, yours), expected, strict=True):
            assert model.prefill(question, state)[1].equal(logits)
    assert mine.recurrent.equal(before)


def test_a_reading_longer_than_one_pass_is_cut_without_a_trace(monkeypatch):
    model = BACKBONES["tiny-outer"]
    text = [1, *tokens(50)]
    whole, logits = model.prefill_logits(text)
    [state] = model.encode_chunks([text[1:]])
    monkeypatch.setattr("precog.backbones.tenns.backbone.MAX_PASS_TOKENS", 16)
    cut, pieces = model.prefill_logits(text)
    close(pieces, logits)
    close(model.prefill(text)[1], logits[-1])
    [settled] = model.encode_chunks([text[1:]])
    assert not settled.is_live
    for other in (cut, settled, state):
        torch.testing.assert_close(other.recurrent, whole.recurrent, rtol=1e-4, atol=1e-4)
    assert model.encode_chunks([]) == []


def test_states_of_others_and_tokens_that_do_not_exist_are_refused():
    model, other = BACKBONES["tiny"], backbone("tiny", seed=1)
    [state] = other.encode_chunks([tokens(5)])
    with pytest.raises(ForeignStateError, match="precog reindex") as error:
        model.prefill([1, 5], state)
    assert error.value.given == f"fingerprint {other.fingerprint[:12]}"
    assert error.value.expected == f"{model.card.name} (fingerprint {model.fingerprint[:12]})"
    with pytest.raises(ForeignStateError):
        model.step(other.open([state]), [1])
    with pytest.raises(InputError, match="nothing to read"):
        model.prefill([])
    for bad in ([1, -1], [1, 32_000]):
        with pytest.raises(InputError, match="does not exist"):
            model.prefill(bad)
    for bad in ([], [5, 1, 6], [5, 2]):
        with pytest.raises(InputError):
            model.encode_chunks([bad])
    with pytest.raises(StateError, match="one row of tokens per state"):
        model.step(model.open([model.empty_state()]), [1, 1])


@pytest.mark.parametrize("preset", PRESETS)
def test_a_window_that_crosses_boundaries_is_carried_in_every_state(preset):
    model = backbone(preset, conv_boundary="carried")
    chunk, question = tokens(11), [1, *tokens(6, seed=1)]
    _, one_pass = model.prefill_logits(model.reading(chunk) + question)
    [state] = model.encode_chunks([chunk])
    assert state.is_live
    codec = codec_named("fp32")
    stored = codec.decode(codec.encode(state, model.spec), model.spec, num_tokens=state.num_tokens)
    close(model.prefill_logits(question, stored)[1], one_pass[-len(question) :])
    batch = model.open([stored])
    for position, token in enumerate(question):
        batch, hidden = model.step(batch, [token])
        close(model.logits(hidden[0]), one_pass[len(chunk) + 1 + position])
    with pytest.raises(StateError, match="lacks the tail"):
        model.prefill(question, state.at_boundary())


@pytest.mark.parametrize("changes", [{"readout": "question"}, {"frequencies": "learned"}, {"selective": False}])
def test_every_switch_of_the_diagonal_mixer_steps_as_it_scans(changes):
    model = backbone("tiny", **changes)
    text = [1, *tokens(10)]
    _, logits = model.prefill_logits(text)
    batch = model.open([model.empty_state()])
    for position, token in enumerate(text):
        batch, hidden = model.step(batch, [token])
        close(model.logits(hidden[0]), logits[position])


READ_THE_REST = """
import sys, numpy as np, torch
from pathlib import Path
from precog.backbones.registry import load_backbone
from precog.state import codec_named
torch.set_num_threads(1)
folder = Path(sys.argv[1])
model = load_backbone(folder / "model")
state = codec_named("fp32").decode((folder / "state").read_bytes(), model.spec, num_tokens=21)
_, logits = model.prefill_logits([1, *range(100, 110)], state)
np.save(folder / "logits.npy", logits.numpy())
"""


@pytest.mark.parametrize("preset", PRESETS)
def test_another_process_reads_the_rest(preset, tmp_path):
    model = BACKBONES[preset]
    save_model(tmp_path / "model", model.model, name=preset, tokenizer_sha256=TOKENIZER.sha256)
    chunk, question = tokens(20), [1, *range(100, 110)]
    [state] = model.encode_chunks([chunk])
    (tmp_path / "state").write_bytes(codec_named("fp32").encode(state, model.spec))
    subprocess.run([sys.executable, "-c", READ_THE_REST, str(tmp_path)], check=True, timeout=120)
    _, one_pass = model.prefill_logits(model.reading(chunk) + question)
    close(torch.from_numpy(np.load(tmp_path / "logits.npy")), one_pass[-len(question) :])


def test_bfloat16_and_float64_read_too_and_say_so():
    network = build(TennsConfig.preset("tiny-outer"))
    wide = TennsBackbone.wrap(network, TOKENIZER, dtype=torch.float64)
    narrow = TennsBackbone.wrap(build(TennsConfig.preset("tiny-outer")), TOKENIZER, dtype=torch.bfloat16)
    exact = BACKBONES["tiny-outer"]
    assert wide.fingerprint == narrow.fingerprint == exact.fingerprint
    for model, name, bound in ((wide, "float64", 1e-4), (narrow, "bfloat16", 0.2)):
        state, logits = model.prefill([1, *tokens(20)])
        assert state.encoding_dtype == name
        assert state.recurrent.dtype == torch.float32
        stepped = model.logits(model.step(model.open([state]), [77])[1][0])
        assert (logits - exact.prefill([1, *tokens(20)])[1]).abs().max() < bound
        assert (stepped - exact.prefill([1, *tokens(20), 77])[1]).abs().max() < bound
