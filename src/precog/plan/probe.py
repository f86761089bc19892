"""Measures how fast this machine reads, once per model and place; what was measured is kept in the home folder."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import torch

from precog.backbones.protocol import Backbone
from precog.errors import StorageError
from precog.plan.speed import ReadSpeed, Speed
from precog.state import CODECS
from precog.writing import output_file

SPEED_FILE = "speed.json"
_SHORT, _LONG = 16, 144  # tokens; their difference gives the time of one
_REPEATS = 3
_LEAST, _MOST = 1e-12, 1e15  # seconds, or bytes a second


def model_speed(backbone: Backbone, codec: str, home: Path) -> Speed:
    """The speed of a model as it is open now: device, threads and dtype count.

    Args:
        backbone: the model.
        codec: that its states are stored with.
        home: folder to keep what was measured in; not being able to write there is no error.
    """
    name = f"{backbone.fingerprint[:16]} {backbone.device} {backbone.encoding_dtype} {torch.get_num_threads()} {codec}"

    def measure() -> dict[str, float]:
        return measure_speed(backbone, codec).to_json()

    values = _kept(home, name, ("pass_sec", "token_sec", "open_bytes_per_sec"), measure)
    return Speed(**values)


def disk_speed(folder: Path, read_some: Callable[[], list[tuple[int, float]]], home: Path) -> ReadSpeed:
    """The speed of the disk a folder lies on.

    Args:
        folder: of the corpus.
        read_some: reads a few records that are not in memory: bytes and seconds of each.
        home: as for `model_speed`.
    """

    def measure() -> dict[str, float]:
        found = sorted(read_some(), key=lambda pair: pair[1])
        num_bytes, seconds = found[len(found) // 2] if found else (1, 1e-3)
        # one size of record cannot tell latency from bandwidth: all of its time is counted as bandwidth
        return {"latency_sec": 0.0, "bytes_per_sec": num_bytes / max(seconds, 1e-9)}

    name = f"disk {os.stat(folder).st_dev}"
    return ReadSpeed(**_kept(home, name, ("latency_sec", "bytes_per_sec"), measure))


def measure_speed(backbone: Backbone, codec_name: str) -> Speed:
    """The same, measured now whatever is kept."""
    word = next(
        token for token in range(backbone.tokenizer.vocab_size) if backbone.tokenizer.token_bytes(token).strip()
    )

    def read(count: int) -> float:
        ids = [*backbone.opening, *([word] * count)]
        started = time.perf_counter()
        backbone.prefill(ids)
        return time.perf_counter() - started

    read(_SHORT)
    short = min(read(_SHORT) for _ in range(_REPEATS))
    long = min(read(_LONG) for _ in range(_REPEATS))
    token_sec = max((long - short) / (_LONG - _SHORT), 1e-9)
    [state] = backbone.encode_chunks([[word] * _SHORT])
    codec = CODECS[codec_name]
    data = codec.encode(state, backbone.spec)
    seconds = []
    for _ in range(_REPEATS):
        started = time.perf_counter()
        back = codec.decode(data, backbone.spec, num_tokens=state.num_tokens, decay_time=state.decay_time)
        backbone.open([back])
        seconds.append(time.perf_counter() - started)
    return Speed(
        pass_sec=max(short - _SHORT * token_sec, 0.0),
        token_sec=token_sec,
        open_bytes_per_sec=len(data) / max(min(seconds), 1e-9),
    )


def _kept(home: Path, name: str, keys: tuple[str, ...], measure: Callable[[], dict[str, float]]) -> dict[str, float]:
    """What was measured before, else what is measured now."""
    path = home / SPEED_FILE
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        known = {}
    known = known if isinstance(known, dict) else {}
    found = known.get(name)
    if isinstance(found, dict) and all(_is_plausible(found.get(key), key) for key in keys):
        return {key: float(found[key]) for key in keys}
    values = measure()
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        with output_file(path) as file:
            file.write((json.dumps({**known, name: values}, indent=1, sort_keys=True) + "\n").encode())
    except (OSError, StorageError):
        pass  # measured again next time
    return values


def _is_plausible(value: object, key: str) -> bool:
    """Whether a number that was kept can have been measured: a damaged file must not decide anything."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return _LEAST <= value <= _MOST or (value == 0 and key in ("pass_sec", "latency_sec"))
