"""What stored states buy on a device: the report of the command line over HTTP."""

from pathlib import Path

import pytest
from corpora_of import code_of, filled
from ended import Run, runner
from fastapi.testclient import TestClient

from precog.plan.device import PRESETS
from precog.plan.disk import DiskSpeed
from precog.plan.speed import ReadSpeed


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(capsys)


def test_the_known_devices_and_the_paper_s_report(client: TestClient, run: Run) -> None:
    told = client.get("/v1/edge").json()
    assert [device["preset"] for device in told["presets"]] == list(PRESETS)
    assert told["report"] == client.post("/v1/edge", json={}).json() == run("edge", "--json").json


def test_a_described_device_is_that_of_the_command_line(client: TestClient, run: Run) -> None:
    asked = {"preset": "ufs5", "tok_per_s": 50, "prefill_tok_per_s": 400, "watts": 3, "top_k": 2, "state_bytes": 1000}
    told = client.post("/v1/edge", json=asked).json()
    options = ("--tok-per-s", 50, "--prefill-tok-per-s", 400, "--watts", 3, "--top-k", 2, "--state-bytes", 1000)
    found = run("edge", "--device-preset", "ufs5", *options, "--json").json
    assert {**told, "notes": []} == {**found, "notes": []}
    assert not [line for line in told["notes"] if "--" in line]
    assert told["composition_exact"] is False


def test_this_machine_is_measured_once_and_goes_on_as_a_device(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    disks: list[Path] = []

    def disk(folder: Path) -> DiskSpeed:
        disks.append(folder)
        return DiskSpeed(ReadSpeed(2e-4, 3e9), True)

    monkeypatch.setattr("precog.plan.measured.measure_disk", disk)
    told = client.post("/v1/edge", json={"measure": True, "watts": 5}).json()
    assert told["measured"] is True
    assert (told["device"]["flash_bytes_per_sec"], told["device"]["watts"]) == (3e9, 5)
    assert told["question"]["state_bytes"] < 196_608  # the model's own
    assert any(line.startswith("disk: ") for line in told["notes"])
    again = client.post("/v1/edge", json={"measure": True}).json()
    assert again["device"]["encoder_sec"] == told["device"]["encoder_sec"]
    assert len(disks) == 1
    on = client.post("/v1/edge", json={"device": told["device"], "chunk": 64, "state_bytes": 1}).json()
    assert on["device"] == told["device"]
    assert (on["measured"], on["question"]["chunk_tokens"]) == (False, 64)


@pytest.mark.parametrize(
    "wrong",
    [
        {"preset": "abacus"},
        {"preset": "paper", "measure": True},
        {"tok_per_s": 0},
        {"tok_per_s": 1e-9},
        {"watts": 1e15},
        {"chunk": 0},
        {"top_k": 3, "chunks": 2},
        {"device": {"name": "x", "decode_tok_per_sec": 1, "prefill_tok_per_sec": 1, "flash_bytes_per_sec": 1e-9}},
        {"measure": True, "watts": 1e15},
        {"flash_latency_us": -1},
        {"more": 1},
    ],
)
def test_what_no_device_is_is_refused(client: TestClient, wrong: dict[str, object]) -> None:
    answer = client.post("/v1/edge", json=wrong)
    assert answer.status_code in (400, 422)
    assert "--" not in str(answer.json())


def test_documents_say_what_their_states_take(client: TestClient) -> None:
    filled(client)
    [first, second] = client.get("/v1/corpora/papers/documents").json()["data"]
    one = client.get("/v1/corpora/papers/documents/malta.txt").json()["document"]
    assert one == second
    corpus = client.get("/v1/corpora/papers").json()
    assert first["state_bytes"] + second["state_bytes"] >= corpus["states"] * corpus["state_bytes"] > 0
    assert code_of(client.get("/v1/corpora/papers/documents/none.txt")) == (404, "missing")
