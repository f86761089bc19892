"""Recorded passes are passes: what they compute, whose it is, and which weights they use."""

import threading
from contextlib import contextmanager
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch

from precog.backbones.tenns.backbone import TennsBackbone
from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.model import build
from precog.backbones.tenns.recorded import MOST_ROWS, MOST_TOKENS, WARM_UP, RecordedPasses, rounded
from precog.backbones.tenns.step import model_step
from precog.text.tokenizer import load_mistral_tokenizer

PRESETS = ("tiny", "tiny-outer", "base")
on_gpu = pytest.mark.gpu


def test_shapes_are_rounded_up():
    assert [rounded(rows) for rows in (1, 2, 3, 4, 5, 16, 17, 255, 256)] == [1, 2, 4, 4, 8, 16, 32, 256, 256]
    assert [rounded(rows, 4) for rows in (1, 2, 4, 5, 16, 17, 64)] == [1, 4, 4, 16, 16, 64, 64]
    assert rounded(MOST_ROWS) == MOST_ROWS
    assert rounded(MOST_TOKENS) == MOST_TOKENS


def test_on_a_cpu_nothing_is_recorded():
    backbone = TennsBackbone.wrap(build(TennsConfig.preset("tiny"), 0), load_mistral_tokenizer())
    assert backbone._recorded is None


class Device:
    """What torch calls a GPU with, told and not done: nothing is computed when a recording is replayed."""

    def __init__(self, monkeypatch):
        self.events, self.streams, self.current, self.guarded = [], [], "own", []
        self.breaks, graph = False, torch.cuda.CUDAGraph
        for name, stands_for in {
            "Event": lambda: SimpleNamespace(wait=lambda: self.events.append("wait"), record=self._recorded()),
            "Stream": lambda: "recording",
            "CUDAGraph": lambda: self._graph_of(graph),
            "graph": self._graph,
            "graph_pool_handle": object,
            "synchronize": lambda: None,
            "current_stream": lambda: self.current,
            "set_stream": lambda stream: setattr(self, "current", stream),
            "device_of": self._device_of,
        }.items():
            monkeypatch.setattr(torch.cuda, name, stands_for)

    def _recorded(self):
        self.streams.append("event")
        return lambda: self.events.append("record")

    def _graph_of(self, kind):
        made = Mock(spec=kind)
        made.replay = lambda: self.events.append("replay")
        return made

    @contextmanager
    def _graph(self, graph, pool, stream, capture_error_mode):
        self.current = stream
        if self.breaks:
            raise RuntimeError("the recording broke off, and so did its end")
        yield
        self.current = "own"

    @contextmanager
    def _device_of(self, tensor):
        self.guarded.append(tensor)
        yield


def plain(rows):
    """A network of the CPU, and what a step of it takes."""
    model = build(TennsConfig.preset("tiny-outer"), 0).requires_grad_(False).eval()
    config = model.config
    state = torch.zeros(config.layers, rows, config.state_reals)
    return (
        model,
        torch.ones(rows, dtype=torch.int64),
        state,
        state.new_zeros(config.layers, rows, config.kernel - 1, config.inner),
    )


def test_whatever_recording_comes_next_waits_for_the_memory_that_all_share(monkeypatch):
    device = Device(monkeypatch)
    model, tokens, state, tail = plain(2)
    passes = RecordedPasses(model, torch.float32)
    for _ in range(WARM_UP + 1):
        passes.step(tokens, state, tail)
        passes.step(tokens[:1], state[:, :1], tail[:, :1])
        passes.read(tokens[:, None], [1, 1], state, None)
    assert len(passes._recordings) == 3
    assert device.streams == ["event"]
    assert device.events == ["wait", "replay", "record"] * 3
    assert all(one.device == state.device for one in device.guarded)
    assert len(device.guarded) == 3 * (WARM_UP + 1)  # the thread may stand at another device


def test_a_recording_that_breaks_off_leaves_its_thread_on_the_stream_it_was_on(monkeypatch):
    device = Device(monkeypatch)
    model, *asked = plain(1)
    passes = RecordedPasses(model, torch.float32)
    device.breaks = True
    assert [passes.step(*asked) for _ in range(WARM_UP + 2)] == [None] * (WARM_UP + 2)
    assert device.current == "own"


def network(preset, dtype=torch.float32, seed=0):
    return build(TennsConfig.preset(preset), seed).requires_grad_(False).eval().to("cuda", dtype)


def given(model, rows, seed=0, dtype=torch.float32):
    config, made = model.config, torch.Generator().manual_seed(seed)
    ids = torch.randint(3, config.vocabulary, (rows,), generator=made)
    ids[::3] = 1  # boundaries
    state = torch.randn(config.layers, rows, config.state_reals, generator=made)
    tail = torch.randn(config.layers, rows, config.kernel - 1, config.inner, generator=made)
    return ids.cuda(), state.cuda(), tail.cuda().to(dtype)


def stepping(model, dtype=torch.float32):
    """Steps that are recorded as soon as they may be."""
    passes = RecordedPasses(model, dtype)

    def step(*asked):
        found = passes.step(*asked)
        return model_step(model, *asked, dtype) if found is None else found

    return step


def same(found, wanted, bound=2e-5):
    for one, other in zip(found, wanted, strict=True):
        assert one.shape == other.shape
        assert one.dtype == other.dtype
        scale = other.float().abs().max().clamp(min=1)
        assert (one.float() - other.float()).abs().max() <= bound * scale


@on_gpu
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("rows", [1, 3, 4, 5, 16, 64])
def test_a_recorded_step_is_a_step(preset, rows):
    model = network(preset)
    passes = RecordedPasses(model, torch.float32)
    for seed in range(6):
        asked = given(model, rows, seed)
        found = passes.step(*asked)
        assert (found is None) == (seed < WARM_UP)
        if found is not None:
            same(found, model_step(model, *asked, torch.float32))


def segments(model, lengths, seed, at_boundary):
    ids, state, tail = given(model, len(lengths), seed)
    made = torch.Generator().manual_seed(seed)
    tokens = torch.randint(3, model.config.vocabulary, (len(lengths), max(lengths)), generator=made)
    tokens[:, 0] = ids.cpu() if not at_boundary else 1
    return tokens.cuda(), lengths, state, None if at_boundary else tail


def plainly(model, tokens, lengths, state, tail):
    counts = torch.tensor(lengths, device="cuda")
    read = model(tokens, state=state, tail=tail, lengths=counts, dtype=torch.float32)
    return read.hidden[torch.arange(len(lengths), device="cuda"), counts - 1], read.state, read.tail, read.decay_time


@on_gpu
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("at_boundary", [True, False])
@pytest.mark.parametrize("lengths", [[1], [5], [23], [100], [7, 31, 2], [16] * 16])
def test_a_recorded_reading_is_a_reading(preset, lengths, at_boundary):
    model = network(preset)
    passes = RecordedPasses(model, torch.float32)
    with torch.no_grad():
        for seed in range(5):
            asked = segments(model, lengths, seed, at_boundary)
            found = passes.read(*asked)
            assert (found is None) == (seed < WARM_UP)
            if found is not None:
                same(found, plainly(model, *asked), 1e-4)


@on_gpu
def test_readings_of_one_kind_share_a_recording_whatever_their_lengths():
    model = network("base")
    passes = RecordedPasses(model, torch.float32)
    with torch.no_grad():
        for seed, lengths in enumerate(([20], [31], [17], [32], [25], [18])):
            asked = segments(model, lengths, seed, True)
            found = passes.read(*asked)
            if found is not None:
                same(found, plainly(model, *asked), 1e-4)
    assert len(passes._recordings) == 1


@on_gpu
def test_long_readings_are_not_recorded():
    model = network("tiny-outer")
    passes = RecordedPasses(model, torch.float32)
    for seed in range(WARM_UP + 2):
        assert passes.read(*segments(model, [MOST_TOKENS + 1], seed, True)) is None
    assert not passes._recordings


@on_gpu
def test_recordings_that_share_memory_do_not_disturb_each_other():
    model = network("base")
    passes = RecordedPasses(model, torch.float32)
    with torch.no_grad():
        for seed in range(12):
            for lengths in ([9], [60], [14] * 7):
                asked = segments(model, lengths, seed, seed % 2 == 0)
                found = passes.read(*asked)
                if found is not None:
                    same(found, plainly(model, *asked), 1e-4)
            for rows in (1, 2, 16):
                asked = given(model, rows, seed)
                found = passes.step(*asked)
                if found is not None:
                    same(found, model_step(model, *asked, torch.float32))
    assert len(passes._recordings) == 6


@on_gpu
def test_a_chain_of_recorded_steps_in_bf16():
    model = network("base", torch.bfloat16)
    step = stepping(model, torch.bfloat16)
    _, state, tail = given(model, 4, dtype=torch.bfloat16)
    plain = recorded = (None, state, tail)
    for seed in range(8):
        ids = given(model, 4, seed)[0]
        plain = model_step(model, ids, plain[1], plain[2], torch.bfloat16)
        recorded = step(ids, recorded[1], recorded[2])
        same(recorded, plain, 2e-2)


@on_gpu
def test_results_are_tensors_of_their_own():
    model = network("tiny-outer")
    step = stepping(model)
    for _ in range(3):
        step(*given(model, 2))
    first = step(*given(model, 2, 7))
    kept = [tensor.clone() for tensor in first]
    step(*given(model, 2, 8))
    assert all(one.equal(other) for one, other in zip(first, kept, strict=True))


@on_gpu
def test_rows_that_nobody_asked_for_reach_nobody():
    model = network("tiny-outer")
    step = stepping(model)
    ids, state, tail = given(model, 4)
    for _ in range(3):
        step(ids, state, tail)
    clean = step(ids[:3], state[:, :3], tail[:, :3])
    state = state.clone()
    state[:, 3] = torch.nan
    assert step(ids, state, tail)[0][3].isnan().all()
    after = step(ids[:3], state[:, :3], tail[:, :3])
    assert all(one.equal(other) for one, other in zip(clean, after, strict=True))


@on_gpu
def test_weights_that_change_in_place_or_move_are_the_ones_used():
    model = network("tiny-outer")
    step = stepping(model)
    asked = given(model, 2)
    for _ in range(4):
        before = step(*asked)
    model.embedding.weight.mul_(1.5)
    same(step(*asked), model_step(model, *asked, torch.float32))
    assert not step(*asked)[0].equal(before[0])
    for parameter in model.parameters():
        parameter.data = parameter.data.clone() * 1.1
    for _ in range(4):
        same(step(*asked), model_step(model, *asked, torch.float32))


@on_gpu
def test_threads_on_streams_of_their_own_take_turns():
    model = network("base")
    step = stepping(model)
    for _ in range(3):
        step(*given(model, 2))
    faults = []

    def work(seed):
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                for turn in range(20):
                    asked = given(model, 2, 100 * seed + turn)
                    same(step(*asked), model_step(model, *asked, torch.float32))
                torch.cuda.current_stream().synchronize()
        except Exception as error:
            faults.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults


@on_gpu
def test_where_nothing_can_be_recorded_passes_run_plainly(monkeypatch):
    def refuse():
        raise RuntimeError("no graphs here")

    backbone = TennsBackbone.wrap(build(TennsConfig.preset("tiny-outer"), 1), load_mistral_tokenizer(), device="cuda")
    plain = backbone.prefill([1, 5, 6])[1]
    monkeypatch.setattr(torch.cuda, "CUDAGraph", refuse)
    for _ in range(WARM_UP + 3):
        found = backbone.prefill([1, 5, 6])[1]
        torch.testing.assert_close(found, plain)
    assert not backbone._recorded._recordings


@on_gpu
def test_the_backbone_reads_and_steps_alike():
    model = build(TennsConfig.preset("base"), 1)
    backbone = TennsBackbone.wrap(model, load_mistral_tokenizer(), device="cuda")
    ids = [1, *range(100, 112)]
    state, logits = backbone.prefill(ids)
    batch, hidden = backbone.read(backbone.open([backbone.empty_state()]), torch.tensor([ids[:4]]))
    for token in ids[4:]:
        batch, hidden = backbone.step(batch, [token])
    assert backbone._recorded._recordings
    torch.testing.assert_close(backbone.logits(hidden[0]), logits, atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(batch.row(0).recurrent, state.recurrent, atol=1e-3, rtol=1e-3)
