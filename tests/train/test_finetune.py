"""Fine-tuning learns the examples, leaves the base alone, resumes, and refuses what does not belong together."""

import json
import re
from hashlib import sha256
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from precog.backbones.registry import load_backbone, load_network
from precog.backbones.tenns.adapter import read_adapter_card
from precog.backbones.tenns.checkpoint import load_model, read_card, save_model
from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.kept import keep_confidence
from precog.backbones.tenns.lora import LoraSettings
from precog.backbones.tenns.model import build
from precog.errors import ModelError, TrainingError, UsageError
from precog.text.tokenizer import MISTRAL_SHA256
from precog.train.adapter import merge_adapter
from precog.train.finetune import Finetuned, FinetuneRequest, default_settings, finetune
from precog.train.identity import check_identity
from precog.train.interrupt import TrainingInterrupted

TOWNS = [
    "Oslo", "Riga", "Bern", "Lyon", "Cork", "York", "Kiel", "Nice", "Bari", "Graz",
    "Linz", "Pisa", "Turku", "Gent", "Hull", "Bath", "Lund", "Metz", "Brno", "Split",
]  # fmt: skip
FAST = {"steps": 16, "batch_chunks": 4, "questions_per_chunk": 2, "warmup_steps": 2, "unanswerable": 0.0}


@pytest.fixture(scope="module")
def squad(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "towns.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for i, town in enumerate(TOWNS):
            context = f"The mill stands in {town}. It was built in {1800 + i}."
            for question, answer in (("Where is the mill?", town), ("When was it built?", str(1800 + i))):
                row = {"id": f"{i}", "title": "Mills", "context": context, "question": question, "answers": [answer]}
                file.write(json.dumps(row) + "\n")
    return path


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "chat.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for town in TOWNS:
            said = [("user", f"I live in {town}."), ("assistant", "Good."), ("user", "Hello?"), ("assistant", "Hello!")]
            file.write(json.dumps({"messages": [{"role": r, "content": c} for r, c in said]}) + "\n")
    return path


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "base"
    model = build(TennsConfig.preset("tiny-outer"))
    save_model(
        folder, model, name="tiny", tokenizer_sha256=MISTRAL_SHA256, matrices="int8", embedding="int8",
        decoding={"beam_width": 2, "min_confidence": 0.5}, notes={"trained": "yesterday"},
    )  # fmt: skip
    keep_confidence(folder, {"bias": 0.0, "weights": {}, "threshold": 0.5, "fitted": {}})
    return folder


def request(base: Path, data: Path, out: Path, lora: LoraSettings | None = None, **values: object) -> FinetuneRequest:
    is_chat = data.name == "chat.jsonl"
    settings = default_settings({**FAST, **values}, lora=lora is not None, only_chat=is_chat)
    return FinetuneRequest(base, str(base), (data,), out, settings, lora)


def run(base: Path, data: Path, out: Path, lora: LoraSettings | None = None, **values: object) -> Finetuned:
    return finetune(request(base, data, out, lora, **values), torch.device("cpu"))


def test_full_fine_tuning_learns_the_examples(base: Path, squad: Path, tmp_path: Path) -> None:
    result = run(base, squad, tmp_path / "mills", lr=1e-2)
    assert result.after["answer"] < 0.7 * result.before["answer"]
    assert (result.num_train, result.num_held_out, result.num_left_out) == (36, 4, 0)
    card, _ = read_card(result.folder)
    assert card.name == "mills"
    assert card.decoding == {"beam_width": 2, "min_confidence": 0.5}
    assert card.confidence == {}  # was fitted to the base's scores
    assert card.notes["base"]["name"] == "tiny"
    assert card.notes["base"]["notes"] == {"trained": "yesterday"}
    assert card.notes["data"][0]["name"] == "towns.jsonl"
    assert card.notes["data"][0]["bytes"] == squad.stat().st_size
    assert card.notes["held_out"] == {"before": result.before, "after": result.after}
    backbone = load_backbone(result.folder)
    assert backbone.fingerprint != load_backbone(base).fingerprint
    assert json.loads(json.dumps(result.to_json()))["step"] == 16


def test_an_adapter_learns_the_examples_and_leaves_the_base_alone(base: Path, squad: Path, tmp_path: Path) -> None:
    before = load_backbone(base).fingerprint
    result = run(base, squad, tmp_path / "mills", LoraSettings(rank=8), lr=5e-2)
    assert result.after["grounded"] < result.before["grounded"]
    assert load_backbone(base).fingerprint == before
    card = read_adapter_card(result.folder)
    assert (card.name, card.base, card.base_fingerprint, card.rank) == ("mills", str(base), before, 8)
    assert card.decoding == {"beam_width": 2, "min_confidence": 0.5}
    assert card.notes["method"] == "lora rank 8"
    plain, adapted = load_network(base)[0], load_network(result.folder)[0]
    same = {name for name, w in plain.state_dict().items() if torch.equal(w, adapted.state_dict()[name])}
    assert "embedding.weight" in same
    assert not any(name.endswith(("mix.weight", "project_in.weight")) for name in same)


def test_conversations(base: Path, chat: Path, tmp_path: Path) -> None:
    result = run(base, chat, tmp_path / "talk", lr=1e-2)
    assert set(result.before) == {"answer"}
    assert result.after["answer"] < 0.7 * result.before["answer"]


@pytest.mark.parametrize("lora", [None, LoraSettings(rank=4)])
def test_an_interrupted_run_resumes_to_the_same_result(
    base: Path, squad: Path, tmp_path: Path, lora: LoraSettings | None
) -> None:
    whole = run(base, squad, tmp_path / "whole", lora, steps=8)

    class Stopped(Exception):
        pass

    def stop(done: int, total: int, metrics: dict[str, object]) -> None:
        if done == 6:
            raise Stopped

    wanted = request(base, squad, tmp_path / "cut", lora, steps=8, save_every_steps=4)
    with pytest.raises(Stopped):
        finetune(wanted, torch.device("cpu"), on_progress=stop)
    cut = finetune(wanted, torch.device("cpu"))
    assert (cut.before, cut.after) == (whole.before, whole.after)
    [weights] = (tmp_path / "cut").glob("step-*/model.safetensors")
    names = set(load_file(weights))
    assert ("embedding.weight" in names) == (lora is None)
    assert ("blocks.0.mix.up" in names) == (lora is not None)
    file = "model.safetensors" if lora is None else "adapter.safetensors"
    expected, found = (load_file(result.folder / file) for result in (whole, cut))
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())


def test_a_signal_saves_and_says_so(base: Path, squad: Path, tmp_path: Path) -> None:
    import signal

    def stop(done: int, total: int, metrics: dict[str, object]) -> None:
        if done == 3:
            signal.raise_signal(signal.SIGINT)

    wanted = request(base, squad, tmp_path / "cut", steps=8)
    with pytest.raises(TrainingInterrupted, match="run the same command again"):
        finetune(wanted, torch.device("cpu"), on_progress=stop)
    steps: list[int] = []
    finetune(wanted, torch.device("cpu"), on_progress=lambda done, total, metrics: steps.append(done))
    assert steps[-1] == 8
    assert steps[0] in (4, 5)


def test_a_run_with_another_base_data_or_adapter_is_not_resumed(
    base: Path, squad: Path, chat: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    run(base, squad, out, steps=2)
    other = tmp_path / "other"
    save_model(other, build(TennsConfig.preset("tiny-outer"), 1), name="other", tokenizer_sha256=MISTRAL_SHA256)
    mine, theirs = (load_backbone(folder) for folder in (other, base))
    told = [f"{model.card.name} (fingerprint {model.fingerprint[:12]})" for model in (mine, theirs)]
    message = f"has another base; given: {told[0]}; expected: {told[1]}; "
    with pytest.raises(TrainingError, match=re.escape(message)):
        run(other, squad, out, steps=2)
    with pytest.raises(TrainingError, match="another"):
        run(base, squad, out, LoraSettings(), steps=2)
    fewer = tmp_path / "towns.jsonl"
    fewer.write_text("".join(squad.read_text().splitlines(keepends=True)[:20]))
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file() and path.name != ".lock"}
    for other_data, name in ((fewer, "towns.jsonl"), (chat, "chat.jsonl")):  # settings follow from the second
        told: list[str] = []
        with pytest.raises(TrainingError, match="run holds a run on other data") as error:
            finetune(request(base, other_data, out, steps=2), torch.device("cpu"), say=told.append)
        given, expected = (sha256(path.read_bytes()).hexdigest()[:8] for path in (other_data, squad))
        assert error.value.given == f"{name} ({given})"
        assert error.value.expected == f"towns.jsonl ({expected})"
        assert "remove this one" in str(error.value.hint)
        assert told == []  # before anything is measured
    assert {path: path.read_bytes() for path in before} == before
    assert run(base, squad, out, steps=2).metrics["step"] == 2


def test_checkpoints_without_a_name_of_their_data_are_told_apart_all_the_same(tmp_path: Path) -> None:
    record = {"data": [{"name": "a.jsonl"}], "settings": {"steps": 2}}
    check_identity(tmp_path, record, record)
    with pytest.raises(TrainingError, match="holds a run on other data") as error:
        check_identity(tmp_path, record, {"settings": {"steps": 3}, "data": [{"name": "b.jsonl"}]}, {"data": "b (1)"})
    assert (error.value.given, error.value.expected) == ("b (1)", '[{"name": "a.jsonl"}]')
    with pytest.raises(TrainingError, match="another settings") as error:
        check_identity(tmp_path, record, {**record, "settings": {"steps": 3}})
    assert (error.value.given, error.value.expected) == ('{"steps": 3}', '{"steps": 2}')


def test_a_merged_adapter_is_base_and_adapter(base: Path, squad: Path, tmp_path: Path) -> None:
    result = run(base, squad, tmp_path / "mills", LoraSettings(rank=4), steps=4, lr=5e-2)
    card = merge_adapter(result.folder, tmp_path / "merged")
    merged, found = load_model(tmp_path / "merged")
    adapted, _ = load_network(result.folder)
    assert found == card
    assert card.name == "mills"
    for name, weight in adapted.state_dict().items():
        assert torch.equal(merged.state_dict()[name], weight), name
    assert len({load_backbone(f).fingerprint for f in (base, result.folder, tmp_path / "merged")}) == 3

    small = merge_adapter(result.folder, tmp_path / "small", matrices="int4:32", embedding="int8", base=str(base))
    assert dict(small.quantisation) == {"matrices": "int4:32", "embedding": "int8"}
    quantised, _ = load_model(tmp_path / "small")
    error = (quantised.state_dict()["blocks.0.mix.weight"] - adapted.state_dict()["blocks.0.mix.weight"]).abs().max()
    assert 0 < error < 0.1


def test_merging_refuses(base: Path, squad: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no adapter"):
        merge_adapter(base, tmp_path / "merged")
    result = run(base, squad, tmp_path / "mills", LoraSettings(rank=4), steps=1)
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "config.json").write_text("mine")
    for taken in (result.folder, base, mine, Path("."), Path("/"), tmp_path / ".."):
        with pytest.raises(UsageError, match="exists already"):
            merge_adapter(result.folder, taken)
    assert [path.name for path in mine.iterdir()] == ["config.json"]
    assert load_backbone(result.folder).fingerprint != load_backbone(base).fingerprint
    other = tmp_path / "other"
    save_model(other, build(TennsConfig.preset("tiny-outer"), 1), name="other", tokenizer_sha256=MISTRAL_SHA256)
    with pytest.raises(ModelError, match="made for another model"):
        merge_adapter(result.folder, tmp_path / "merged", base=str(other))
    assert not (tmp_path / "merged").exists()


def test_a_base_that_asks_in_another_form_is_refused(squad: Path, tmp_path: Path) -> None:
    folder = tmp_path / "base"
    model = build(TennsConfig.preset("tiny-outer"))
    save_model(folder, model, name="q", tokenizer_sha256=MISTRAL_SHA256, question_template="Q: {question}")
    with pytest.raises(TrainingError, match="in a form"):
        run(folder, squad, tmp_path / "out")


def test_shards_are_refused(base: Path, squad: Path, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="whole copies"):
        run(base, squad, tmp_path / "out", parallel="fsdp")


def test_defaults() -> None:
    full = default_settings({}, lora=False, only_chat=False)
    assert (full.optimiser, full.lr, full.parallel) == ("adamw", 1e-4, "ddp")
    assert default_settings({"optimiser": "muon"}, lora=False, only_chat=False).lr == 2e-4
    adapter = default_settings({"lr": 0.5}, lora=True, only_chat=True)
    assert (adapter.lr, adapter.questions_per_chunk, adapter.unanswerable, adapter.grounded_weight) == (
        0.5,
        1,
        0.0,
        0.0,
    )
