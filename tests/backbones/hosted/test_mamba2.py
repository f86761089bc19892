"""Mamba-2: reading on from any row equals the library's own pass, also where the library's own cache does not."""

import pytest
import torch
from runtime_laws import BOUND, RuntimeLaws, empty, goes_through_a_store, read, text
from tiny_folders import VOCABULARY
from transformers import Mamba2Config, Mamba2ForCausalLM

from precog.backbones.huggingface.mamba2 import CHUNK_TOKENS, Mamba2Runtime, scan
from precog.errors import ModelError

SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_heads": 8,
    "head_dim": 8,
    "state_size": 16,
    "n_groups": 2,
    "chunk_size": 16,
    "time_step_min": 0.05,
    "time_step_max": 0.5,
}
VARIANTS: dict[str, dict[str, object]] = {
    "two groups": {},
    "one group, other parts": {"n_groups": 1, "use_bias": True, "use_conv_bias": False, "conv_kernel": 3},
    "tied, no window": {"tie_word_embeddings": True, "conv_kernel": 1, "residual_in_fp32": False},
    "clamped": {"time_step_limit": (0.0, 0.3)},
}
MODEL_1_3B = {"vocab_size": 50288, "hidden_size": 2048, "num_hidden_layers": 48, "num_heads": 64, "n_groups": 1}


def tiny_mamba2(*, seed: int = 0, **changed: object) -> Mamba2ForCausalLM:
    """A Mamba-2 whose states matter."""
    torch.manual_seed(seed)
    model = Mamba2ForCausalLM(Mamba2Config(**{**SIZES, **changed})).eval()
    for name, weight in model.named_parameters():
        if not name.endswith(("A_log", "dt_bias")):
            weight.data.add_(0.05 * torch.randn_like(weight))
    return model


def runtime_of(**changed: object) -> Mamba2Runtime:
    model = tiny_mamba2(**changed)
    return Mamba2Runtime(model, model.config)


RUNTIMES = {name: runtime_of(**changed) for name, changed in VARIANTS.items()}


class TestLaws(RuntimeLaws):
    @pytest.fixture(params=VARIANTS)
    def runtime(self, request) -> Mamba2Runtime:
        return RUNTIMES[request.param]


@pytest.mark.parametrize("length", [1, 5, CHUNK_TOKENS, 2 * CHUNK_TOKENS + 7])
def test_the_chunked_scan_equals_the_loop(length):
    generator = torch.Generator().manual_seed(length)

    def draw(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    x, b, c, memory = draw(2, length, 4, 3), draw(2, length, 2, 5), draw(2, length, 2, 5), draw(2, 4, 3, 5)
    dt, a = draw(2, length, 4).exp(), -draw(4).exp()
    read_all, final = scan(x, dt, a, b, c, memory)
    state = memory
    for t in range(length):
        key, query = (each[:, t].repeat_interleave(2, dim=1)[:, :, None] for each in (b, c))
        state = (dt[:, t] * a).exp()[..., None, None] * state + (dt[:, t, :, None] * x[:, t])[..., None] * key
        assert (read_all[:, t] - (state * query).sum(-1)).abs().max() < 1e-10
    assert (final - state).abs().max() < 1e-10


def test_the_scan_keeps_its_digits_where_decays_are_strong():
    shape = (1, CHUNK_TOKENS, 1)
    x, dt = torch.ones(*shape, 1), torch.full(shape, 10.0)
    ones = torch.ones(*shape, 1)
    read_all, _ = scan(x, dt, torch.tensor([-2.0]), ones, ones, torch.zeros(1, 1, 1, 1))
    assert read_all.isfinite().all()
    assert (read_all - 10.0).abs().max() < 1e-6  # each token forgets what came before it, by exp(−20)


def test_the_librarys_one_token_step_leaves_a_clamp_out_and_this_does_not():
    runtime, ids = RUNTIMES["clamped"], text(RUNTIMES["clamped"], 40)
    judge = runtime.one_pass(ids)
    with torch.no_grad():
        found = runtime._model(ids[None, :20], use_cache=True)
        cache = found.cache if hasattr(found, "cache") else found.cache_params
        name = "cache" if hasattr(found, "cache") else "cache_params"
        stock = torch.cat([runtime._model(ids[None, i : i + 1], **{name: cache}).logits[0] for i in range(20, 40)])
    _, rows = read(runtime, ids[:20], empty(runtime))
    ours = []
    for done in range(20, 40):
        scores, rows = read(runtime, ids[done : done + 1], rows, done)
        ours.append(scores[0])
    assert (stock - judge[20:]).abs().max() > 1e-2
    assert (torch.cat(ours) - judge[20:]).abs().max() <= BOUND


def test_bfloat16_stays_near_its_own_judge():
    model = tiny_mamba2().bfloat16()
    runtime = Mamba2Runtime(model, model.config)
    ids = text(runtime, 40)
    judge = runtime.one_pass(ids).float()
    _, rows = read(runtime, ids[:13], empty(runtime))
    assert rows.dtype == torch.float32
    many, _ = read(runtime, ids[13:], rows, 13)
    assert (many[0] - judge[13:]).abs().max() <= judge.abs().max() / 8


def test_a_state_of_the_published_1_3b_is_as_large_as_it_should_be():
    config = Mamba2Config(**MODEL_1_3B, head_dim=64, state_size=128)
    with torch.device("meta"):
        shape = Mamba2Runtime(Mamba2ForCausalLM(config).eval(), config).shape
    assert (shape.layers, shape.reals) == (48, 64 * 64 * 128 + 3 * (4096 + 256))
    assert round(4 * shape.layers * shape.reals / 2**20, 1) == 98.4


def test_a_model_built_in_another_way_is_refused_by_name():
    model = tiny_mamba2()
    del model.backbone.layers[0].mixer.norm
    with pytest.raises(ModelError, match="Mamba2Mixer without norm"):
        Mamba2Runtime(model, model.config)


def test_states_go_through_a_store_bit_by_bit_and_belong_to_one_model(folder_of):
    goes_through_a_store(folder_of, tiny_mamba2)
