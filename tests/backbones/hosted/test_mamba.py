"""Mamba and Falcon-Mamba: reading on from any state equals the library's own pass over the whole text."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from runtime_laws import goes_through_a_store
from tiny_folders import VOCABULARY, tiny_mamba

from precog.backbones.hosted.runtime import Runtime
from precog.backbones.huggingface.families import runtime_of
from precog.backbones.huggingface.mamba import MambaRuntime

BOUND = 1e-4
LENGTH = 40
VARIANTS = {
    "mamba": {},
    "mamba, other parts": {"use_bias": True, "use_conv_bias": False, "tie_word_embeddings": False, "conv_kernel": 3},
    "mamba, no window": {"conv_kernel": 1, "residual_in_fp32": False},
    "falcon_mamba": {"falcon": True},
}
RUNTIMES = {name: MambaRuntime(model, model.config) for name, kw in VARIANTS.items() for model in [tiny_mamba(**kw)]}


@pytest.fixture(params=VARIANTS)
def runtime(request) -> MambaRuntime:
    return RUNTIMES[request.param]


def text(length: int = LENGTH, seed: int = 0) -> torch.Tensor:
    return torch.randint(VOCABULARY, (length,), generator=torch.Generator().manual_seed(seed))


def empty(runtime: Runtime, rows: int = 1) -> torch.Tensor:
    return runtime.empty()[:, None].repeat(1, rows, 1)


def read(runtime: Runtime, ids: torch.Tensor, rows: torch.Tensor, done: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    tokens = ids[None] if ids.dim() == 1 else ids
    return runtime.forward(tokens, rows, (done,) * len(tokens), every=True)


def test_it_is_a_runtime_and_says_how_its_rows_lie(runtime):
    assert isinstance(runtime, Runtime)
    config = runtime._model.config
    reals = config.intermediate_size * config.state_size
    assert runtime.shape.window == (reals, reals + (config.conv_kernel - 1) * config.intermediate_size)
    assert runtime.empty().shape == (3, runtime.shape.reals) == (3, runtime.shape.window[1])
    assert runtime_of(runtime._model, config).shape == runtime.shape


@pytest.mark.parametrize("cut", [1, 2, 3, 4, 5, 17, LENGTH - 1])
def test_reading_on_equals_one_pass_at_every_cut(runtime, cut):
    ids = text()
    judge = runtime.one_pass(ids)
    _, rows = read(runtime, ids[:cut], empty(runtime))
    many, after = read(runtime, ids[cut:], rows, cut)
    assert (many[0] - judge[cut:]).abs().max() <= BOUND
    for done in range(cut, LENGTH):
        step, rows = read(runtime, ids[done : done + 1], rows, done)
        assert (step[0, 0] - judge[done]).abs().max() <= BOUND
    assert (after - rows).abs().max() <= BOUND
    assert (judge[cut:] - runtime.one_pass(ids[cut:])).abs().max() > 0.1  # without the state it would be another text


@settings(max_examples=15)
@given(cuts=st.sets(st.integers(1, 59)), seed=st.integers(0, 99), name=st.sampled_from(sorted(VARIANTS)))
def test_reading_splits_into_any_parts(cuts, seed, name):
    runtime, ids = RUNTIMES[name], text(60, seed)
    rows, parts, edges = empty(runtime), [], [0, *sorted(cuts), 60]
    for start, end in pairwise(edges):
        scores, rows = read(runtime, ids[start:end], rows, start)
        parts.append(scores[0])
    assert (torch.cat(parts) - runtime.one_pass(ids)).abs().max() <= BOUND


def test_the_last_scores_alone_are_those_of_every_token(runtime):
    ids = text()
    every, rows = read(runtime, ids, empty(runtime))
    last, same = runtime.forward(ids[None], empty(runtime), (0,), every=False)
    assert last.shape == (1, 1, VOCABULARY)
    assert (last[0, 0] - every[0, -1]).abs().max() <= 1e-5
    assert torch.equal(rows, same)


def test_an_injection_changes_no_row_and_twice_is_the_same(runtime):
    _, rows = read(runtime, text(), empty(runtime))
    kept = rows.clone()
    first, _ = read(runtime, text(9, 1), rows, LENGTH)
    again, _ = read(runtime, text(9, 1), rows, LENGTH)
    assert torch.equal(first, again)
    assert torch.equal(rows, kept)


def test_two_states_in_turn_do_not_meet(runtime):
    _, a = read(runtime, text(20, 1), empty(runtime))
    _, b = read(runtime, text(20, 2), empty(runtime))
    alone, _ = read(runtime, text(5, 3), a, 20)
    for token in text(5, 3):
        scores, a = read(runtime, token[None], a, 20)
        _, b = read(runtime, token[None], b, 20)
    assert (scores[0, 0] - alone[0, -1]).abs().max() <= BOUND


def test_rows_of_a_batch_are_independent(runtime):
    ids = torch.stack([text(12, seed) for seed in range(3)])
    _, rows = read(runtime, ids, empty(runtime, 3))
    together, after = read(runtime, ids.flip(0), rows, 12)
    for row in range(3):
        alone, own = read(runtime, ids.flip(0)[row], rows[:, row : row + 1], 12)
        assert (together[row] - alone[0]).abs().max() <= BOUND
        assert (after[:, row] - own[:, 0]).abs().max() <= BOUND


def test_bfloat16_stays_near_its_own_judge():
    runtime = MambaRuntime(model := tiny_mamba().bfloat16(), model.config)
    ids = text()
    judge = runtime.one_pass(ids).float()
    _, rows = read(runtime, ids[:13], empty(runtime))
    assert rows.dtype == torch.float32
    many, _ = read(runtime, ids[13:], rows, 13)
    assert (many[0].float() - judge[13:]).abs().max() <= judge.abs().max() / 8


@pytest.mark.parametrize("falcon", [False, True])
def test_the_library_forgets_an_injected_state_and_this_does_not(falcon):
    model = tiny_mamba(falcon=falcon)
    runtime, ids = MambaRuntime(model, model.config), text()
    judge = runtime.one_pass(ids)[20:]
    with torch.no_grad():
        cache = model(ids[None, :20], use_cache=True).cache
        stock = model(ids[None, 20:], cache=cache).logits[0]
    _, rows = read(runtime, ids[:20], empty(runtime))
    ours, _ = read(runtime, ids[20:], rows, 20)
    lost = rows.clone()
    lost[..., : runtime.shape.window[0]] = 0
    window_only, _ = read(runtime, ids[20:], lost, 20)
    assert (stock - judge).abs().max() > 0.5
    assert (ours[0] - judge).abs().max() <= BOUND
    assert (stock - window_only[0]).abs().max() <= BOUND  # it kept the convolution's inputs and nothing else


def test_states_go_through_a_store_bit_by_bit_and_belong_to_one_model(folder_of):
    goes_through_a_store(folder_of, tiny_mamba)
