"""Hybrids of transformers: rows that grow with keys and values, and read on as one pass of the library reads."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import Lfm2Config, Lfm2ForCausalLM

from precog.backbones.card import ModelCard
from precog.backbones.hosted.backbone import HostedBackbone, fitted
from precog.backbones.hosted.restore import check_restored
from precog.backbones.huggingface import hybrid
from precog.backbones.huggingface.hybrid import HybridRuntime
from precog.backbones.huggingface.hybrid_tiny import SIZES, tiny_hybrid
from precog.backbones.registry import load_backbone
from precog.corpus.ask import Asker, AskOptions
from precog.corpus.indexing import IndexRequest, index_documents
from precog.corpus.report import Silent
from precog.errors import ModelError, StateError, UsageError
from precog.memory.opened import OpenMemory
from precog.records import ModelChoice
from precog.records.form import RecordForm
from precog.state import StateBatch, blend, codec_named, compose
from precog.store import CorpusStore

TOLERANCE = 1e-4
VOCABULARY = 258
NUM_TOKENS = 40
HYBRIDS = tuple(SIZES)
QUESTION = "Who built the lighthouse?"


class ByteTokenizer:
    """A token per byte, then the boundary and the end."""

    boundary_id, eos_id, vocab_size, sha256 = 256, 257, VOCABULARY, "b" * 64

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        return self.encode(text), [(i, i + 1) for i, char in enumerate(text) for _ in char.encode()]

    def decode(self, ids: list[int]) -> str:
        return bytes(i for i in ids if i < 256).decode(errors="replace")

    def token_bytes(self, token_id: int) -> bytes:
        return bytes([token_id]) if token_id < 256 else b""

    def starts_word(self, token_id: int) -> bool:
        return token_id == 32


def runtime_of(name: str, **asked: int) -> HybridRuntime:
    model = tiny_hybrid(name, vocab_size=VOCABULARY, **asked)
    return HybridRuntime(model, model.config)


def backbone_of(
    name: str,
    *,
    runtime: HybridRuntime | None = None,
    encode_mode: str = "once",
    start_ids: tuple[int, ...] = (256,),
) -> HostedBackbone:
    tokenizer = ByteTokenizer()
    card = ModelCard(f"tiny {name}", tokenizer.sha256, "a" * 64, backbone=f"huggingface:{name}", boundary_id=256)
    return HostedBackbone(
        runtime or runtime_of(name), card, {}, tokenizer, start_ids=start_ids, encode_mode=encode_mode
    )


@pytest.fixture(scope="module", params=HYBRIDS)
def runtime(request: pytest.FixtureRequest) -> HybridRuntime:
    return runtime_of(request.param)


@pytest.fixture(scope="module")
def backbone() -> HostedBackbone:
    return backbone_of("bamba")


def text(seed: int = 0, length: int = NUM_TOKENS) -> Tensor:
    return torch.randint(VOCABULARY, (length,), generator=torch.Generator().manual_seed(seed))


def after(runtime: HybridRuntime, ids: Tensor) -> Tensor:
    return runtime.forward(ids[None], runtime.empty()[:, None], (0,), every=False)[1]


def many(runtime: HybridRuntime, ids: Tensor, rows: Tensor, count: int) -> Tensor:
    return runtime.forward(ids[None], rows, (count,), every=True)[0][0]


def steps(runtime: HybridRuntime, ids: Tensor, rows: Tensor, count: int) -> Tensor:
    said = []
    for done, token in enumerate(ids):
        scores, rows = runtime.forward(token[None, None], rows, (count + done,), every=False)
        said.append(scores[0, 0])
    return torch.stack(said)


@pytest.mark.parametrize("cut", [1, 2, 3, 4, 17, NUM_TOKENS - 1])
def test_many_tokens_from_a_state_are_one_pass(runtime: HybridRuntime, cut: int) -> None:
    ids = text()
    judge = runtime.one_pass(ids)
    rows = after(runtime, ids[:cut])
    kept = rows.clone()
    assert (many(runtime, ids[cut:], rows, cut) - judge[cut:]).abs().max() <= TOLERANCE
    assert torch.equal(rows, kept)


def test_steps_from_a_state_are_one_pass(runtime: HybridRuntime) -> None:
    ids, cut = text(1), 1
    judge = runtime.one_pass(ids)
    assert (steps(runtime, ids[cut:], after(runtime, ids[:cut]), cut) - judge[cut:]).abs().max() <= TOLERANCE


def test_pieces_are_one_pass_and_the_context_is_heard(runtime: HybridRuntime) -> None:
    ids = text(2)
    judge = runtime.one_pass(ids)
    rows, said, count = runtime.empty()[:, None], [], 0
    for size in (1, 2, 3, 17, 1, 16):
        scores, rows = runtime.forward(ids[None, count : count + size], rows, (count,), every=True)
        said.append(scores[0])
        count += size
    assert count == NUM_TOKENS
    assert (torch.cat(said) - judge).abs().max() <= TOLERANCE
    lost = many(runtime, ids[17:], runtime.empty()[:, None], 0)
    assert (lost - judge[17:]).abs().max() > 0.5  # so that none of these comparisons could hold by chance


def test_the_same_injection_says_the_same_and_states_do_not_meet(runtime: HybridRuntime) -> None:
    question = text(5, 7)
    rows = [after(runtime, text(seed, 20)) for seed in (3, 4)]
    first = [many(runtime, question, own, 20) for own in rows]
    assert not torch.equal(*first)
    for _ in range(3):
        assert all(torch.equal(many(runtime, question, own, 20), said) for own, said in zip(rows, first, strict=True))


def test_rows_of_a_batch_are_as_alone_whatever_they_have_read(runtime: HybridRuntime) -> None:
    lengths, question = (5, 11, 5), text(6, 6)
    alone = [after(runtime, text(seed, length)) for seed, length in enumerate(lengths)]
    reals = max(rows.shape[2] for rows in alone)
    together = torch.cat([torch.nn.functional.pad(rows, (0, reals - rows.shape[2])) for rows in alone], dim=1)
    scores, made = runtime.forward(question.expand(3, -1), together, lengths, every=True)
    for i, (rows, length) in enumerate(zip(alone, lengths, strict=True)):
        said, grown = runtime.forward(question[None], rows, (length,), every=True)
        assert (scores[i] - said[0]).abs().max() <= TOLERANCE
        assert (made[:, i, : grown.shape[2]] - grown[:, 0]).abs().max() <= TOLERANCE
        assert not made[:, i, grown.shape[2] :].any()


def test_room_for_more_tokens_changes_nothing_but_the_length(runtime: HybridRuntime) -> None:
    ids, shape = text(7, 12), runtime.shape
    short = after(runtime, ids)
    roomy = torch.nn.functional.pad(runtime.empty(), (0, shape.with_room(40).reals - shape.reals))[:, None]
    long = runtime.forward(ids[None], roomy, (0,), every=False)[1]
    assert short.shape[2] == shape.with_room(12).reals < long.shape[2] == shape.with_room(40).reals
    assert torch.equal(long[..., : short.shape[2]], short)
    assert torch.equal(many(runtime, text(8, 5), long, 12), many(runtime, text(8, 5), short, 12))
    for layer, reals in enumerate(shape.with_room(12).layer_reals):
        assert not short[layer, 0, reals:].any()


def test_a_row_without_the_keys_it_is_said_to_have_is_refused(runtime: HybridRuntime) -> None:
    with pytest.raises(StateError, match="too short for the tokens it has read"):
        runtime.forward(text()[None], runtime.empty()[:, None], (4000,), every=False)


@pytest.mark.parametrize(
    ("name", "one_by_one"), [("jamba", False), ("zamba2", True), ("nemotron_h", True)], ids=lambda value: str(value)
)
def test_the_library_alone_loses_or_bends_the_state(
    name: str, one_by_one: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hybrid, "mend", lambda model: None)
    stock, ids, cut = runtime_of(name), text(), 17
    read = steps if one_by_one else many
    error = (read(stock, ids[cut:], after(stock, ids[:cut]), cut) - stock.one_pass(ids)[cut:]).abs().max()
    assert error > 3 * TOLERANCE


@pytest.mark.parametrize("limit", [(0.05, 0.2), (0.0, 0.1), None])
def test_bounds_of_time_steps_hold_for_single_tokens(limit: tuple[float, float] | None) -> None:
    model = tiny_hybrid("falcon_h1", vocab_size=VOCABULARY)  # whose time steps have a factor of their own, too
    for module in model.modules():
        if hasattr(module, "time_step_limit"):
            module.time_step_limit = limit or (0.0, float("inf"))
            module.mup_vector[..., -8:] = 0.7
    runtime, ids = HybridRuntime(model, model.config), text()
    assert (steps(runtime, ids[9:], after(runtime, ids[:9]), 9) - runtime.one_pass(ids)[9:]).abs().max() <= TOLERANCE


def test_bfloat16_is_within_its_own_rounding() -> None:
    model = tiny_hybrid("bamba", vocab_size=VOCABULARY).to(torch.bfloat16)
    runtime, ids = HybridRuntime(model, model.config), text()
    judge = runtime.one_pass(ids)
    rows = after(runtime, ids[:17])
    assert rows.dtype == torch.float32
    assert (many(runtime, ids[17:], rows, 17) - judge[17:]).abs().max() <= 2**-3 * judge.abs().max()


def test_what_is_not_supported_is_refused() -> None:
    model = tiny_hybrid("lfm2", vocab_size=VOCABULARY)
    with pytest.raises(ModelError, match="float64"):
        HybridRuntime(model.double(), model.config)
    model = tiny_hybrid("lfm2", vocab_size=VOCABULARY)
    model.config.rope_parameters = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}
    with pytest.raises(ModelError, match="rotation of keys"):
        HybridRuntime(model, model.config)
    for kinds, message in ((["full_attention"] * 2, "no recurrent state"), (["conv"] * 2, "has no attention")):
        config = Lfm2Config(
            **{
                **SIZES["lfm2"],
                "num_hidden_layers": 2,
                "layer_types": kinds,
                "vocab_size": 64,
                "hidden_size": 32,
                "intermediate_size": 48,
                "num_attention_heads": 4,
                "num_key_value_heads": 2,
            }
        )
        with pytest.raises(ModelError, match=message):
            HybridRuntime(Lfm2ForCausalLM(config), config)
    with pytest.raises(ModelError, match="no such hybrid"):
        tiny_hybrid("llama")


@pytest.mark.parametrize("name", HYBRIDS)
def test_every_hybrid_is_trusted_as_a_backbone(name: str) -> None:
    made = check_restored(backbone_of(name))
    assert made.spec.grows
    assert not made.spec.averages
    assert made.spec.capacity == 1 + 256  # <s> and the longest chunk unless told otherwise


def test_a_folder_opens_and_another_weight_is_another_model(folder_of: Callable[..., Path]) -> None:
    opened = [
        load_backbone(folder_of(tiny_hybrid("zamba2", vocab_size=384, seed=seed), name=f"seed-{seed}"))
        for seed in (0, 0, 1)
    ]
    assert opened[0].spec.grows
    assert opened[0].fingerprint == opened[1].fingerprint != opened[2].fingerprint


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", HYBRIDS)
def test_every_hybrid_is_trusted_on_a_gpu(name: str) -> None:
    model = tiny_hybrid(name, vocab_size=VOCABULARY).to("cuda")
    made = check_restored(backbone_of(name, runtime=HybridRuntime(model, model.config)))
    question, (state,) = [70, 71, 72], made.encode_chunks([[65] * 20])
    assert state.recurrent.device.type == "cpu"
    assert torch.equal(made.prefill(question, state)[1], made.prefill(question, state)[1])


def test_capacity_changes_sizes_and_nothing_else(backbone: HostedBackbone) -> None:
    short, chunk = fitted(backbone, 64), list(range(40, 80))
    assert isinstance(short, HostedBackbone)
    assert short.fingerprint == backbone.fingerprint
    assert (short.spec.capacity, backbone.spec.capacity) == (65, 257)
    assert short.spec.num_reals() < backbone.spec.num_reals()
    assert fitted(short, 64) is short
    (small,), (large,) = short.encode_chunks([chunk]), backbone.encode_chunks([chunk])
    assert small.recurrent.shape == (4, short.spec.reals_per_layer)
    assert torch.equal(large.recurrent[:, : small.recurrent.shape[1]], small.recurrent)
    question = [70, 71, 72]
    assert torch.equal(short.prefill(question, large)[1], backbone.prefill(question, small)[1])
    batch = StateBatch.of([small, large]).joined(backbone.open([small]))
    assert len(batch) == 3
    assert torch.equal(batch.row(0).recurrent, large.recurrent)


def test_capacity_counts_the_template_and_both_readings() -> None:
    twice = backbone_of("lfm2", encode_mode="twice", start_ids=())
    assert twice.spec.capacity == 512
    card = replace(twice.card, chunk_template="[{chunk}]")
    framed = HostedBackbone(twice.runtime, card, {}, twice.tokenizer, start_ids=(256,), encode_mode="twice")
    assert framed.with_capacity(100).spec.capacity == 1 + 2 * 102
    assert framed.with_capacity(100).encode_chunks([[65] * 100])[0].num_tokens == 1 + 2 * 102


def test_a_chunk_or_a_state_without_room_is_refused(backbone: HostedBackbone) -> None:
    short = backbone.with_capacity(64)
    with pytest.raises(StateError, match=r"have room for; given: 65 tokens; expected: at most 64"):
        short.encode_chunks([[65] * 65])
    state, _ = short.prefill([65] * 30, short.encode_chunks([[65] * 64])[0])
    assert state.num_tokens == 1 + 64 + 30
    with pytest.raises(StateError, match="has read too much to be stored"):
        codec_named("fp32").encode(state, short.spec)
    state.check(short.spec, grown=True)  # while it is read on, it may be as long as it is


def test_stored_states_come_back_bit_by_bit(backbone: HostedBackbone) -> None:
    short, codec = backbone.with_capacity(64), codec_named("fp32")
    (state,) = short.encode_chunks([[65 + i for i in range(40)]])
    data = codec.encode(state, short.spec)
    layout = RecordForm("fp32", "all", "once", "float32", 64).layout(short.spec, VOCABULARY)
    assert len(data) == layout.state_bytes == 4 * sum(short.spec.layer_reals)
    assert layout.note["room_tokens"] == 65
    back = codec.decode(data, short.spec, num_tokens=state.num_tokens)
    assert torch.equal(back.recurrent, state.recurrent)
    assert torch.equal(short.prefill([70, 71], back)[1], short.prefill([70, 71], state)[1])


def test_some_layers_only_are_refused(backbone: HostedBackbone) -> None:
    assert backbone.spec.kept_layers("all").is_all
    for form in ("none", "top:1", "0,2"):
        with pytest.raises(UsageError, match="cannot go on from some of its layers"):
            RecordForm("fp16", form, "once", "float32", 64).layout(backbone.spec, VOCABULARY)


def test_one_state_is_exact_and_means_are_refused(backbone: HostedBackbone) -> None:
    states = backbone.encode_chunks([[65] * 9, [66] * 12])
    assert compose(states[:1], [1.0], backbone.spec).exact
    for rule in ("mean", "concat"):
        with pytest.raises(StateError, match="bound to their positions"):
            compose(states, [1.0, 0.5], backbone.spec, rule=rule)
    with pytest.raises(StateError, match="bound to their positions"):
        blend(StateBatch.of(states).recurrent, (0.5, 0.5), backbone.spec)


class Watching(Silent):
    def __init__(self) -> None:
        self.told: list[tuple[str, int, int]] = []

    def growing(self, state_bytes: int, room_tokens: int) -> None:
        self.told.append(("growing", state_bytes, room_tokens))

    def start(self, total_bytes: int) -> None:
        self.told.append(("start", total_bytes, 0))


@pytest.fixture(scope="module")
def docs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs")
    (folder / "a.txt").write_text(
        "The lighthouse of Marrow was built in 1843 by Ada Quill. Its lamp burns whale oil.\n"
    )
    (folder / "b.txt").write_text("A mill stands on the river Ouse. Tom Reed made its wheel of oak in 1790.\n")
    return folder


@pytest.fixture(scope="module")
def corpus(backbone: HostedBackbone, docs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, watching = tmp_path_factory.mktemp("corpora") / "c", Watching()
    request = IndexRequest(
        (str(docs),), folder, ModelChoice(loaded=backbone), wanted={"chunk_tokens": 96, "codec": "fp32"}
    )
    assert index_documents(request, progress=watching).states == 2
    spec = backbone.with_capacity(96).spec
    assert watching.told[0] == ("growing", 4 * sum(spec.layer_reals), 97)
    assert watching.told[1][0] == "start"
    return folder


def test_stored_states_answer_as_reading_does(corpus: Path, backbone: HostedBackbone) -> None:
    with CorpusStore.open(corpus) as store:
        assert store.layout.note["room_tokens"] == 97
    with Asker(corpus, model=ModelChoice(loaded=backbone)) as asker:
        injected = asker.ask(QUESTION, AskOptions(always_answer=True))
        read = asker.ask(QUESTION, AskOptions(mode="in-context", always_answer=True))
        assert injected.text == read.text
        assert injected.text
        mixed = asker.ask(QUESTION, AskOptions(inject=2, compose="mix", always_answer=True))
        assert mixed.text
        with pytest.raises(StateError, match="bound to their positions"):
            asker.ask(QUESTION, AskOptions(inject=2, compose="mean"))
        with pytest.raises(UsageError, match="some of its layers"):
            asker.ask(QUESTION, AskOptions(layers="top:1"))


def test_a_subset_of_layers_leaves_no_corpus_behind(docs: Path, backbone: HostedBackbone, tmp_path: Path) -> None:
    request = IndexRequest((str(docs),), tmp_path / "c", ModelChoice(loaded=backbone), wanted={"layers": "alternate"})
    with pytest.raises(UsageError, match="some of its layers"):
        index_documents(request)
    assert not (tmp_path / "c").exists()


def test_a_memory_is_refused_before_it_is_made(backbone: HostedBackbone, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="consolidates by averaging"):
        OpenMemory.open(tmp_path / "u", ModelChoice(loaded=backbone), create=True)
    assert not (tmp_path / "u").exists()
