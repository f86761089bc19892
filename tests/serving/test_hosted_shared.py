"""Models of other libraries are shared alike: states without a tail, and states that grow."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from precog.backbones.hosted.backbone import fitted
from precog.backbones.registry import load_backbone
from precog.backbones.tiny import make_tiny
from precog.engine import decode
from precog.engine.conform import JudgedBackbone
from precog.errors import ForeignStateError, StateError
from precog.records import ModelChoice
from precog.serving import Scheduler


@pytest.mark.parametrize("name", ["mamba2", "zamba2"])
def test_answers_of_many_are_those_alone(name, tmp_path):
    model = load_backbone(make_tiny(name, tmp_path / name), device="cpu")
    texts = ["Who built it", "When was the lamp of the lighthouse changed", "The keeper", "Who built it", "In winter"]
    questions = [[*model.opening, *model.tokenizer.encode(text)] for text in texts]

    def said(backbone, question):
        return [token.token_id for token in decode(backbone, None, question, max_tokens=6, whole_sentences=False)]

    alone = [said(model, question) for question in questions]
    chunks = [model.tokenizer.encode(text) for text in texts]
    with Scheduler(model) as scheduler, ThreadPoolExecutor(len(questions)) as pool:
        shares = [scheduler.share(f"user {number % 2}", threading.Event()) for number in range(len(questions))]
        assert isinstance(shares[0], JudgedBackbone)
        assert list(pool.map(said, shares, questions)) == alone
        states = shares[0].encode_chunks(chunks)
        assert shares[0].judge(questions[0]).shape[0] == len(questions[0])
    for state, its in zip(states, model.encode_chunks(chunks), strict=True):
        assert state.num_tokens == its.num_tokens
        assert (state.recurrent - its.recurrent).abs().max() < 1e-4


def test_states_that_grow_have_the_room_that_each_asker_wants(tmp_path):
    model = load_backbone(make_tiny("lfm2", tmp_path / "lfm2"), device="cpu")
    assert model.spec.grows
    chunks = [model.tokenizer.encode("The keeper lit the lamp of the lighthouse at dusk.")[:8], [65] * 20, [66] * 8]
    rooms = [32, 64, 400, 32]
    with Scheduler(model) as scheduler, ThreadPoolExecutor(len(rooms)) as pool:
        shares = [fitted(scheduler.share(f"user {i}", threading.Event()), room) for i, room in enumerate(rooms)]
        assert [share.spec for share in shares] == [model.with_capacity(room).spec for room in rooms]
        assert fitted(shares[0], 32) is shares[0]
        assert {share.fingerprint for share in shares} == {model.fingerprint}
        made = list(pool.map(lambda share: share.encode_chunks(chunks), shares))
        [long] = shares[2].encode_chunks([[65] * 390])
        with pytest.raises(StateError, match="longer than stored states"):
            shares[0].encode_chunks([[65] * 390])
        assert said(shares[0], long) == said(model, long)  # beyond the room of its own stored states, it still answers
    for room, share, states in zip(rooms, shares, made, strict=True):
        alone = model.with_capacity(room).encode_chunks(chunks)
        for state, its in zip(states, alone, strict=True):
            state.check(share.spec)
            assert state.recurrent.shape == (share.spec.layers, share.spec.reals_per_layer)
            assert (state.recurrent - its.recurrent).abs().max() < 1e-4


@pytest.mark.parametrize("mode", ["twice", "twice-reversed"])
@pytest.mark.parametrize("name", ["tenns", "mamba2", "lfm2"])
def test_one_model_reads_chunks_once_and_twice(name, mode, tmp_path, loaded):
    texts = ["The keeper lit the lamp. It was dusk.", "Rain fell. Nobody came.", "A ship went by."]
    once = loaded.prepare() if name == "tenns" else load_backbone(make_tiny(name, tmp_path / name), device="cpu")
    if name == "tenns":
        twice = type(loaded)(loaded.model, loaded.card, loaded.tokenizer, encode_mode=mode).prepare()
    else:
        twice = load_backbone(tmp_path / name, device="cpu", encode_mode=mode)
    chunks = [once.tokenizer.encode(text) for text in texts]
    with Scheduler(once) as scheduler, ThreadPoolExecutor(4) as pool:
        shares = [ModelChoice(loaded=scheduler.share(f"user {i}", threading.Event())) for i in range(4)]
        used = [share.load(way) for share, way in zip(shares, ["once", mode, mode, "once"], strict=True)]
        assert [share.spec for share in used] == [once.spec, twice.spec, twice.spec, once.spec]
        made = list(pool.map(lambda share: share.encode_chunks(chunks), used))
        answers = list(pool.map(lambda share, states: said(share, states[0]), used, made))
        assert answers == [said(model, model.encode_chunks(chunks)[0]) for model in (once, twice, twice, once)]
        state, scores = used[1].prefill([*once.opening, 70, 71], made[1][0])
        with pytest.raises(ForeignStateError):
            used[1].prefill([*once.opening, 70], made[0][0])
        with pytest.raises(ForeignStateError):
            used[1].read(used[0].open([made[0][0]]), torch.tensor([[*once.opening, 70]]))
    its, wanted = twice.prefill([*once.opening, 70, 71], twice.encode_chunks(chunks)[0])
    assert (state.fingerprint, state.num_tokens) == (its.fingerprint, its.num_tokens)
    assert (scores - wanted).abs().max() < 1e-4
    for state, its in zip(made[2], twice.encode_chunks(chunks), strict=True):
        assert (state.fingerprint, state.num_tokens) == (twice.fingerprint, its.num_tokens)
        assert (state.recurrent - its.recurrent).abs().max() < 1e-4


def said(backbone, state):
    question = [*backbone.opening, *backbone.tokenizer.encode("Who built it")]
    return [token.token_id for token in decode(backbone, state, question, max_tokens=4, whole_sentences=False)]
