import json
from pathlib import Path

import pytest
from ended import Run

from precog.cli.options import CODECS as OFFERED
from precog.state import CODECS

ROWS = [
    {"id": "a", "title": "t", "context": "Ada Quill built the lighthouse.", "question": "Who built it?"},
    {"id": "b", "title": "t", "context": "Tom Reed made the wheel of oak.", "question": "Who made the wheel?"},
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    lines = [json.dumps({**row, "answers": [row["context"].rsplit(" ", 1)[0]]}) for row in ROWS]
    (tmp_path / "q.jsonl").write_text("\n".join(lines))
    return tmp_path / "q.jsonl"


def test_every_codec_is_offered() -> None:
    assert OFFERED.split("|") == list(CODECS)


def test_fewer_bits_cost_more_error_and_fewer_bytes(run: Run, model: Path, data: Path) -> None:
    ended = run("eval", "codecs", "--data", data, "--model", model, "--json")
    assert ended.status == 0
    report = json.loads(ended.out)
    rows = report["codecs"]
    assert list(rows) == list(CODECS)
    assert report["n"] == 2
    assert rows["fp32"]["max_abs_logit_error"] == rows["fp32"]["mean_layer_error"] == 0
    assert rows["fp32"]["argmax_agreement"] == 1
    for fine, coarse in (("fp32", "fp16"), ("fp16", "int8"), ("int8", "int4"), ("fp16", "int8-rot")):
        assert rows[fine]["state_bytes"] > rows[coarse]["state_bytes"]
        assert all(a < b for a, b in zip(rows[fine]["layer_errors"], rows[coarse]["layer_errors"], strict=True))
        assert rows[fine]["mean_abs_logit_error"] < rows[coarse]["mean_abs_logit_error"]
    assert all(row["load_sec"] > 0 and 0 <= row["f1"]["value"] <= 100 for row in rows.values())
    assert rows["fp32"]["f1_gain_over_fp32"] == {"value": 0, "low": 0, "high": 0}


def test_the_table_is_shown_without_answers(run: Run, model: Path, data: Path) -> None:
    ended = run("eval", "codecs", "--data", data, "--model", model, "--codecs", "int4-rot", "--no-answers")
    assert ended.status == 0
    assert "int4-rot" in ended.out
    assert "fp32" in ended.out
    assert "int8" not in ended.out


def test_an_unknown_codec_is_refused_before_a_model_is_loaded(run: Run, data: Path) -> None:
    ended = run("eval", "codecs", "--data", data, "--model", "/nowhere", "--codecs", "int4,int3")
    assert ended.status == 2
    assert "no such state codec; given: int3" in " ".join(ended.err.split())
