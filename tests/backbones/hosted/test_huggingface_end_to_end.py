"""A corpus of a model of transformers from the command line: index, restart, ask, verify, forget, another model."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ended import Run, runner
from tiny_corpus import WordEncoder

from precog.backbones.registry import load_backbone, load_tokenizer
from precog.backbones.tiny import make_tiny
from precog.corpus import reindex as reindex_module
from precog.corpus.ingest import Ingest
from precog.corpus.reindex import ReindexRequest, reindex
from precog.corpus.settings import CorpusSettings
from precog.errors import ModelError
from precog.store import CorpusStore
from precog.text.sources import find_sources
from precog.text.tokenizer import MISTRAL_SHA256


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(capsys)


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "lighthouse.txt").write_text("The lighthouse of Marrow was built in 1843 by Ada Quill. It burns oil.\n")
    (folder / "mill.txt").write_text("A mill stands on the river Ouse. Tom Reed made its wheel of oak — in 1790.\n")
    return folder


@pytest.mark.parametrize("name", ["mamba2", pytest.param("mamba", marks=pytest.mark.slow)])
def test_a_corpus_is_made_asked_after_a_restart_verified_forgotten_and_read_again(tmp_path, docs, run, name):
    model, corpus = make_tiny(name, tmp_path / name), tmp_path / "c"
    assert run("index", docs, "--corpus", corpus, "--model", model).status == 0
    asked = subprocess.run(
        [sys.executable, "-m", "precog", "ask", "Who built the lighthouse?", "--corpus", str(corpus), "--json"],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
        env={**os.environ},
    )
    answer = json.loads(asked.stdout.splitlines()[-1])
    assert answer["model"] == name
    assert answer["mode"] == "inject"
    source = answer["sources"][answer["citation"]["source"]]
    start, end = answer["citation"]["span"]
    assert (docs / "lighthouse.txt").read_text()[start:end] == answer["text"] in source["text"]
    verified = run("verify", "--corpus", corpus, "--json")
    assert verified.status == 0
    assert run("info", "--corpus", corpus, "--json").json["documents"] == 2

    forgotten = run("forget", "--document", "mill.txt", "--corpus", corpus, "--json")
    assert forgotten.status == 0
    other = make_tiny(name, tmp_path / "other", seed=1)
    refused = run("ask", "Who?", "--corpus", corpus, "--model", other, "--json")
    assert refused.status == 1
    assert refused.json["error"]["code"] == "state.foreign"
    assert run("reindex", "--corpus", corpus, "--model", other).status == 0
    assert run("verify", "--corpus", corpus).status == 0


class OtherEncoder(WordEncoder):
    fingerprint = "0" * 64


def test_new_keys_keep_the_states_and_need_the_tokenizer_that_made_them(tmp_path, docs, monkeypatch):
    model, corpus, encoder = make_tiny("mamba", tmp_path / "m"), tmp_path / "c", WordEncoder()
    backbone = load_backbone(model, device="cpu")
    settings = CorpusSettings(str(model), "", encoder.fingerprint, chunk_tokens=64)
    made = CorpusStore.create(
        corpus,
        settings=settings.to_json(),
        layout=settings.form.layout(backbone.spec, backbone.tokenizer.vocab_size),
        fingerprint=bytes.fromhex(backbone.fingerprint),
        key_dim=encoder.dim,
    )
    with made as store:
        Ingest(store, backbone, encoder).run(find_sources([docs]))
    monkeypatch.setattr(reindex_module, "load_encoder", lambda spec: OtherEncoder())
    assert load_tokenizer(model).sha256 == backbone.tokenizer.sha256
    assert reindex(ReindexRequest(corpus, encoder="other")).states == 2
    model.rename(tmp_path / "elsewhere")
    assert load_tokenizer(model).sha256 == MISTRAL_SHA256
    with pytest.raises(ModelError, match="the tokenizer of this corpus is not here"):
        reindex(ReindexRequest(corpus, encoder="another"))
    with CorpusStore.open(corpus) as store:
        assert store.size().num_states == 2
