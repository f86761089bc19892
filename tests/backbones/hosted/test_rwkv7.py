"""RWKV-7: reading on from a state against the package's own pass, and what is refused."""

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import torch
from ended import runner
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from precog.backbones.hosted.backbone import HostedBackbone
from precog.backbones.registry import load_backbone
from precog.backbones.rwkv7 import library
from precog.backbones.rwkv7.model import Rwkv7Runtime
from precog.backbones.rwkv7.tiny import make, tiny_tensors
from precog.backbones.rwkv7.weights import Rwkv7Shape, read_tensors, shape_of
from precog.backbones.template import Template
from precog.errors import ForeignStateError, InputError, ModelError, UsageError
from precog.state import codec_named
from precog.state.blend import blend

pytest.importorskip("rwkv", reason="the extra rwkv is not installed")
BOUND = 1e-4
NUM_TOKENS = 40
CUTS = (1, 2, 3, 4, 15, 16, 17, 31, 32, 33, 39)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rwkv7")
    save_tiny(folder / "tiny.pth")
    return folder


@pytest.fixture(scope="module")
def backbone(folder):
    made = load_backbone(folder)
    assert isinstance(made, HostedBackbone)
    return made


@pytest.fixture(scope="module")
def runtime(backbone):
    assert isinstance(backbone.runtime, Rwkv7Runtime)
    return backbone.runtime


def save_tiny(path: Path, tensors: dict[str, torch.Tensor] | None = None) -> Path:
    torch.save(tiny_tensors() if tensors is None else tensors, path)
    return path


def tokens(count=NUM_TOKENS, seed=0):
    return torch.randint(1, 65_530, (count,), generator=torch.Generator().manual_seed(seed))


def read(runtime, ids, rows=None, every=True):
    rows = runtime.empty()[:, None] if rows is None else rows
    return runtime.forward(ids[None], rows, (0,), every=every)


def furthest(found, expected):
    return float((found - expected).abs().max())


@pytest.mark.parametrize("cut", CUTS)
def test_reading_on_from_a_state_is_the_package_s_one_pass(runtime, cut):
    ids = tokens()
    judge = runtime.one_pass(ids)
    assert furthest(read(runtime, ids)[0][0], judge) <= BOUND
    head, rows = read(runtime, ids[:cut])
    assert furthest(head[0], judge[:cut]) <= BOUND
    many, after_many = read(runtime, ids[cut:], rows)
    assert furthest(many[0], judge[cut:]) <= BOUND
    for position in range(cut, NUM_TOKENS):
        one, rows = read(runtime, ids[position : position + 1], rows)
        assert furthest(one[0, 0], judge[position]) <= BOUND
    assert furthest(after_many, rows) <= BOUND
    lost = read(runtime, ids[cut:])[0][0]
    assert furthest(lost, judge[cut:]) > 1  # what a state that is not there looks like


@pytest.mark.parametrize(("dtype", "strategy"), [(torch.float32, "cpu fp32"), (torch.bfloat16, "cpu bf16")])
def test_the_package_s_own_loader_finds_the_same(folder, dtype, strategy):
    ours = load_backbone(folder, dtype=str(dtype).removeprefix("torch.")).runtime
    with library._prepared():
        package = import_module("rwkv.model").RWKV_x070(str(folder / "tiny"), strategy)
    assert package.z.keys() == ours.weights.keys()
    assert all(torch.equal(tensor, ours.weights[name]) for name, tensor in package.z.items())
    ids = tokens()
    scores, _ = package.forward(ids.tolist(), package.generate_zero_state(), True)
    assert furthest(ours.one_pass(ids), scores) <= (BOUND if dtype == torch.float32 else 0.0625)
    if dtype == torch.float32:
        assert furthest(read(ours, ids)[0][0], scores) <= BOUND


@settings(max_examples=20)
@given(parts=st.lists(st.integers(1, 40), min_size=1, max_size=5), seed=st.integers(0, 100))
def test_reading_splits_anywhere(runtime, parts, seed):
    ids, rows, found = tokens(sum(parts), seed), None, []
    for part in ids.split(parts):
        scores, rows = read(runtime, part, rows)
        found.append(scores[0])
    assert furthest(torch.cat(found), runtime.one_pass(ids)) <= BOUND


@pytest.mark.parametrize(("heads", "head_size", "layers"), [(1, 64, 1), (3, 32, 3)])
def test_other_sizes(tmp_path, heads, head_size, layers):
    path = save_tiny(tmp_path / "m.pth", tiny_tensors(1, layers=layers, heads=heads, head_size=head_size))
    made = load_backbone(path)
    assert made.spec.num_reals() == layers * heads * head_size * (head_size + 2)
    ids = tokens()
    assert furthest(read(made.runtime, ids)[0][0], made.runtime.one_pass(ids)) <= BOUND


def test_a_loop_over_tokens_gives_the_same(runtime, backbone):
    looped = Rwkv7Runtime(runtime.library, runtime.weights, runtime.sizes, runtime.device, runtime.dtype, chunked=False)
    ids = tokens(100)
    scores, rows = read(runtime, ids)
    expected, expected_rows = read(looped, ids)
    assert furthest(scores, expected) <= BOUND
    assert furthest(rows, expected_rows) <= BOUND


def test_rows_are_not_changed_and_two_states_do_not_meet(runtime):
    _, first = read(runtime, tokens(20, 1))
    _, second = read(runtime, tokens(20, 2))
    kept = first.clone(), second.clone()
    query = tokens(9, 3)
    from_first, from_second = read(runtime, query, first)[0], read(runtime, query, second)[0]
    assert furthest(from_first, from_second) > 0.1
    for _ in range(20):
        assert torch.equal(read(runtime, query, first)[0], from_first)
        assert torch.equal(read(runtime, query, second)[0], from_second)
    assert torch.equal(first, kept[0])
    assert torch.equal(second, kept[1])


@pytest.mark.parametrize("count", [1, 9])
def test_rows_of_a_batch_are_independent(runtime, count):
    states = torch.cat([read(runtime, tokens(11 + seed, seed))[1] for seed in range(4)], dim=1)
    texts = torch.stack([tokens(count, 10 + seed) for seed in range(4)])
    scores, rows = runtime.forward(texts, states, (0,) * 4, every=True)
    for row in range(4):
        alone, after = read(runtime, texts[row], states[:, row : row + 1])
        assert furthest(scores[row], alone[0]) <= BOUND
        assert furthest(rows[:, row], after[:, 0]) <= BOUND
    last, _ = runtime.forward(texts, states, (0,) * 4, every=False)
    assert furthest(last[:, 0], scores[:, -1]) <= BOUND


def test_a_text_opens_with_0_and_the_state_says_so(backbone, runtime):
    _, rows = read(runtime, torch.tensor([0]))
    assert torch.equal(backbone.empty_state().recurrent, rows[:, 0])
    ids = tokens().tolist()
    state, scores = backbone.prefill(ids)
    assert state.num_tokens == NUM_TOKENS + 1
    assert furthest(scores, runtime.one_pass(torch.tensor([0, *ids]))[-1, : len(scores)]) <= BOUND
    assert len(scores) == backbone.tokenizer.vocab_size == 65_530


def test_chunks_are_read_as_if_alone(backbone):
    chunks = [tokens(count, count).tolist() for count in (5, 17, 5, 30)]
    for chunk, state in zip(chunks, backbone.encode_chunks(chunks), strict=True):
        assert furthest(state.recurrent, backbone.prefill(chunk)[0].recurrent) <= BOUND


def test_a_stored_state_is_bit_exact(backbone):
    state, _ = backbone.prefill(tokens().tolist())
    codec = codec_named("fp32")
    restored = codec.decode(codec.encode(state, backbone.spec), backbone.spec, num_tokens=state.num_tokens)
    assert torch.equal(restored.recurrent, state.recurrent)
    assert torch.equal(backbone.prefill([7, 8], restored)[1], backbone.prefill([7, 8], state)[1])


def test_a_mean_keeps_the_token_shifts_of_one_member(backbone):
    states = [backbone.prefill(tokens(20, seed).tolist())[0] for seed in range(2)]
    rows = torch.stack([state.recurrent for state in states], dim=1)
    mean = blend(rows, [0.4, 0.6], backbone.spec)
    start, stop = backbone.spec.window
    assert stop - start == 2 * 32
    assert stop == backbone.spec.reals_per_layer
    assert torch.equal(mean[:, start:stop], rows[:, 1, start:stop])
    assert furthest(mean[:, :start], 0.4 * rows[:, 0, :start] + 0.6 * rows[:, 1, :start]) < 1e-6


def test_another_weight_is_another_model(tmp_path, backbone):
    changed = tiny_tensors()
    changed["blocks.1.att.w0"][0, 0, 3] += 1e-6
    other = load_backbone(save_tiny(tmp_path / "tiny.pth", changed))
    assert other.fingerprint != backbone.fingerprint
    with pytest.raises(ForeignStateError):
        other.prefill([1], backbone.empty_state())


def test_templates(folder, backbone):
    assert backbone.card.chunk_template == "{chunk}"
    assert backbone.card.question_template == "\n\nUser: {question}\n\nAssistant:"
    other = load_backbone(folder, template=Template(question="Q: {question}\nA:"))
    assert other.card.question_template == "Q: {question}\nA:"
    assert other.fingerprint == backbone.fingerprint
    assert load_backbone(folder, template=Template(chunk="Text: {chunk}")).fingerprint != backbone.fingerprint


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_files_and_passes_of_half_precision(tmp_path, dtype):
    halves = {name: tensor.to(dtype) for name, tensor in tiny_tensors().items()}
    path = save_tiny(tmp_path / "half.pth", halves)
    exact = load_backbone(path)
    ids = tokens()
    assert furthest(read(exact.runtime, ids)[0][0], exact.runtime.one_pass(ids)) <= BOUND
    rough = load_backbone(path, dtype="bfloat16")
    scores, rows = read(rough.runtime, ids)
    assert rows.dtype == torch.float32
    assert furthest(scores.float(), exact.runtime.one_pass(ids)) < 0.25
    with pytest.raises(UsageError, match="float64; expected: float32, bfloat16"):
        load_backbone(path, dtype="float64")


@pytest.mark.gpu
@pytest.mark.parametrize(("dtype", "bound"), [("float32", BOUND), ("bfloat16", 0.25)])
def test_on_a_gpu(folder, backbone, dtype, bound):
    other = load_backbone(folder, device="cuda", dtype=dtype)
    assert other.fingerprint == backbone.fingerprint
    ids = tokens().tolist()
    state, scores = backbone.prefill(ids)
    found, on_gpu = other.prefill(ids)
    assert furthest(on_gpu, scores) <= bound
    assert furthest(other.prefill([7, 8], state)[1], backbone.prefill([7, 8], state)[1]) <= bound
    assert found.recurrent.device.type == "cpu"


@pytest.mark.parametrize(
    ("layers", "width", "mib"), [(12, 768, 2.3), (24, 1024, 6.2), (24, 2048, 12.4), (32, 2560, 20.6)]
)
def test_state_sizes_of_published_models(layers, width, mib):
    shape = Rwkv7Shape(layers, width, width // 64, 4 * width, 65_536)
    assert round(layers * shape.state_reals * 4 / 2**20, 1) == mib


def test_ids_that_do_not_exist(backbone):
    with pytest.raises(InputError):
        backbone.prefill([65_536])
    with pytest.raises(InputError):
        backbone.encode_chunks([[5, 0]])


def changed(**changes):
    return {**tiny_tensors(), **{name.replace("__", "."): value for name, value in changes.items()}}


def without(*names):
    return {name: tensor for name, tensor in tiny_tensors().items() if name not in names}


REFUSED = {
    "missing": (lambda: without("blocks.1.att.v1", "blocks.0.ffn.x_k"), "missing tensors.*blocks.0.ffn.x_k"),
    "no embedding": (lambda: without("emb.weight"), "missing tensors.*emb.weight"),
    "no layer norm": (lambda: without("ln_out.bias"), "missing tensors.*ln_out.bias"),
    "unknown": (lambda: changed(extra__weight=torch.zeros(2)), "has not.*extra.weight"),
    "shape": (lambda: changed(ln_out__weight=torch.zeros(31)), "ln_out.weight.*another shape.*31.*32"),
    "integers": (lambda: changed(ln_out__weight=torch.zeros(32, dtype=torch.int8)), "no tensor of reals"),
    "heads": (lambda: changed(blocks__0__att__r_k=torch.zeros(3, 16)), "heads"),
    "flat embedding": (lambda: changed(emb__weight=torch.zeros(5)), "a matrix.*is none"),
    "no width": (
        lambda: changed(emb__weight=torch.zeros(65_536, 0), blocks__0__att__r_k=torch.zeros(0, 0)),
        "holds no reals",
    ),
    "no number": (lambda: changed(blocks__x__att__w0=torch.zeros(1)), "layers are missing"),
    "a far layer": (lambda: changed(blocks__99999999__att__w0=torch.zeros(1)), "layers are missing"),
    "a short name": (lambda: changed(blocks__2=torch.zeros(1)), "missing tensors"),
    "no numbers": (lambda: changed(ln_out__bias=torch.full((32,), torch.nan)), "cannot be trusted.*inf"),
    "vocabulary": (lambda: tiny_tensors(vocabulary=50_277), "another vocabulary.*50277.*65536"),
    "deep embed": (lambda: changed(blocks__0__ffn__s_emb__weight=torch.zeros(2)), "DeepEmbed"),
    "version 6": (lambda: {"blocks.0.att.time_maa_x": torch.zeros(1)}, "an RWKV-6 file"),
    "version 5": (
        lambda: {"blocks.0.att.ln_x.weight": torch.zeros(1), "blocks.0.att.time_decay": torch.zeros(1)},
        "an RWKV-5 file",
    ),
    "version 4": (lambda: {"blocks.0.att.time_decay": torch.zeros(1)}, "an RWKV-4 file.*transformers"),
    "tuned state": (lambda: {"blocks.0.att.time_state": torch.zeros(1)}, "tuned initial state"),
    "adapter": (lambda: {"blocks.0.att.key.lora_A": torch.zeros(1)}, "adapter"),
    "another model": (lambda: {"model.weight": torch.zeros(1)}, "no RWKV model"),
    "a number": (lambda: {"emb.weight": 3}, "something else than tensors"),
    "a list": (lambda: [torch.zeros(1)], "holds no tensors"),
    "nothing": (dict, "holds no tensors"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_files_that_are_refused(tmp_path, name):
    make, expected = REFUSED[name]
    torch.save(make(), tmp_path / "m.pth")
    with pytest.raises(ModelError, match=expected) as caught:
        load_backbone(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_first_layer_may_have_what_it_ignores(tmp_path, runtime):
    extra = {f"blocks__0__att__v{i}": torch.full((1,), torch.nan) for i in range(3)}
    other = load_backbone(save_tiny(tmp_path / "m.pth", changed(**extra)))
    ids = tokens()
    assert torch.equal(read(other.runtime, ids)[0], read(runtime, ids)[0])


def test_the_same_tensors_as_safetensors_are_the_same_model(tmp_path, folder, backbone, runtime):
    make("tiny", tmp_path, 0)
    other = load_backbone(tmp_path)
    assert (other.fingerprint, other.card.name) == (backbone.fingerprint, "tiny")
    ids = tokens()
    assert torch.equal(read(other.runtime, ids)[0], read(runtime, ids)[0])
    assert load_backbone(tmp_path / "tiny.safetensors").fingerprint == backbone.fingerprint
    whole = (tmp_path / "tiny.safetensors").read_bytes()
    (tmp_path / "tiny.safetensors").write_bytes(whole[:-1000])
    with pytest.raises(ModelError, match="cannot be read"):
        load_backbone(tmp_path)


@pytest.mark.parametrize("content", ["other", "cut", "empty", "huge"])
def test_safetensors_of_no_known_family(tmp_path, content):
    file = tmp_path / "model.safetensors"
    save_file({"model.weight": torch.zeros(1)}, file)
    raw = {"other": file.read_bytes(), "cut": file.read_bytes()[:30], "empty": b"", "huge": b"\xff" * 64}[content]
    file.write_bytes(raw)
    for path in (file, tmp_path):
        with pytest.raises(ModelError, match="is no model"):
            load_backbone(path)


@pytest.mark.parametrize("damage", ["cut", "empty", "text", "head"])
def test_damaged_files(tmp_path, folder, damage):
    raw = (folder / "tiny.pth").read_bytes()
    wrong = {"cut": raw[: len(raw) // 2], "empty": b"", "text": b"hello\n" * 9, "head": b"\0" * 64 + raw[64:]}[damage]
    (tmp_path / "m.pth").write_bytes(wrong)
    with pytest.raises(ModelError, match="cannot be read") as caught:
        load_backbone(tmp_path / "m.pth")
    assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    path = save_tiny(tmp_path_factory.mktemp("small") / "m.pth", tiny_tensors(layers=1, heads=1, vocabulary=8, rank=2))
    return path, path.read_bytes()


@settings(max_examples=150)
@given(data=st.data())
def test_any_damage_is_an_error_of_ours_or_none(small, data):
    path, raw = small
    wrong = bytearray(raw)
    for _ in range(data.draw(st.integers(1, 4))):
        # names, shapes and the zip's directory are at both ends
        place = data.draw(st.integers(0, 6_000) | st.integers(1, 6_000).map(lambda back: len(raw) - back))
        wrong[place] = data.draw(st.integers(0, 255))
    path.write_bytes(wrong)
    refusal, sizes = "", (16, 1)
    try:
        shape = shape_of(read_tensors(path), path)
        sizes = (shape.width, shape.layers)
    except ModelError as error:
        refusal = str(error)
    assert "\n" not in refusal
    assert sizes == (16, 1)


class Trap:
    """Touches a file when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (self.path,)


def test_no_code_of_a_file_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    sprung = tmp_path / "sprung"
    torch.save({**tiny_tensors(), "trap": Trap(str(sprung))}, tmp_path / "m.pth")
    with pytest.raises(ModelError, match="cannot be read"):
        load_backbone(tmp_path / "m.pth")
    assert not sprung.exists()
    torch.load(tmp_path / "m.pth", weights_only=False)
    assert sprung.exists()  # the trap works


def test_the_package_is_missing_or_untested(folder, monkeypatch):
    monkeypatch.setattr(library, "version", lambda _name: "0.9.1")
    with pytest.raises(ModelError, match=r"not tested; given: 0.9.1; expected: >=0.8.28,<0.8.33"):
        load_backbone(folder)
    monkeypatch.setattr(library, "find_spec", lambda _name: None)
    with pytest.raises(ModelError, match=r"precog-ssm\[rwkv\]"):
        load_backbone(folder)


IMPORT = """
import os, sys, torch
kept = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32, torch.backends.cudnn.benchmark
before = dict(os.environ)
from precog.backbones.registry import load_backbone
assert "rwkv" not in sys.modules
load_backbone(sys.argv[1])
assert "rwkv.model" in sys.modules
assert dict(os.environ) == before, set(os.environ) ^ set(before)
assert kept == (
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32, torch.backends.cudnn.benchmark
)
"""


def test_opening_a_model_is_silent_and_changes_nothing(folder):
    environment = {**os.environ, "RWKV_CUDA_ON": "1", "RWKV_DE_VERSION": "1"}  # neither is what is wanted here
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", IMPORT, str(folder)], capture_output=True, text=True, env=environment
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def test_index_in_one_process_and_ask_in_another(tmp_path, folder, capsys):
    run = runner(capsys)
    text = "# Buildings\n\nThe lighthouse of Marrow was built in 1843 by Ada Quill. Its lamp burns whale oil.\n"
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "lighthouse.md").write_text(text)
    indexed = subprocess.run(
        [sys.executable, "-m", "precog.cli.main", "index", tmp_path / "docs", "--corpus", tmp_path / "c"],
        capture_output=True,
        text=True,
        env={**os.environ, "PRECOG_MODEL": str(folder)},
        check=True,
    )
    assert "1 chunk" in indexed.stdout + indexed.stderr
    asked = run("ask", "Who built the lighthouse?", "--corpus", tmp_path / "c", "--model", folder, "--json")
    assert asked.status == 0, asked.err
    assert asked.json["mode"] == "inject"
    assert asked.json["text"]
    assert asked.json["text"] in text
    verified = run("verify", "--corpus", tmp_path / "c", "--model", folder)
    assert verified.status == 0, verified.err
    assert verified.out.splitlines()[-1] == "ok"
    torch.save({"blocks.0.att.time_maa_x": torch.zeros(1)}, tmp_path / "six.pth")
    refused = run("ask", "Who?", "--corpus", tmp_path / "c", "--model", tmp_path / "six.pth")
    assert refused.status == 1
    assert len(refused.err.splitlines()) == 1
    assert "an RWKV-6 file" in refused.err
