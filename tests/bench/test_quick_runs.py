"""Every measurement, run through at tiny sizes with an untrained model."""

import json
import math
from pathlib import Path

import pytest

from precog.backbones.protocol import Backbone
from precog.bench import decode, encode, index, serve, store, ttft
from precog.bench.filling import add_facts, create_store, fill
from precog.bench.memory import peak_of_indexing
from precog.bench.model import QUICK, model_folder, model_name, open_backbone, state_spec
from precog.bench.packed import open_packed
from precog.bench.synthetic import TextMaker, write_documents
from precog.cli.main import main
from precog.encoders import load_encoder
from precog.errors import InputError, ModelError, PrecogError, StorageError, UsageError


@pytest.fixture(scope="module")
def backbone() -> Backbone:
    return open_backbone(QUICK)


def figures(value):
    """All numbers in a JSON value."""
    if isinstance(value, dict):
        for entry in value.values():
            yield from figures(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from figures(entry)
    elif isinstance(value, int | float):
        yield value


def test_ttft(backbone, tmp_path):
    shown = ttft.bench_ttft(backbone, ttft.QUICK, folder=tmp_path, quick=True).to_json()
    values = shown["values"]
    assert set(shown["ratios"]) == {"overhead_per_ms", "overhead_per_encoder", "ttft_inject", "ttft_grounded"}
    assert [row["context_tokens"] for row in values["in_context"]] == [4, 64, 128]
    row, q = values["in_context"][1], values["question_tokens"]
    assert row["tokens_over_inject"] == pytest.approx((64 + q) / q, rel=1e-4)
    assert row["ttft_over_inject"] == pytest.approx(row["ttft_sec"] / values["ttft_inject"]["median_sec"], rel=1e-4)
    assert values["mask"]["per_answer_bytes"] > 0
    assert values["ttft_inject"]["median_sec"] > values["encode"]["median_sec"]
    assert shown["quick"]
    assert list(tmp_path.iterdir()) == []  # the temporary corpus is gone
    assert all(math.isfinite(number) and number >= 0 for number in figures(values))


def test_store(tmp_path):
    spec = state_spec("random:base")
    shown = store.bench_store(spec, store.QUICK, folder=tmp_path, quick=True).to_json()
    assert "warm" in shown["ratios"]
    assert set(shown["ratios"]) <= {"warm", "cold"}
    assert shown["values"]["record_bytes"] > 196_608
    assert shown["values"]["warm_read"]["median_sec"] > 0
    assert shown["model"] is None


def test_index(backbone, tmp_path):
    settings = index.sized(quick=True, memory=False)
    document = tmp_path / "read me.txt"
    document.write_text(TextMaker(7).passage(300), encoding="utf-8")
    result = index.bench_index(backbone, settings, paths=[str(document)], folder=tmp_path, quick=True)
    values = result.to_json()["values"]
    assert values["tokens"] > 300
    bare_sec = values["prefill_and_keys"]["median_sec"]
    assert result.ratios["throughput"].value == pytest.approx(bare_sec / values["index"]["median_sec"], rel=1e-4)
    assert list(tmp_path.iterdir()) == [document]


def test_memory_of_an_indexing_run_in_a_process_of_its_own(tmp_path):
    model = model_folder(QUICK, tmp_path)
    paths = write_documents(tmp_path / "docs", num_bytes=2000, file_bytes=1000)
    assert len(paths) == 2
    assert sum(path.stat().st_size for path in paths) == 2000
    peak = peak_of_indexing(tmp_path / "corpus", model, paths)
    assert peak.rss_bytes > 50 << 20
    assert peak.source_bytes == 2000
    assert peak.key_bytes >= 4 * 384 * peak.chunks > 0
    with pytest.raises(PrecogError, match="process of its own") as caught:
        peak_of_indexing(tmp_path / "corpus", tmp_path / "nothing", paths)
    assert "Error" in str(caught.value)


def test_encode_and_decode(backbone):
    shown = encode.bench_encode(backbone, encode.QUICK, quick=True).to_json()
    assert [row["batch_chunks"] for row in shown["values"]["prefill"]] == [1, 4]
    config = backbone.model.config
    assert shown["values"]["flops_per_token"] > 2 * config.layers * 3 * config.width * config.inner
    assert shown["ceiling"]["matmul_flops_per_sec"] > 0
    shown = decode.bench_decode(backbone, decode.QUICK, quick=True).to_json()
    row = shown["values"]["decode"][0]
    assert row["share_of_bandwidth"] == pytest.approx(shown["ceiling"]["token_sec"] / row["token_sec"], rel=1e-3)
    assert shown["values"]["weight_bytes"] == 4 * sum(p.numel() for p in backbone.model.parameters())


def test_serve_compares_many_answers_with_one(backbone, capsys):
    shown = serve.bench_serve(backbone, serve.sized(quick=True, streams=[2, 16], tokens=3), quick=True).to_json()
    values = shown["values"]
    assert [row["streams"] for row in values["serve"]] == [1, 2, 16]
    assert values["serve"][0]["over_one"] == 1
    assert values["same_answers"] == values["same_tokens"] == 1
    assert values["tokens_of_answers"] == 16 * 3
    assert shown["ratios"]["streams_16"]["target"] == 4
    with pytest.raises(SystemExit) as ended:
        main(["bench", "serve", "--quick", "--json", "--streams", "2"])
    assert ended.value.code == 0
    assert json.loads(capsys.readouterr().out)["ratios"] == {}
    with pytest.raises(SystemExit) as ended:
        main(["bench", "serve", "--quick", "--streams", "0"])
    assert ended.value.code == 2
    assert "--streams is out of range" in capsys.readouterr().err


def test_the_command_prints_one_object_last(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["bench", "decode", "--quick", "--json"])
    captured = capsys.readouterr()
    assert ended.value.code == 0
    shown = json.loads(captured.out)
    assert shown["name"] == "decode"
    assert shown["model"]["name"] == QUICK
    with pytest.raises(SystemExit) as ended:
        main(["bench", "store", "--quick", "--chunks", "5"])
    assert ended.value.code == 0
    assert "pread" in capsys.readouterr().out


def test_facts_are_found_and_fit_their_chunks(backbone, tmp_path):
    encoder = load_encoder()
    with create_store(
        tmp_path / "c", backbone.spec, encoder_fingerprint=encoder.fingerprint, key_dim=encoder.dim
    ) as made:
        fill(made, backbone.spec, 5)
        facts = add_facts(made, backbone, encoder, 3)
        assert made.size().num_states == 8  # no two records are alike
        assert len({fact.question for fact in facts}) == 3
        assert all(fact.answer in fact.passage for fact in facts)
        last = list(made.visible_chunk_ids())[-1]
        ids = made.read_state(last).token_ids.tolist()
        assert facts[-1].answer in backbone.tokenizer.decode(ids)


def test_synthetic_text_is_the_same_for_the_same_seed():
    assert TextMaker(1).passage(50) == TextMaker(1).passage(50) != TextMaker(2).passage(50)


def test_what_cannot_be_measured_is_refused_in_one_line(tmp_path, monkeypatch):
    with pytest.raises(UsageError, match="bench ttft"):
        ttft.TtftSettings(num_chunks=0)
    with pytest.raises(UsageError, match="bench store"):
        store.sized(quick=True, num_chunks=0)
    with pytest.raises(UsageError, match="hybrid or dense"):
        ttft.sized(quick=True, num_chunks=None, retrieval="bm25")
    with pytest.raises(InputError, match="no temporary folder"):
        store.bench_store(state_spec(QUICK), store.QUICK, folder=tmp_path / "nowhere")
    with pytest.raises(ModelError, match="no such preset"):
        open_backbone("random:nothing")
    with pytest.raises(UsageError, match="--threads"):
        open_backbone(QUICK, threads=0)
    assert model_name("x") == "x"
    assert model_name(None, quick=True) == QUICK
    spec = state_spec(QUICK)
    with (
        create_store(tmp_path / "c", spec, encoder_fingerprint="0" * 64, key_dim=4) as made,
        pytest.raises(StorageError, match="no room"),
    ):
        fill(made, spec, 10**12)


@pytest.mark.parametrize(("matrices", "embedding", "bits"), [("int4:32", "int8", 12), ("bf16", "bf16", 17)])
def test_decoding_is_measured_on_packed_weights(matrices: str, embedding: str, bits: float) -> None:
    packed = open_packed(QUICK, matrices=matrices, embedding=embedding)
    values = decode.bench_decode(packed, quick=True, build_sec=1.5).to_json()["values"]
    assert values["packed"]
    assert 4 < values["bits_per_weight"] < bits
    assert values["weight_bytes"] == decode.weight_bytes(packed)
    assert values["peak_memory_bytes"] > values["weight_bytes"]
    assert values["build_sec"] == 1.5
    with pytest.raises(UsageError, match="no such packed scheme"):
        open_packed(QUICK, matrices="fp32", embedding="int8")


def test_a_stored_model_is_packed_as_asked(tmp_path: Path) -> None:
    folder = model_folder(QUICK, tmp_path)
    assert open_packed(str(folder), matrices="int8", embedding="int8").encoding_dtype == "bfloat16"
