"""llama.cpp as a runtime: its states restored exactly, its vocabulary lossless, its files refused in one line."""

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from ended import Run, runner
from hypothesis import given
from hypothesis import strategies as st

from precog.backbones.gguf import library as library_module
from precog.backbones.gguf.blob import BlobLayout
from precog.backbones.gguf.layout import ContextParams, ModelParams, check_layout
from precog.backbones.gguf.library import load_library
from precog.backbones.gguf.model import LlamaContext, LlamaModel
from precog.backbones.gguf.runtime import BATCH_TOKENS, MAX_SEQUENCES, GgufRuntime
from precog.backbones.gguf.tiny import ARCHITECTURES, Value, write_gguf, write_tiny
from precog.backbones.hosted.backbone import HostedBackbone
from precog.backbones.hosted.restore import restored
from precog.backbones.registry import load_backbone
from precog.backbones.template import Template
from precog.errors import ForeignStateError, InputError, ModelError, StateError, UsageError
from precog.state import LayerSubset, State
from precog.state.codec import Float32Codec

pytestmark = pytest.mark.skipif(find_spec("xllamacpp") is None, reason="llama.cpp is not installed")

KERNEL = 4
NUM_TOKENS = 24
TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("gguf")
    return {name: write_tiny(folder / f"{name}.gguf", name) for name in ARCHITECTURES}


@pytest.fixture(scope="module")
def backbones(files: dict[str, Path]) -> dict[str, HostedBackbone]:
    found = {name: load_backbone(path) for name, path in files.items()}
    return {name: backbone for name, backbone in found.items() if isinstance(backbone, HostedBackbone)}


@pytest.fixture(params=ARCHITECTURES)
def backbone(request: pytest.FixtureRequest, backbones: dict[str, HostedBackbone]) -> HostedBackbone:
    return backbones[request.param]


def ids_of(backbone: HostedBackbone, *shape: int, seed: int = 3) -> torch.Tensor:
    return torch.randint(backbone.runtime.vocab_size, shape, generator=torch.Generator().manual_seed(seed))


def empty_rows(backbone: HostedBackbone, rows: int = 1) -> torch.Tensor:
    return backbone.runtime.empty()[:, None].expand(-1, rows, -1)


def write_without_weights(path: Path, architecture: str, **extra: int) -> Path:
    """A file of which llama.cpp can read what it is and its vocabulary."""
    sizes = {"context_length": 64, "embedding_length": 32, "block_count": 1, "feed_forward_length": 64}
    sizes |= {"attention.head_count": 4, "attention.head_count_kv": 4, "vocab_size": 4, **extra}
    metadata: dict[str, Value] = {"general.architecture": architecture}
    metadata |= {f"{architecture}.attention.layer_norm_rms_epsilon": 1e-5}
    metadata |= {f"{architecture}.{key}": value for key, value in sizes.items()}
    metadata["tokenizer.ggml.model"] = "no_vocab"
    write_gguf(path, metadata, {"token_embd.weight": np.zeros((4, 32), np.float32)})
    return path


def requantised(source: Path, target: Path, kind_name: str) -> Path:
    """The same model with its matrices in another precision, by the reference package of the format."""
    gguf = pytest.importorskip("gguf")
    kind = gguf.GGMLQuantizationType[kind_name]
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, reader.fields["general.architecture"].contents())
    for key, field in reader.fields.items():
        if not key.startswith("GGUF.") and key != "general.architecture":
            inner = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(key, field.contents(), field.types[0], sub_type=inner)
    for tensor in reader.tensors:
        values = np.asarray(tensor.data)
        is_matrix = values.ndim == 2 and values.shape[1] % 32 == 0 and min(values.shape) > 1
        if is_matrix and not any(part in tensor.name for part in ("conv1d", "ssm_a", "lerp", "norm")):
            writer.add_tensor(tensor.name, gguf.quants.quantize(values, kind), raw_dtype=kind)
        else:
            writer.add_tensor(tensor.name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


# Laws of states


@pytest.mark.parametrize("cut", [1, 2, KERNEL - 1, KERNEL, 17, NUM_TOKENS - 1])
def test_reading_on_from_a_state_equals_one_pass(backbone: HostedBackbone, cut: int) -> None:
    runtime, ids = backbone.runtime, ids_of(backbone, NUM_TOKENS)
    judge = runtime.one_pass(ids)
    head, rows = runtime.forward(ids[None, :cut], empty_rows(backbone), (0,), every=True)
    many, after = runtime.forward(ids[None, cut:], rows, (cut,), every=True)
    steps = []
    for done, token in enumerate(ids[cut:].tolist()):
        scores, rows = runtime.forward(torch.tensor([[token]]), rows, (cut + done,), every=False)
        steps.append(scores[0])
    for found, expected in ((head[0], judge[:cut]), (many[0], judge[cut:]), (torch.cat(steps), judge[cut:])):
        assert (found - expected).abs().max() <= TOLERANCE
    assert (rows - after).abs().max() <= TOLERANCE * max(1.0, float(after.abs().max()))
    assert judge.abs().max() > 1  # a model that says something


def test_passes_longer_than_a_batch_go_on_where_they_were(backbone: HostedBackbone) -> None:
    ids = ids_of(backbone, BATCH_TOKENS + 37)
    every, rows = backbone.runtime.forward(ids[None], empty_rows(backbone), (0,), every=True)
    last, same = backbone.runtime.forward(ids[None], empty_rows(backbone), (0,), every=False)
    judge = backbone.runtime.one_pass(ids)
    assert (every[0] - judge).abs().max() <= TOLERANCE
    assert last.shape == (1, 1, backbone.runtime.vocab_size)
    assert (last[0, 0] - judge[-1]).abs().max() <= TOLERANCE
    assert torch.equal(rows, same)


def test_forward_keeps_nothing_and_changes_nothing(backbone: HostedBackbone) -> None:
    runtime, ids = backbone.runtime, ids_of(backbone, 2, 9)
    rows = [runtime.forward(row[None], empty_rows(backbone), (0,), every=False)[1] for row in ids]
    kept = [row.clone() for row in rows]
    question = ids_of(backbone, 1, 5, seed=8)
    alone = [runtime.forward(question, row, (9,), every=True) for row in rows]
    for turn in (0, 1, 1, 0, 0):
        scores, after = runtime.forward(question, rows[turn], (9,), every=True)
        assert torch.equal(scores, alone[turn][0])
        assert torch.equal(after, alone[turn][1])
    assert all(torch.equal(row, copy) for row, copy in zip(rows, kept, strict=True))
    assert not torch.equal(alone[0][0], alone[1][0])


@pytest.mark.parametrize("length", [1, 6])
def test_rows_of_a_batch_do_not_meet(backbone: HostedBackbone, length: int) -> None:
    runtime, size = backbone.runtime, MAX_SEQUENCES + 3
    heads, tails = ids_of(backbone, size, 7), ids_of(backbone, size, length, seed=4)
    _, rows = runtime.forward(heads, empty_rows(backbone, size), (0,) * size, every=False)
    together, after = runtime.forward(tails, rows, (7,) * size, every=True)
    for i in range(size):
        scores, alone = runtime.forward(tails[i : i + 1], rows[:, i : i + 1], (7,), every=True)
        assert (scores[0] - together[i]).abs().max() <= TOLERANCE
        assert (alone[:, 0] - after[:, i]).abs().max() <= TOLERANCE * max(1.0, float(after.abs().max()))


def test_threads_take_turns(backbone: HostedBackbone) -> None:
    texts = ids_of(backbone, 6, 11)

    def read(row: torch.Tensor) -> torch.Tensor:
        return backbone.runtime.forward(row[None], empty_rows(backbone), (0,), every=True)[0]

    expected = [read(row) for row in texts]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(read, texts))
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


def test_the_window_is_what_a_convolution_last_saw(backbone: HostedBackbone) -> None:
    start, stop = backbone.spec.window
    name = backbone.card.name.split()[1]
    assert (start, stop) == (0, {"mamba": 3 * 128, "mamba2": 3 * 144}.get(name, 2 * 64))
    ids = ids_of(backbone, 1, 12)
    state, _ = backbone.prefill(ids[0].tolist())
    other, _ = backbone.prefill(ids_of(backbone, 8, seed=9).tolist() + ids[0, -3:].tolist())
    one, two = state.recurrent[0], other.recurrent[0]
    known = stop // 2 if "rwkv" in backbone.card.name else stop  # the second shift of a layer sees what the first made
    assert torch.allclose(one[:known], two[:known], atol=1e-5)  # three tokens ago or less
    assert not torch.allclose(one[stop:], two[stop:], atol=1e-2)


def test_states_survive_the_codec_bit_for_bit(backbone: HostedBackbone) -> None:
    state, logits = backbone.prefill(ids_of(backbone, 9).tolist())
    codec = Float32Codec()
    again = codec.decode(codec.encode(state, backbone.spec), backbone.spec, num_tokens=state.num_tokens)
    assert torch.equal(again.recurrent, state.recurrent)
    one, other = (backbone.prefill(ids_of(backbone, 4, seed=5).tolist(), start)[1] for start in (state, again))
    assert torch.equal(one, other)
    assert not torch.equal(one, logits)


def test_layers_that_were_left_out_are_zero_and_can_be_read_on(backbone: HostedBackbone) -> None:
    state, _ = backbone.prefill(ids_of(backbone, 9).tolist())
    subset = LayerSubset.parse("1", backbone.spec.layers)
    codec = Float32Codec()
    part = codec.decode(codec.encode(state, backbone.spec, subset), backbone.spec, subset, num_tokens=9)
    assert not part.recurrent[0].any()
    question = ids_of(backbone, 4, seed=5).tolist()
    after, logits = backbone.prefill(question, part)
    assert torch.isfinite(logits).all()
    assert torch.equal(after.recurrent[0], backbone.prefill(question, State.empty(backbone.spec))[0].recurrent[0])


def test_a_changed_weight_is_another_model(files: dict[str, Path], tmp_path: Path) -> None:
    data = bytearray(files["mamba"].read_bytes())
    data[-5] ^= 1
    (tmp_path / "changed.gguf").write_bytes(data)
    one, other = load_backbone(files["mamba"]), load_backbone(tmp_path / "changed.gguf")
    state, _ = one.prefill([1, 2])
    assert one.fingerprint != other.fingerprint
    with pytest.raises(ForeignStateError):
        other.prefill([3], state)


@pytest.mark.parametrize("kind", ["F16", "Q8_0", "Q4_0"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_weights_of_other_precisions_work_as_they_are(
    files: dict[str, Path], tmp_path: Path, architecture: str, kind: str
) -> None:
    path = requantised(files[architecture], tmp_path / "q.gguf", kind)
    backbone = load_backbone(path)
    assert isinstance(backbone, HostedBackbone)
    assert not backbone.runtime.shape.exact
    assert restored(backbone).many <= TOLERANCE
    state, _ = backbone.prefill([1, 2, 3])
    assert state.recurrent.dtype == torch.float32
    assert state.encoding_dtype == "float16"


# Bytes of llama.cpp


@given(st.integers(1, 4), st.integers(0, 5), st.integers(1, 6), st.integers(0, 1000))
def test_rows_and_bytes_are_one(layers: int, window: int, memory: int, position: int) -> None:
    rng = np.random.default_rng(position)
    rows = rng.standard_normal((layers, window + memory)).astype(np.float32)
    words = [0x5A5A, 0, 1, position, 0, 0, layers]
    for part in (rows[:, :window], rows[:, window:]):
        for row in part:
            words += [0, 4 * row.size, 0, *row.view(np.uint32).tolist()]
    blob = np.array(words, dtype=np.uint32).view(np.uint8)
    layout = BlobLayout.of(blob, layers)
    assert (layout.window, layout.memory) == (window, memory)
    assert np.array_equal(layout.rows(blob), rows)
    assert np.array_equal(layout.blob(rows, position), blob)
    for changed in (2, 5, 6, 7, 8, 9):
        damaged = blob.copy()
        damaged[4 * changed] ^= 1
        with pytest.raises(StateError):
            layout.rows(damaged)
        if changed != 8:  # a row of another length only shifts the rest
            with pytest.raises(ModelError):
                BlobLayout.of(damaged, layers)
    with pytest.raises(StateError, match="another size"):
        layout.rows(blob[:-4])
    with pytest.raises(StateError, match="another shape"):
        layout.blob(rows[:, :-1], 0)


def test_a_refused_state_destroys_nothing(files: dict[str, Path]) -> None:
    model = LlamaModel(files["mamba"])
    runtime = GgufRuntime(model)
    tokens, start = torch.tensor([[5, 6, 7]]), runtime.empty()[:, None]
    expected, rows = runtime.forward(tokens, start, (0,), every=True)
    with pytest.raises(StateError, match="another shape"):
        runtime.forward(tokens, rows[:, :, :-1], (3,), every=True)
    context = LlamaContext(model, sequences=2, batch=8, threads=1)
    context.decode(tokens.numpy(), 0, every=False)
    whole = context.state(0)
    with pytest.raises(StateError, match=r"llama\.cpp did not take a state"):
        context.restore(1, whole[:-8])
    assert np.array_equal(context.state(0), whole)
    assert torch.equal(runtime.forward(tokens, start, (0,), every=True)[0], expected)


# Vocabulary

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\u2581"), max_size=40)


@given(TEXTS, st.sampled_from(ARCHITECTURES))
def test_texts_come_back_and_spans_cover_them(backbones: dict[str, HostedBackbone], text: str, name: str) -> None:
    tokenizer = backbones[name].tokenizer
    ids, spans = tokenizer.encode_with_offsets(text)
    assert ids == tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert len(ids) == len(spans)
    place = 0
    for start, end in spans:
        assert start <= place <= end
        place = end
    assert place == len(text)
    assert all(0 <= token < tokenizer.vocab_size for token in ids)


@pytest.mark.parametrize("text", ["<s>", "</s>", "<|endoftext|>", "a<s>b</s>", "<unk><s>"])
def test_no_text_encodes_to_a_control_token(backbone: HostedBackbone, text: str) -> None:
    tokenizer = backbone.tokenizer
    ids = tokenizer.encode(text)
    assert not {tokenizer.boundary_id, tokenizer.eos_id} & set(ids)
    assert tokenizer.decode(ids) == text
    assert tokenizer.token_bytes(tokenizer.eos_id) == b""


def test_words_and_what_opens_texts(backbones: dict[str, HostedBackbone]) -> None:
    for name, backbone in backbones.items():
        tokenizer = backbone.tokenizer
        ids = tokenizer.encode("is the river")
        assert [tokenizer.token_bytes(token) for token in ids][-2:] == [b" the", b" river"], name
        assert tokenizer.starts_word(ids[-1])
        assert backbone.empty_state().num_tokens == (1 if name == "mamba2" else 0)  # its file says that <s> opens texts
        with pytest.raises(InputError, match="not valid Unicode"):
            tokenizer.encode("\ud800")
    mark = backbones["mamba2"].tokenizer
    assert mark.decode(mark.encode("a\u2581b")) == "a b"
    assert mark.encode_with_offsets("a\u2581b")[1][-1] == (2, 3)


# What is refused


def test_a_file_cut_short(files: dict[str, Path], tmp_path: Path) -> None:
    data = files["mamba"].read_bytes()
    for size in (0, 3, 20, 1000, len(data) // 2, len(data) - 1):
        path = tmp_path / f"{size}.gguf"
        path.write_bytes(data[:size])
        with pytest.raises(ModelError, match=r"no GGUF file|cannot open this file") as caught:
            load_backbone(path)
        assert "\n" not in str(caught.value)


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "a.gguf", "mamba")
    path.write_bytes(path.read_bytes().replace(b"blk.1.ssm_d", b"blk.1.ssm_X"))
    with pytest.raises(ModelError, match=r"blk\.1\.ssm_d"):
        load_backbone(path)


def test_transformers_and_hybrids(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"has no recurrent state.*\(llama\)"):
        load_backbone(write_without_weights(tmp_path / "a.gguf", "llama"))
    ssm = {f"ssm.{key}": 4 for key in ("conv_kernel", "inner_size", "state_size", "time_step_rank", "group_count")}
    with pytest.raises(ModelError, match=r"hybrid models in GGUF are not supported.*\(falcon-h1\).*transformers"):
        load_backbone(write_without_weights(tmp_path / "b.gguf", "falcon-h1", **ssm))


def test_a_vocabulary_that_llama_cpp_breaks_down_over(files: dict[str, Path], tmp_path: Path) -> None:
    data = files["mamba2"].read_bytes()
    twice, lacking = tmp_path / "twice.gguf", tmp_path / "lacking.gguf"
    twice.write_bytes(data.replace(b"<0xE3>", b"<0xE2>"))
    with pytest.raises(ModelError, match=r"breaks down over this file.*GGML_ASSERT") as caught:
        load_backbone(twice)
    assert "\n" not in str(caught.value)
    lacking.write_bytes(data.replace(b"<0xE2>", b"<2xE2>"))
    with pytest.raises(ModelError, match="cannot spell every text"):
        load_backbone(lacking)


def test_heads_that_llama_cpp_would_write_beyond(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "a.gguf", "rwkv7")
    key = b"rwkv7.wkv.head_size" + (4).to_bytes(4, "little")
    path.write_bytes(path.read_bytes().replace(key + (64).to_bytes(4, "little"), key + (32).to_bytes(4, "little")))
    with pytest.raises(ModelError, match="heads of this size"):
        load_backbone(path)


def test_a_dtype_of_its_own(files: dict[str, Path]) -> None:
    with pytest.raises(UsageError, match="its own precision"):
        load_backbone(files["mamba"], dtype="bfloat16")


@pytest.fixture
def unloaded() -> object:
    load_library.cache_clear()
    yield
    load_library.cache_clear()


def test_no_library_or_an_untested_one(unloaded: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library_module, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match=r"not installed; pip install 'precog-ssm\[gguf\]'"):
        load_library()
    monkeypatch.undo()
    monkeypatch.setattr(library_module, "version", lambda package: "2031.1")
    with pytest.raises(ModelError, match=r"not tested; given: xllamacpp 2031\.1; expected: xllamacpp 2026"):
        load_library()


def test_structs_of_another_build_are_noticed() -> None:
    library = load_library()
    check_layout(library.model_params(), library.context_params(), "this")

    class Shifted(ctypes.Structure):
        _fields_ = (("unknown", ctypes.c_void_p), *ContextParams._fields_)

    theirs = library.context_params()
    shifted = Shifted.from_buffer_copy(bytes(theirs) + bytes(ctypes.sizeof(Shifted) - ctypes.sizeof(theirs)))
    with pytest.raises(ModelError, match="in another way: n_batch reads"):
        check_layout(library.model_params(), shifted, "another")


def test_the_structs_of_llama_cpp_python_are_its_own(
    unloaded: object, monkeypatch: pytest.MonkeyPatch, files: dict[str, Path]
) -> None:
    real = load_library()
    load_library.cache_clear()
    theirs = ModuleType("llama_cpp.llama_cpp")
    theirs.llama_model_params = type("llama_model_params", (ModelParams,), {})
    theirs.llama_context_params = type("llama_context_params", (ContextParams,), {})
    theirs._lib = real.functions
    monkeypatch.setitem(sys.modules, "llama_cpp", ModuleType("llama_cpp"))
    monkeypatch.setitem(sys.modules, "llama_cpp.llama_cpp", theirs)
    monkeypatch.setattr(library_module, "find_spec", lambda name: object() if name == "llama_cpp" else None)
    monkeypatch.setattr(library_module, "version", lambda package: "0.3.36")
    library = load_library()
    assert library.name == "llama-cpp-python 0.3.36"
    assert type(library.context_params()) is theirs.llama_context_params


# The command line


def test_index_restart_and_ask(files: dict[str, Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("The tower stands in the river. It is made of stone.\n")
    (tmp_path / "docs" / "b.txt").write_text("The Question of the mill is old. Its Answer is not.\n")
    corpus, model = tmp_path / "c", files["mamba2"]

    def precog(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "precog", *arguments, "--corpus", str(corpus), "--model", str(model)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
        return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)

    indexed = precog("index", str(tmp_path / "docs"), "--json")
    assert indexed.returncode == 0, indexed.stderr
    assert "llama" not in indexed.stderr
    run: Callable[..., Run] = runner(capfd)
    asked = run("ask", "Where is the tower?", "--json", "--max-tokens", 6, "--corpus", corpus, "--model", model)
    assert asked.json["model"] == "tiny mamba2"
    assert asked.json["mode"] == "inject"
    ended = run("verify", "--corpus", corpus, "--model", model)
    assert ended.status == 0
    assert "ok" in ended.out
    assert run("ask", "Where?", "--corpus", corpus, "--model", files["rwkv7"]).status == 1  # another model's
    [segment] = [path for path in corpus.rglob("segments/*") if path.is_file()]
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)
    damaged = run("verify", "--corpus", corpus, "--model", model)
    assert damaged.status == 1
    assert "damaged" in damaged.err + damaged.out


def test_templates_and_names(files: dict[str, Path]) -> None:
    backbone = load_backbone(files["mamba"], template=Template(chunk="Text: {chunk}"))
    assert backbone.card.chunk_template == "Text: {chunk}"
    assert backbone.card.question_template == "\n\nQuestion: {question}\nAnswer:"
    assert backbone.fingerprint != load_backbone(files["mamba"]).fingerprint
    with pytest.raises(UsageError, match="mamba, mamba2, rwkv6, rwkv7"):
        write_tiny(files["mamba"].with_name("x.gguf"), "llama")
