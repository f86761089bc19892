"""xLSTM: reading on from any row equals the library's own pass, and means of states are means of what they are."""

import pytest
import torch
from runtime_laws import RuntimeLaws, empty, goes_through_a_store, read, spec_of, text
from tiny_folders import VOCABULARY
from torch.nn import functional as F
from transformers import xLSTMConfig, xLSTMForCausalLM
from transformers.models.xlstm.modeling_xlstm import xLSTMPreTrainedModel

from precog.backbones.huggingface.xlstm import CHUNK_TOKENS, XlstmRuntime, matrix_memory
from precog.state.blend import blend

SIZES = {"vocab_size": VOCABULARY, "hidden_size": 64, "num_hidden_layers": 3, "num_heads": 4, "chunk_size": 16}
VARIANTS: dict[str, dict[str, object]] = {
    "single": {},
    "fused, no caps": {"weight_mode": "fused", "use_bias": True, "output_logit_soft_cap": 1e4, "v_dim_factor": 0.5},
}


def tiny_xlstm(*, seed: int = 0, **changed: object) -> xLSTMForCausalLM:
    """An xLSTM whose states matter; the library cannot initialise fused weights, so they are all drawn here.

    Input gates are as small as trained ones begin. Wide open, they saturate what the norm after the memory divides by,
    and a first token is then heard by the sign of its q·k alone: one ulp of the embeddings moves logits by 4e-4.
    """
    torch.manual_seed(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(xLSTMPreTrainedModel, "_init_weights", lambda self, module: None)
        model = xLSTMForCausalLM(xLSTMConfig(**{**SIZES, **changed})).eval()
    heads = model.config.num_heads
    for name, weight in model.named_parameters():
        if "norm" in name:
            weight.data.add_(0.1 * torch.randn_like(weight))
        elif name.endswith("gate_preact.bias") and "ogate" not in name:
            gates = torch.cat((torch.full((heads,), -5.0), torch.full((heads,), 3.0)))
            mean = {"igate": gates[:heads], "fgate": gates[heads:]}.get(name.split(".")[-2].split("_")[0], gates)
            weight.data.copy_(mean + 0.5 * torch.randn_like(weight))
        else:
            weight.data.normal_(0, 0.08)
    return model


def runtime_of(model: xLSTMForCausalLM) -> XlstmRuntime:
    return XlstmRuntime(model, model.config)


RUNTIMES = {name: runtime_of(tiny_xlstm(**changed)) for name, changed in VARIANTS.items()}


class TestLaws(RuntimeLaws):
    @pytest.fixture(params=VARIANTS)
    def runtime(self, request) -> XlstmRuntime:
        return RUNTIMES[request.param]


def loop(query, key, value, write, keep, matrix, vector, eps):
    """C and n as they are, without a scale, one token at a time."""
    outputs = []
    for t in range(query.shape[2]):
        f, i = keep[:, :, t].sigmoid()[..., None], write[:, :, t].exp()[..., None]
        matrix = f[..., None] * matrix + i[..., None] * key[:, :, t, :, None] * value[:, :, t, None, :]
        vector = f * vector + i * key[:, :, t]
        total = (query[:, :, t] * vector).sum(-1, keepdim=True).abs().clamp(min=1)
        outputs.append((query[:, :, t, None, :] @ matrix)[:, :, 0] / (total + eps))
    return torch.stack(outputs, dim=2), matrix, vector


@pytest.mark.parametrize("length", [1, 5, CHUNK_TOKENS, 2 * CHUNK_TOKENS + 3])
def test_the_chunked_memory_equals_the_loop(length):
    generator = torch.Generator().manual_seed(length)

    def draw(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    query, key, value = draw(2, 3, length, 4), draw(2, 3, length, 4), draw(2, 3, length, 5)
    write, keep = 2 * draw(2, 3, length), 2 + draw(2, 3, length)
    matrix, vector, top = draw(2, 3, 4, 5), draw(2, 3, 4), draw(2, 3)
    output, memory = matrix_memory(query, key, value, write, keep, (matrix, vector, top), 0.0)
    scale = top.exp()[..., None]
    expected, total, weight = loop(query, key, value, write, keep, scale[..., None] * matrix, scale * vector, 0.0)
    assert (output - expected).abs().max() < 1e-10
    assert (memory[0] * memory[2].exp()[..., None, None] - total).abs().max() < 1e-9
    assert (memory[1] * memory[2].exp()[..., None] - weight).abs().max() < 1e-9


@pytest.mark.parametrize("height", [-500.0, 500.0])
def test_extreme_scales_do_not_overflow(height):
    generator = torch.Generator().manual_seed(0)
    query, key, value = torch.randn(3, 1, 2, 6, 4, generator=generator)
    write = torch.full((1, 2, 6), height)
    nothing = (torch.zeros(1, 2, 4, 4), torch.zeros(1, 2, 4), torch.full((1, 2), height))
    output, memory = matrix_memory(query, key, value, write, torch.ones(1, 2, 6), nothing, 1e-6)
    assert output.isfinite().all()
    assert all(part.isfinite().all() for part in memory)
    if height < 0:
        assert (output == 0).all()  # nothing was written to speak of


def test_a_mean_of_states_is_the_mean_of_what_they_stand_for():
    runtime = RUNTIMES["single"]
    spec = spec_of(runtime)
    matrices, vectors = spec.scaled
    members = torch.cat([read(runtime, text(runtime, n, n), empty(runtime))[1] for n in (40, 13)], dim=1)
    weights = (0.4, 0.6)
    made = blend(members, weights, spec)
    factors = torch.tensor(weights, dtype=torch.float64)[None, :, None]

    def stands_for(rows):
        exact = rows.double()
        scales = exact[..., matrices.scales.start : matrices.scales.stop].exp()
        parts = [
            exact[..., part.start : part.stop] * scales.repeat_interleave(part.repeat, dim=-1) for part in spec.scaled
        ]
        return torch.cat(parts, dim=-1)

    assert vectors.scales == matrices.scales
    expected = (stands_for(members) * factors).sum(1)
    assert ((stands_for(made) - expected).abs() <= 1e-6 * expected.abs().amax()).all()
    naive = (members * factors.float()).sum(1)
    question = text(runtime, 5, 99)
    ours, _ = read(runtime, question, made[:, None], 53)
    theirs, _ = read(runtime, question, naive[:, None], 53)
    assert (ours - theirs).abs().max() > 0.01


def test_a_mean_of_very_different_scales_is_finite_and_follows_the_larger():
    runtime = RUNTIMES["single"]
    spec = spec_of(runtime)
    scales = spec.scaled[0].scales
    _, rows = read(runtime, text(runtime, 20), empty(runtime))
    high, low = rows.clone(), -rows
    high[..., scales.start : scales.stop] = 400.0
    low[..., scales.start : scales.stop] = -400.0
    made = blend(torch.cat((low, high), dim=1), (0.5, 0.5), spec)
    assert made.isfinite().all()
    assert (made[:, scales.start : scales.stop] == 400).all()
    assert torch.equal(made[:, : scales.start], high[:, 0, : scales.start] / 2)


def test_bfloat16_stays_near_its_own_judge_over_more_than_a_chunk():
    runtime = runtime_of(tiny_xlstm().bfloat16())
    ids = text(runtime, 40)
    judge = runtime.one_pass(ids).float()
    _, rows = read(runtime, ids[:13], empty(runtime))
    assert rows.dtype == torch.float32
    many, _ = read(runtime, ids[13:], rows, 13)
    assert (many[0] - judge[13:]).abs().max() <= judge.abs().max() / 8


def test_a_state_of_the_published_7b_is_as_large_as_it_should_be():
    config = xLSTMConfig()
    with torch.device("meta"):
        shape = XlstmRuntime(xLSTMForCausalLM(config).eval(), config).shape
    assert (shape.layers, shape.reals) == (32, 8 * (256 * 512 + 256 + 1))
    assert round(4 * shape.layers * shape.reals / 2**20, 1) == 128.3


def test_the_forget_gate_is_a_sigmoid_so_that_scales_only_fall_until_something_is_written():
    write, keep = torch.full((1, 1, 4), -100.0), torch.zeros(1, 1, 4)
    zeros = torch.zeros(1, 1, 4, 2)
    _, memory = matrix_memory(
        zeros, zeros, zeros, write, keep, (torch.ones(1, 1, 2, 2), torch.ones(1, 1, 2), torch.zeros(1, 1)), 1e-6
    )
    assert torch.allclose(memory[2], 4 * F.logsigmoid(torch.zeros(1, 1)))
    assert torch.equal(memory[1], torch.ones(1, 1, 2))


def test_states_go_through_a_store_bit_by_bit_and_belong_to_one_model(folder_of):
    goes_through_a_store(folder_of, tiny_xlstm)
