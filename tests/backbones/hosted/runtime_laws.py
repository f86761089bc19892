"""Laws of every runtime: where a text is cut, and what else is read meanwhile, changes no score."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from precog.backbones.hosted.runtime import Runtime
from precog.backbones.registry import load_backbone
from precog.errors import ForeignStateError
from precog.state import StateSpec, codec_named

BOUND = 1e-4
LENGTH = 80
MOST_STEPS = 6


def text(runtime: Runtime, length: int = LENGTH, seed: int = 0) -> torch.Tensor:
    return torch.randint(runtime.vocab_size, (length,), generator=torch.Generator().manual_seed(seed))


def empty(runtime: Runtime, rows: int = 1) -> torch.Tensor:
    return runtime.empty()[:, None].repeat(1, rows, 1)


def read(
    runtime: Runtime, ids: torch.Tensor, rows: torch.Tensor, done: int | Sequence[int] = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores after every token of one text, or of one text per row, and the rows after them."""
    tokens = ids[None] if ids.dim() == 1 else ids
    counts = (done,) * len(tokens) if isinstance(done, int) else tuple(done)
    return runtime.forward(tokens, rows, counts, every=True)


def spec_of(runtime: Runtime) -> StateSpec:
    shape = runtime.shape
    return StateSpec(
        layers=shape.layers,
        reals_per_layer=shape.reals,
        tail_shape=(0, 0),
        decay_groups=0,
        fingerprint="0" * 64,
        layer_reals=shape.layer_reals,
        window=shape.window,
        scaled=shape.scaled,
        averages=shape.averages,
    )


def goes_through_a_store(folder_of: Callable[..., Path], make: Callable[..., torch.nn.Module]) -> None:
    """A state comes back bit by bit and is continued alike; a fine-tune of the same shape refuses it."""
    backbone = load_backbone(folder_of(make(), "made"), device="cpu")
    ids = backbone.tokenizer.encode("The keeper wrote every ship into a book.")
    (state,) = backbone.encode_chunks([ids])
    codec = codec_named("fp32")
    raw = codec.encode(state, backbone.spec)
    assert len(raw) == 4 * backbone.spec.num_reals()
    loaded = codec.decode(raw, backbone.spec, num_tokens=state.num_tokens, encoding_dtype="float32")
    assert torch.equal(loaded.recurrent, state.recurrent)
    question = backbone.tokenizer.encode("Who?")
    assert torch.equal(backbone.prefill(question, loaded)[1], backbone.prefill(question, state)[1])
    assert codec.encode(backbone.empty_state(), backbone.spec)  # what nothing leaves is finite, too
    tuned = load_backbone(folder_of(make(seed=1), "tuned"), device="cpu")
    assert tuned.spec.reals_per_layer == backbone.spec.reals_per_layer
    assert tuned.fingerprint != backbone.fingerprint
    with pytest.raises(ForeignStateError):
        tuned.open([state])


class RuntimeLaws:
    """The laws; a test class that inherits them has a fixture ``runtime``, FP32 on the CPU."""

    def test_it_is_a_runtime_of_finite_rows(self, runtime):
        assert isinstance(runtime, Runtime)
        assert runtime.empty().shape == (runtime.shape.layers, runtime.shape.reals)
        assert runtime.empty().isfinite().all()
        _, rows = read(runtime, text(runtime), empty(runtime))
        assert rows.dtype == torch.float32
        assert rows.isfinite().all()

    @pytest.mark.parametrize("cut", [1, 2, 3, 4, 11, 12, 17, 64, LENGTH - 1])
    def test_reading_on_equals_one_pass_at_every_cut(self, runtime, cut):
        ids = text(runtime)
        judge = runtime.one_pass(ids)
        _, rows = read(runtime, ids[:cut], empty(runtime))
        many, _ = read(runtime, ids[cut:], rows, cut)
        assert (many[0] - judge[cut:]).abs().max() <= BOUND
        for done in range(cut, min(cut + MOST_STEPS, LENGTH)):
            step, rows = read(runtime, ids[done : done + 1], rows, done)
            assert (step[0, 0] - judge[done]).abs().max() <= BOUND
        assert (judge[cut:] - runtime.one_pass(ids[cut:])).abs().max() > 10 * BOUND  # another text without the state

    def test_a_text_read_step_by_step_ends_where_one_read_at_once_does(self, runtime):
        ids = text(runtime, 30)
        rows = empty(runtime)
        for done, token in enumerate(ids):
            _, rows = read(runtime, token[None], rows, done)
        _, at_once = read(runtime, ids, empty(runtime))
        assert (rows - at_once).abs().max() <= BOUND * max(1.0, float(at_once[at_once > -1e29].abs().max()))

    def test_reading_splits_into_any_parts(self, runtime):
        @settings(max_examples=5)
        @given(cuts=st.sets(st.integers(1, 69)), seed=st.integers(0, 99))
        def law(cuts, seed):
            ids = text(runtime, 70, seed)
            rows, parts, edges = empty(runtime), [], [0, *sorted(cuts), 70]
            for start, end in pairwise(edges):
                scores, rows = read(runtime, ids[start:end], rows, start)
                parts.append(scores[0])
            assert (torch.cat(parts) - runtime.one_pass(ids)).abs().max() <= BOUND

        law()

    def test_the_last_scores_alone_are_those_of_every_token(self, runtime):
        ids = text(runtime, 40)
        every, rows = read(runtime, ids, empty(runtime))
        last, same = runtime.forward(ids[None], empty(runtime), (0,), every=False)
        assert last.shape == (1, 1, runtime.vocab_size)
        assert (last[0, 0] - every[0, -1]).abs().max() <= 1e-5
        assert torch.equal(rows, same)

    def test_an_injection_changes_no_row_and_again_and_again_it_is_the_same(self, runtime):
        _, rows = read(runtime, text(runtime, 30), empty(runtime))
        kept, question = rows.clone(), text(runtime, 3, 1)
        first, _ = read(runtime, question, rows, 30)
        for _ in range(9):
            again, _ = read(runtime, question, rows, 30)
            assert torch.equal(first, again)
        assert torch.equal(rows, kept)

    def test_two_states_in_turn_do_not_meet(self, runtime):
        _, a = read(runtime, text(runtime, 20, 1), empty(runtime))
        _, b = read(runtime, text(runtime, 31, 2), empty(runtime))
        alone, _ = read(runtime, text(runtime, 5, 3), a, 20)
        for place, token in enumerate(text(runtime, 5, 3)):
            scores, a = read(runtime, token[None], a, 20 + place)
            _, b = read(runtime, token[None], b, 31 + place)
        assert (scores[0, 0] - alone[0, -1]).abs().max() <= BOUND

    def test_rows_of_a_batch_are_independent_whatever_each_has_read(self, runtime):
        lengths = (3, 25, 12)
        starts = [read(runtime, text(runtime, n, n), empty(runtime))[1] for n in lengths]
        ids = torch.stack([text(runtime, 9, seed) for seed in range(3)])
        together, after = read(runtime, ids, torch.cat(starts, dim=1), lengths)
        for row, (start, done) in enumerate(zip(starts, lengths, strict=True)):
            alone, own = read(runtime, ids[row], start, done)
            assert (together[row] - alone[0]).abs().max() <= BOUND
            assert (after[:, row] - own[:, 0]).abs().max() <= BOUND
        assert (together[0] - together[1]).abs().max() > 0.01

    def test_a_layer_left_out_has_read_nothing(self, runtime):
        ids = text(runtime, 30)
        _, rows = read(runtime, ids[:20], empty(runtime))
        left_out, nothing = rows.clone(), rows.clone()
        left_out[1] = 0
        nothing[1] = empty(runtime)[1]
        zero, _ = read(runtime, ids[20:], left_out, 20)
        fresh, _ = read(runtime, ids[20:], nothing, 20)
        whole, _ = read(runtime, ids[20:], rows, 20)
        assert torch.equal(zero, fresh)
        _, onward = read(runtime, ids[20:25], left_out, 20)
        later, _ = read(runtime, ids[25:], onward, 25)
        assert (later[0] - zero[0, 5:]).abs().max() <= BOUND
        assert (zero - whole).abs().max() > 1e-3
        all_zero, _ = read(runtime, ids, torch.zeros_like(rows))
        assert (all_zero[0] - runtime.one_pass(ids)).abs().max() <= BOUND
