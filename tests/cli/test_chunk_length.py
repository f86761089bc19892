"""``precog index`` cuts documents as the model's card says, and an existing corpus stays as it was made."""

from pathlib import Path

import pytest
from ended import Run

from precog.backbones.tenns.checkpoint import save_model
from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.model import build
from precog.text.tokenizer import load_mistral_tokenizer

SENTENCES = " ".join(f"Number {n} of the long report says that nothing of note has happened again." for n in range(24))


def save(folder: Path, chunk_tokens: int) -> Path:
    network = build(TennsConfig.preset("tiny-outer"))
    sha256 = load_mistral_tokenizer().sha256
    save_model(folder, network, name="tiny", tokenizer_sha256=sha256, chunk_tokens=chunk_tokens)
    return folder


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "report.txt"
    path.write_text(SENTENCES)
    return path


def test_the_length_of_the_card_is_the_default(tmp_path: Path, report: Path, run: Run) -> None:
    short, silent = save(tmp_path / "short", 64), save(tmp_path / "silent", 0)
    chunks = {}
    for name, model, options, expected in (
        ("own", short, [], 64),
        ("given", short, ["--chunk-tokens", 128], 128),
        ("old", silent, [], 256),
    ):
        where = ["--corpus", tmp_path / name]
        chunks[name] = run("index", report, *where, "--model", model, *options, "--json").json["chunks"]
        info = run("info", *where, "--json").json
        assert info["settings"]["chunk_tokens"] == expected
        assert info["model_chunk_tokens"] == (64 if model == short else None)
        told = run("info", *where).out
        assert f"of at most {expected} tokens" in told
        assert ("its model's own length is 64" in told) == (name == "given")
    assert chunks["own"] > chunks["given"] > chunks["old"]


def test_an_existing_corpus_keeps_its_length(tmp_path: Path, report: Path, run: Run) -> None:
    where = ["--corpus", tmp_path / "c"]
    model = save(tmp_path / "m", 64)
    assert run("index", report, *where, "--model", model).status == 0
    save(model, 192)  # the same weights, measured anew
    other = tmp_path / "other.txt"
    other.write_text(SENTENCES.replace("nothing", "something"))
    again = run("index", report, other, *where, "--json").json
    assert again["documents"] == {"new": 1, "changed": 0, "unchanged": 1, "failed": 0, "missing": 0}
    info = run("info", *where, "--json").json
    assert (info["settings"]["chunk_tokens"], info["model_chunk_tokens"]) == (64, 192)
    listed = run("list", *where, "--json").json["documents"]
    assert len({entry["chunks"] for entry in listed}) == 1
    assert run("reindex", *where, "--model", model).status == 0
    assert run("info", *where, "--json").json["settings"]["chunk_tokens"] == 64
    refused = run("index", other, *where, "--chunk-tokens", 192)
    assert refused.status == 2
    assert "made with another --chunk-tokens" in refused.err


def test_overlap_is_held_to_the_length_of_the_card(tmp_path: Path, report: Path, run: Run) -> None:
    long, short = save(tmp_path / "long", 512), save(tmp_path / "short", 64)
    assert run("index", report, "--corpus", tmp_path / "a", "--model", long, "--overlap", 200).status == 0
    refused = run("index", report, "--corpus", tmp_path / "b", "--model", short, "--overlap", 33)
    assert refused.status == 2
    assert "--overlap is out of range; given: 33; expected: 0 to 32" in refused.err
    assert not (tmp_path / "b").exists()
