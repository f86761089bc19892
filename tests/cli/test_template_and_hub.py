"""Templates of the user's that are kept with what they made, and hub models that are never fetched unasked."""

import json
import sys
import types
from pathlib import Path

import pytest

from precog.backbones.registry import find_model
from precog.backbones.template import Template
from precog.backbones.tiny import make_tiny
from precog.cli.main import main
from precog.errors import ModelError, UsageError
from precog.hub import cached, download, is_hub_id

TEXT = "The lighthouse of Marrow was built in 1843 by Ada Quill. Its lamp burns whale oil."


def run(capsys, *words, status=0):
    with pytest.raises(SystemExit) as ended:
        main([*map(str, words), "--json"])
    said = capsys.readouterr()
    assert ended.value.code == status, said.err
    return json.loads(said.out.splitlines()[-1])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PRECOG_HOME", str(tmp_path / "home"))
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text(TEXT)
    (tmp_path / "template.json").write_text('{"chunk": "Text: {chunk}", "question": "Q: {question} A:"}')
    make_tiny("tenns", tmp_path / "model")
    return tmp_path


def test_a_template_is_kept_by_the_corpus_it_made(folder, capsys):
    made = ["index", folder / "docs", "--corpus", folder / "c", "--model", folder / "model", "--threads", 1]
    run(capsys, *made, "--template", folder / "template.json")
    kept = run(capsys, "info", "--corpus", folder / "c")
    assert Template.from_json(kept["settings"]["template"]) == Template("Text: {chunk}", "Q: {question} A:")
    asked = ["ask", "Who built it?", "--corpus", folder / "c", "--always-answer", "--threads", 1]
    assert run(capsys, *asked)["text"] in TEXT
    assert run(capsys, "verify", "--corpus", folder / "c", "--chunks", 1)["ok"]
    run(capsys, "reindex", "--corpus", folder / "c", "--codec", "fp32")  # the same model: the template stays
    assert run(capsys, "info", "--corpus", folder / "c")["settings"]["template"] == kept["settings"]["template"]
    run(capsys, "reindex", "--corpus", folder / "c", "--model", folder / "model")  # named anew: its own text
    assert "template" not in run(capsys, "info", "--corpus", folder / "c")["settings"]
    refused = run(capsys, *asked, "--template", folder / "template.json", status=1)
    assert "another model, tokenizer, config or template" in refused["error"]["message"]


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "no JSON"), ("[]", "other keys"), ("{}", "other keys"), ('{"chunk": "x"}', "chunk is wrong"),
     ('{"question": "{question} {question}"}', "question is wrong"), ('{"answer": "x"}', "other keys")],
)  # fmt: skip
def test_a_wrong_template_is_one_line(folder, capsys, text, message):
    (folder / "bad.json").write_text(text)
    words = ["index", folder / "docs", "--corpus", folder / "c", "--model", folder / "model"]
    error = run(capsys, *words, "--template", folder / "bad.json", status=1)["error"]
    assert message in error["message"]
    assert not (folder / "c").exists()
    assert "cannot be read" in run(capsys, *words, "--template", folder / "none.json", status=1)["error"]["message"]


def test_hub_models_are_looked_for_in_the_cache_and_never_fetched(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    commit = "a" * 40
    with pytest.raises(ModelError, match="precog models --download org/name"):
        find_model("org/name")
    snapshot = tmp_path / "models--org--name" / "snapshots" / commit
    snapshot.mkdir(parents=True)
    assert cached("org/name") is None
    assert find_model(f"org/name@{commit}") == snapshot
    (tmp_path / "models--org--name" / "refs").mkdir()
    (tmp_path / "models--org--name" / "refs" / "main").write_text(commit)
    assert find_model("org/name") == snapshot
    assert not is_hub_id("/etc/passwd")
    assert not is_hub_id("../up")
    assert not is_hub_id("name")


def test_downloading_takes_one_commit_and_no_pickles(tmp_path, monkeypatch):
    asked = {}
    hub = types.ModuleType("huggingface_hub")

    class HfApi:
        def model_info(self, hub_id, revision=None):
            if hub_id == "org/none":
                raise OSError("404 Client Error\nnot found")
            return types.SimpleNamespace(sha="b" * 40)

    def snapshot_download(hub_id, revision, allow_patterns):
        asked.update(hub_id=hub_id, revision=revision, patterns=allow_patterns)
        return str(tmp_path)

    hub.HfApi, hub.snapshot_download = HfApi, snapshot_download
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    assert download("org/name") == Path(tmp_path)
    assert asked["revision"] == "b" * 40
    assert not any(pattern.endswith((".bin", ".pt", ".pth", ".py")) for pattern in asked["patterns"])
    with pytest.raises(UsageError, match="no hub id"):
        download("name")
    with pytest.raises(ModelError, match="404 Client Error not found"):
        download("org/none")


def test_models_lists_what_can_be_opened(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("PRECOG_HOME", str(tmp_path))
    said = run(capsys, "models")
    names = {family["name"] for family in said["supported"]}
    assert {"tenns", "mamba", "mamba2", "rwkv", "rwkv7", "xlstm", "jamba", "mamba (GGUF)"} <= names
    for family in said["supported"]:
        assert family["exact"]
        assert family["example_state_bytes"] > 0
        assert {"mix", "replay"} <= set(family["composition_rules"])
        assert not (family["grows"] and "mean" in family["composition_rules"])


def test_a_model_that_was_moved_is_told_and_nothing_is_read_again_by_another(folder, capsys, monkeypatch):
    make_tiny("tenns", folder / "installed", seed=7)
    made = ["index", folder / "docs", "--corpus", folder / "c", "--model", folder / "model", "--threads", 1]
    run(capsys, *made)
    before = run(capsys, "info", "--corpus", folder / "c")
    (folder / "model").rename(folder / "moved")
    monkeypatch.setattr("precog.backbones.registry.installed_models", lambda: {"other": folder / "installed"})
    for words in (["ask", "Who built it?", "--corpus", folder / "c"], ["verify", "--corpus", folder / "c"]):
        error = run(capsys, *words, status=1)["error"]
        assert (
            error["hint"] == f"nothing is at {folder / 'model'} any more: say where the model is now with --model DIR"
        )
    error = run(capsys, "reindex", "--corpus", folder / "c", status=1)["error"]
    assert (error["message"], error["given"]) == (
        "the model that made this corpus is not where it was",
        str(folder / "model"),
    )
    assert run(capsys, "info", "--corpus", folder / "c") == before
    asked = ["ask", "Who built it?", "--corpus", folder / "c", "--always-answer", "--model", folder / "moved"]
    assert run(capsys, *asked)["text"] in TEXT


def test_one_corpus_has_one_precision(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PRECOG_HOME", str(tmp_path / "home"))
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text(TEXT)
    make_tiny("mamba2", tmp_path / "model")
    made = ["index", tmp_path / "docs", "--corpus", tmp_path / "c", "--threads", 1]
    run(capsys, *made, "--model", tmp_path / "model", "--dtype", "bfloat16")
    assert run(capsys, "info", "--corpus", tmp_path / "c")["settings"]["encoding_dtype"] == "bfloat16"
    (tmp_path / "docs" / "b.txt").write_text("A mill stands on the river Ouse.")
    refused = run(capsys, *made, "--dtype", "float32", status=2)["error"]
    assert (refused["given"], refused["expected"]) == ("float32", "bfloat16")
    assert run(capsys, *made)["documents"]["new"] == 1  # its own, where nothing is said
    run(capsys, "reindex", "--corpus", tmp_path / "c", "--codec", "fp32")
    assert run(capsys, "info", "--corpus", tmp_path / "c")["settings"]["encoding_dtype"] == "bfloat16"


def test_what_is_listed_for_transformers_is_what_its_adapters_read(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    from precog.backbones.huggingface.families import FAMILIES
    from precog.backbones.tiny import TRANSFORMERS

    assert set(TRANSFORMERS) == set(FAMILIES)
