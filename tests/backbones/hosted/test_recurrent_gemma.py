"""RecurrentGemma: everything it remembers is in its rows, so that nothing is forgotten and requests cannot meet."""

import threading
from concurrent.futures import ThreadPoolExecutor
from inspect import signature

import pytest
import torch
from runtime_laws import BOUND, RuntimeLaws, empty, goes_through_a_store, read, spec_of, text
from tiny_folders import VOCABULARY
from transformers import DynamicCache, RecurrentGemmaConfig, RecurrentGemmaForCausalLM

from precog.backbones.huggingface.recurrent_gemma import RecurrentGemmaRuntime, linear_scan
from precog.errors import StateError
from precog.state.blend import blend

SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "attention_window_size": 12,
}
VARIANTS: dict[str, dict[str, object]] = {
    "one head of keys": {"num_key_value_heads": 1},
    "wider, two heads of keys": {"num_key_value_heads": 2, "lru_width": 48, "conv1d_width": 3, "attention_bias": True},
}


def tiny_gemma(*, seed: int = 0, **changed: object) -> RecurrentGemmaForCausalLM:
    """A RecurrentGemma whose states matter."""
    torch.manual_seed(seed)
    model = RecurrentGemmaForCausalLM(RecurrentGemmaConfig(**{**SIZES, **changed})).eval()
    for weight in model.parameters():
        weight.data.add_(0.1 * torch.randn_like(weight))
    return model


def runtime_of(model: RecurrentGemmaForCausalLM) -> RecurrentGemmaRuntime:
    return RecurrentGemmaRuntime(model, model.config)


RUNTIMES = {name: runtime_of(tiny_gemma(**changed)) for name, changed in VARIANTS.items()}


class TestLaws(RuntimeLaws):
    @pytest.fixture(params=VARIANTS)
    def runtime(self, request) -> RecurrentGemmaRuntime:
        return RUNTIMES[request.param]


@pytest.fixture
def runtime() -> RecurrentGemmaRuntime:
    return RUNTIMES["one head of keys"]


@pytest.mark.parametrize("length", [1, 2, 7, 64])
def test_the_scan_equals_the_loop(length):
    generator = torch.Generator().manual_seed(length)
    decay, drive = torch.rand(2, 2, length, 5, generator=generator, dtype=torch.float64)
    decay[:, length // 2] = 0
    state = torch.randn(2, 5, generator=generator, dtype=torch.float64)
    states = linear_scan(decay, drive, state)
    for t in range(length):
        state = decay[:, t] * state + drive[:, t]
        assert (states[:, t] - state).abs().max() < 1e-12


def modules_of(runtime: RecurrentGemmaRuntime) -> list[object]:
    blocks = [layer.temporal_block for layer in runtime._model.model.layers]
    recurrent = [block for block in blocks if hasattr(block, "rg_lru")]
    return [*(block.conv1d_state for block in recurrent), *(block.rg_lru.recurrent_states for block in recurrent)]


def test_nothing_stays_on_the_modules(runtime):
    ids = text(runtime, 20)
    runtime.one_pass(ids)
    _, rows = read(runtime, ids, empty(runtime))
    read(runtime, ids, rows, 20)
    assert modules_of(runtime) == [None] * 6


def test_the_library_forgets_a_part_of_an_injected_state_and_this_does_not(runtime):
    ids = text(runtime, 24)
    judge = runtime.one_pass(ids)[10:]
    model, place = runtime._model, torch.arange(24)[None]
    argument = "cache" if "cache" in signature(model.forward).parameters else "past_key_values"
    injected = {argument: DynamicCache(config=model.config), "use_cache": True}
    with torch.no_grad():
        model(ids[None, :10], position_ids=place[:, :10], **injected)
        stock = model(ids[None, 10:], position_ids=place[:, 10:], **injected).logits[0]
    _, rows = read(runtime, ids[:10], empty(runtime))
    ours, _ = read(runtime, ids[10:], rows, 10)
    assert (stock - judge).abs().max() > 100 * BOUND
    assert (ours[0] - judge).abs().max() <= BOUND
    runtime.one_pass(ids)
    assert modules_of(runtime) == [None] * 6  # what the library left there is gone


def test_two_requests_at_once_do_not_meet(runtime):
    texts = [text(runtime, 40, seed) for seed in range(4)]
    alone = [runtime.one_pass(ids) for ids in texts]
    together = threading.Barrier(len(texts))

    def read_and_judge(place: int) -> tuple[float, float]:
        ids, rows, furthest = texts[place], empty(runtime), 0.0
        together.wait()
        for done, token in enumerate(ids):
            scores, rows = read(runtime, token[None], rows, done)
            furthest = max(furthest, float((scores[0, 0] - alone[place][done]).abs().max()))
        return furthest, float((runtime.one_pass(ids) - alone[place]).abs().max())

    with ThreadPoolExecutor(len(texts)) as pool:
        for furthest, judged in pool.map(read_and_judge, range(len(texts))):
            assert furthest <= BOUND
            assert judged == 0.0


def test_a_row_is_bound_to_no_position_once_its_window_is_full(runtime):
    ids = text(runtime, 30)
    _, rows = read(runtime, ids[:20], empty(runtime))
    here, _ = read(runtime, ids[20:], rows, 20)
    elsewhere, _ = read(runtime, ids[20:], rows, 100_000)
    assert torch.equal(here, elsewhere)


def test_a_window_left_out_is_empty_however_much_the_text_had_read(runtime):
    ids = text(runtime, 30)
    _, rows = read(runtime, ids[:20], empty(runtime))
    rows[2] = 0
    at_once, _ = read(runtime, ids[20:], rows, 20)
    parts = []
    for done in range(20, 30):
        scores, rows = read(runtime, ids[done : done + 1], rows, done)
        parts.append(scores[0])
    assert (torch.cat(parts) - at_once[0]).abs().max() <= BOUND


def test_what_rounding_leaves_in_an_empty_slot_is_not_heard(runtime):
    ids = text(runtime, 12)
    _, rows = read(runtime, ids[:5], empty(runtime))
    rounded = rows.clone()
    rounded[2, 0].view(2, 11, 8)[:, :6] += 0.01
    assert torch.equal(read(runtime, ids[5:], rounded, 5)[0], read(runtime, ids[5:], rows, 5)[0])


def test_a_row_does_not_grow_with_the_text_and_keeps_the_newest(runtime):
    ids = text(runtime, 40)
    _, long = read(runtime, ids, empty(runtime))
    assert long.shape == (4, 1, runtime.shape.reals)
    place = 2  # of the attention layer
    before, keys = 11, 8
    assert runtime.shape.layer_reals == (128, 128, 2 * before * keys, 128)
    kept = long[place, 0].view(2, before, keys)
    _, longer = read(runtime, text(runtime, 3, 1), long, 40)
    assert torch.equal(longer[place, 0].view(2, before, keys)[:, :-3], kept[:, 3:])
    assert (long[0, 0, 128:] == 0).all()


def test_such_states_are_not_averaged(runtime):
    _, rows = read(runtime, text(runtime, 20), empty(runtime))
    with pytest.raises(StateError, match="keys and values of attention"):
        blend(torch.cat((rows, rows), dim=1), (0.5, 0.5), spec_of(runtime))


def test_bfloat16_stays_near_its_own_judge():
    runtime = runtime_of(tiny_gemma().bfloat16())
    ids = text(runtime, 40)
    judge = runtime.one_pass(ids).float()
    _, rows = read(runtime, ids[:13], empty(runtime))
    assert rows.dtype == torch.float32
    many, _ = read(runtime, ids[13:], rows, 13)
    assert (many[0] - judge[13:]).abs().max() <= judge.abs().max() / 8


def test_a_state_of_the_published_2b_is_as_large_as_it_should_be():
    config = RecurrentGemmaConfig(num_key_value_heads=1, intermediate_size=15_360)
    with torch.device("meta"):
        shape = RecurrentGemmaRuntime(RecurrentGemmaForCausalLM(config).eval(), config).shape
    recurrent, attention = 4 * 2560, 2 * 2047 * 256
    assert sorted(shape.layer_reals) == [recurrent] * 18 + [attention] * 8
    assert round(4 * sum(shape.layer_reals) / 2**20, 1) == 32.7


def test_states_go_through_a_store_bit_by_bit_and_belong_to_one_model(folder_of):
    goes_through_a_store(folder_of, tiny_gemma)
