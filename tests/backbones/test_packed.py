"""Packed matrices: the same products as unpacked ones within BF16, a step equal to the scan, bytes that stay few."""

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from precog.backbones.registry import load_backbone
from precog.backbones.tenns.backbone import TennsBackbone
from precog.backbones.tenns.checkpoint import load_model, save_model
from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.model import build
from precog.backbones.tenns.packed import PackedEmbedding, PackedLinear, load_packed, random_packed
from precog.backbones.tenns.quantise import SCHEMES, pack, unpack
from precog.errors import ModelError, UsageError
from precog.text.tokenizer import load_mistral_tokenizer

TOKENIZER = load_mistral_tokenizer()
PACKED = [scheme for scheme in SCHEMES if scheme != "fp32"]
BF16 = 2**-8


def config(mixer: str, *, tied: bool) -> TennsConfig:
    values = TennsConfig.preset("tiny-outer" if mixer == "outer" else "tiny").to_dict()
    return TennsConfig.from_dict({**values, "layers": 2, "tied": tied})


def folder_of(path, mixer: str, *, tied: bool, matrices: str, embedding: str):
    network = build(config(mixer, tied=tied))
    save_model(path, network, name="m", tokenizer_sha256=TOKENIZER.sha256, matrices=matrices, embedding=embedding)
    return path


@settings(max_examples=60, deadline=None)
@given(
    scheme=st.sampled_from(PACKED),
    rows=st.integers(1, 70),
    groups=st.integers(1, 3),
    odd=st.integers(1, 70),
    tokens=st.integers(1, 9),
    seed=st.integers(0, 99),
)
def test_a_packed_product_is_the_unpacked_one_within_bf16(scheme, rows, groups, odd, tokens, seed):
    draw = torch.Generator().manual_seed(seed)
    size = scheme.partition(":")[2]
    columns = int(size) * groups if size.isdigit() else 2 * odd
    stored = pack(torch.randn(rows, columns, generator=draw), scheme)
    bias = torch.randn(rows, generator=draw)
    x = torch.randn(tokens, columns, generator=draw)
    found = PackedLinear(stored, scheme, bias)(x)
    assert found.dtype == torch.float32
    weight = unpack(stored, scheme)
    exact = x @ weight.T + bias
    # inputs, INT8 scales and the result are rounded to BF16; the integers and INT4 scales are not
    bound = 2 * BF16 * (x.abs() @ weight.abs().T) + BF16 * exact.abs()
    assert ((found - exact).abs() <= bound).all()
    for start in range(tokens):  # a row does not depend on its neighbours
        alone = PackedLinear(stored, scheme, bias)(x[start : start + 1])
        if scheme != "bf16":
            assert alone.equal(found[start : start + 1])


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("rows", [1, 7, 8, 20])
def test_a_packed_product_of_many_is_the_same_within_bf16(scheme, rows):
    draw = torch.Generator().manual_seed(rows)
    stored = pack(torch.randn(2100, 128, generator=draw), scheme)
    x = torch.randn(rows, 128, generator=draw)
    packed = PackedLinear(stored, scheme)
    exact = x @ unpack(stored, scheme).T
    bound = 2 * BF16 * (x.abs() @ unpack(stored, scheme).abs().T) + BF16 * exact.abs()
    found = packed.many(x[None])[0]
    assert found.dtype == torch.float32
    assert ((found - exact).abs() <= bound).all()
    assert found.equal(packed(x)) == (scheme != "int8" or rows < 8)


def test_packed_integers_and_int4_scales_are_exact():
    for scheme in ("int4:32", "int4:64", "int4:128", "int4:channel"):
        stored = pack(torch.randn(48, 256, generator=torch.Generator().manual_seed(1)), scheme)
        found = PackedLinear(stored, scheme)(torch.eye(256))
        # one weight a product: what is left is the rounding of a result of at most 12 bits to BF16
        assert found.T.equal(unpack(stored, scheme).bfloat16().float())


@pytest.mark.parametrize("scheme", SCHEMES)
def test_rows_of_a_packed_table_are_those_of_the_matrix(scheme):
    stored = pack(torch.randn(40, 128), scheme)
    table = PackedEmbedding(stored, scheme)
    tokens = torch.tensor([[0, 39, 7], [7, 7, 1]])
    assert table(tokens).equal(unpack(stored, scheme)[tokens])


@pytest.mark.parametrize("mixer", ["outer", "diagonal"])
@pytest.mark.parametrize(
    ("matrices", "embedding"), [("int4:32", "int4:64"), ("int8", "int8"), ("int4:channel", "bf16")]
)
@pytest.mark.parametrize("tied", [True, False])
def test_a_packed_model_is_the_unpacked_one_within_bf16(mixer, matrices, embedding, tied, tmp_path):
    folder = folder_of(tmp_path / "m", mixer, tied=tied, matrices=matrices, embedding=embedding)
    exact = load_backbone(folder, device="cpu")
    packed = load_backbone(folder, device="cpu", dtype="packed")
    assert packed.fingerprint == exact.fingerprint
    assert (exact.encoding_dtype, packed.encoding_dtype) == ("float32", "bfloat16")
    ids = torch.randint(300, 30_000, (60,), generator=torch.Generator().manual_seed(0)).tolist()
    before, right = exact.prefill_logits([1, *ids])
    after, found = packed.prefill_logits([1, *ids])
    assert after.recurrent.dtype == torch.float32
    assert (found - right).abs().max() <= 0.05 * right.abs().max()
    assert (after.recurrent - before.recurrent).norm() <= 0.03 * before.recurrent.norm()
    assert packed.model.num_parameters() == exact.model.num_parameters()
    assert packed.model.flops_per_token() == exact.model.flops_per_token()
    # scores of some tokens are exact for the hidden vector that they are computed from
    hidden = torch.randn(3, packed.model.config.width)
    some = torch.tensor([5, 31_999, 0])
    assert torch.allclose(packed.scores(hidden, some), exact.scores(hidden, some), atol=1e-5)
    # and so are the best of all
    everything, best = packed.logits(hidden), exact.logits(hidden).max(-1)
    assert torch.allclose(everything.max(-1).values, best.values, atol=1e-4)


@pytest.mark.parametrize("mixer", ["outer", "diagonal"])
def test_steps_of_a_packed_model_are_its_scan(mixer, tmp_path):
    folder = folder_of(tmp_path / "m", mixer, tied=True, matrices="int4:32", embedding="int8")
    packed = load_backbone(folder, device="cpu", dtype="packed")
    ids = torch.randint(300, 30_000, (25,), generator=torch.Generator().manual_seed(0)).tolist()
    state, logits = packed.prefill_logits([1, *ids])
    batch = packed.open([packed.empty_state()])
    stepped = []
    for token in [1, *ids]:
        batch, hidden = packed.step(batch, [token])
        stepped.append(packed.logits(hidden)[0])
    # FP32 rounding of the scan may tip a BF16 rounding, no more
    assert (torch.stack(stepped) - logits).abs().max() <= 0.02 * logits.abs().max()
    assert (batch.row(0).recurrent - state.recurrent).norm() <= 0.01 * state.recurrent.norm()
    together = packed.encode_chunks([ids, ids[:7], ids[:1]])
    for chunk, encoded in zip((ids, ids[:7], ids[:1]), together, strict=True):
        [alone] = packed.encode_chunks([chunk])
        assert (encoded.recurrent - alone.recurrent).norm() <= 0.01 * alone.recurrent.norm()


@pytest.mark.parametrize("mixer", ["outer", "diagonal"])
def test_what_a_row_comes_to_does_not_depend_on_the_rows_beside_it(mixer, tmp_path):
    packed = load_backbone(
        folder_of(tmp_path / "m", mixer, tied=True, matrices="int4:32", embedding="int8"),
        device="cpu",
        dtype="packed",
    )
    made = torch.Generator().manual_seed(0)
    texts = [torch.randint(300, 30_000, (length,), generator=made).tolist() for length in (9, 3, 20, 33, 40, 70, 1, 25)]
    longest = 1 + max(map(len, texts))
    rows = torch.tensor([[1, *text] + [0] * (longest - 1 - len(text)) for text in texts])
    batch = packed.open([packed.empty_state() for _ in texts])
    batch, hidden = packed.read_padded(batch, rows, [1 + len(text) for text in texts])
    for turn in range(3):
        for row, text in enumerate(texts):
            alone, of_it = packed.read(packed.open([packed.empty_state()]), torch.tensor([[1, *text]]))
            for token in range(turn):
                alone, of_it = packed.step(alone, [400 + token])
            assert torch.equal(of_it[0], hidden[row]), (turn, row)
            assert torch.equal(alone.recurrent[:, 0], batch.recurrent[:, row]), (turn, row)
        batch, hidden = packed.step(batch, [400 + turn] * len(texts))


def test_packed_bytes_are_few_and_only_large_quantised_models_are_packed_by_themselves(tmp_path, monkeypatch):
    folder = folder_of(tmp_path / "m", "outer", tied=True, matrices="int4:32", embedding="int8")
    network, _ = load_packed(folder)
    held = {t.data_ptr(): t.nbytes for t in (*network.buffers(), *network.parameters())}
    unpacked, _ = load_model(folder)
    assert sum(held.values()) < 0.35 * sum(p.nbytes for p in unpacked.parameters())
    assert load_backbone(folder, device="cpu").encoding_dtype == "float32"
    monkeypatch.setattr("precog.backbones.registry.UNPACKED_BYTES", 1_000_000)
    assert load_backbone(folder, device="cpu").encoding_dtype == "bfloat16"
    plain = folder_of(tmp_path / "p", "outer", tied=True, matrices="fp32", embedding="fp32")
    assert load_backbone(plain, device="cpu").encoding_dtype == "float32"
    with pytest.raises(ModelError, match="not packed"):
        load_backbone(plain, device="cpu", dtype="packed")
    with pytest.raises(UsageError, match="unknown compute dtype"):
        load_backbone(plain, dtype="int4")


def test_an_untrained_packed_model_is_the_same_every_time_and_runs():
    shape = dataclasses.replace(config("diagonal", tied=False), vocabulary=32_000)
    states = []
    for _ in range(2):
        network = random_packed(shape, "int4:32", "int8", seed=3)
        backbone = TennsBackbone(network, load_card(network), TOKENIZER)
        state, logits = backbone.prefill([1, 500, 600])
        assert torch.isfinite(logits).all()
        states.append(state.recurrent)
    assert states[0].equal(states[1])
    assert random_packed(shape, "int4:channel", "bf16").num_parameters() == build(shape).num_parameters()
    with pytest.raises(ModelError, match="divide"):
        random_packed(shape, "int4:128", "int8")


def load_card(network):
    from precog.backbones.card import ModelCard

    return ModelCard(name="random", tokenizer_sha256=TOKENIZER.sha256, weights_sha256="")
