"""``precog conform`` on tiny models of every architecture: exact, each against its own library's pass."""

import json

import pytest

from precog.backbones.tiny import NAMES
from precog.cli.main import main


def run(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main(["conform", *words, "--threads", "1", "--json"])
    return ended.value.code, json.loads(capsys.readouterr().out.splitlines()[-1])


# each takes a process of its own; those that share their machinery with another one are left to the long tests
ALIKE = {"falcon_h1", "granitemoehybrid", "jamba", "nemotron_h", "olmo_hybrid", "qwen3_next", "zamba2", "falcon_mamba"}


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in ALIKE)) for name in NAMES])
def test_every_architecture_is_exact(name, capsys):
    status, said = run(capsys, "--tiny", name)
    [row] = said["models"]
    assert row["error"] is None, row
    assert row["exact"], [check for check in row["checks"] if not check["ok"]]
    assert status == 0
    assert row["max_abs_logit_error"] <= 1e-4
    assert row["lost_state_logit_error"] > 0.1  # losing the state would have been seen
    assert row["state_bytes"] < row["state_bytes_fp32"]
    assert {"mix", "replay"} <= set(row["composition_rules"])
    assert any("another process" in check["name"] for check in row["checks"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "which model?"),
        (["model", "--tiny", "mamba"], "which model?"),
        (["--tiny", "llama"], "no such architecture"),
        (["/no/such/model"], "no such model"),
    ],
)
def test_what_cannot_be_asked_is_one_line(words, message, capsys):
    status, said = run(capsys, *words)
    assert status != 0
    assert message in said["error"]["message"]
