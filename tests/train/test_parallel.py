"""Two processes learn what one does: copies and shards, accumulated or not, resumed or not; one speaks for both."""

import importlib.util
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from precog.errors import TrainingError
from precog.train.parallel import kind_of

HERE = Path(__file__).parent


def load(name):
    specification = importlib.util.spec_from_file_location(f"precog_tests_{name}", HERE / f"{name}.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


process = load("process")


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def start_two(arguments, **environment):
    common = {
        **os.environ,
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "OMP_NUM_THREADS": "1",
        **environment,
    }
    return [
        subprocess.Popen(
            [sys.executable, *map(str, arguments)],
            env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in (0, 1)
    ]


def ended(processes):
    found = [(*p.communicate(), p.returncode) for p in processes]
    return [(out, error, code) for out, error, code in found]


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """What two processes did, and their folder."""
    out = tmp_path_factory.mktemp("together")
    for _, error, code in ended(start_two([HERE / "process.py", out])):
        assert code == 0, error
    return out, [json.loads((out / f"found-{rank}.json").read_text()) for rank in (0, 1)]


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    """The same runs by one process."""
    out = tmp_path_factory.mktemp("single")
    process.train(out / "adamw", "auto", 1)
    process.train(out / "muon", "auto", 1, optimiser="muon")
    return out


LEAVING = """
import sys, time
from pathlib import Path
import torch
from precog.train.parallel import join, leave, place_in_world, summed
join(torch.device("cpu"))
rank, _ = place_in_world()
summed(torch.ones(1))
try:
    if rank:
        time.sleep(1.0)
        if sys.argv[1] == "failing":
            raise KeyError("alone")
        Path(sys.argv[1]).touch()
finally:
    leave()
print(Path(sys.argv[1]).exists())
"""


def test_processes_leave_together(tmp_path):
    (said, error, code), (_, other, status) = ended(start_two(["-c", LEAVING, tmp_path / "done"]))
    assert (code, status) == (0, 0), error + other
    assert said.strip() == "True"  # the first left when the second did


def test_nobody_waits_for_one_that_failed():
    (_, error, code), (_, other, status) = ended(start_two(["-c", LEAVING, "failing"]))
    assert (code, status) == (0, 1), error
    assert "KeyError" in other


def lines_of(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(
    ("name", "alone"), [("ddp", "adamw"), ("ddp muon", "muon"), ("fsdp", "adamw"), ("fsdp accumulated", "adamw")]
)
def test_two_processes_find_the_losses_of_one(name, alone, together, single):
    out, _ = together
    ours, theirs = lines_of(out / name), lines_of(single / alone)
    # Muon rounds in BF16 and turns whatever small gradient there is into a step of full size
    near, held_out = (1e-5, 1e-4) if alone == "adamw" else (1e-3, 2e-2)
    assert len(ours) == len(theirs) == process.STEPS + 1
    for mine, other in zip(ours, theirs, strict=True):
        assert mine["world"] == 2
        assert mine["tokens_seen"] == other["tokens_seen"]
        for part in {"loss", "gradient_norm", "context", "answer", "grounded", "exact", "lm"} & set(other):
            assert mine[part] == pytest.approx(other[part], rel=near, abs=near), (name, mine["step"], part)
    for part, value in ours[-1]["evaluation"].items():
        assert value == pytest.approx(theirs[-1]["evaluation"][part], abs=held_out)


def test_each_kind_is_what_was_asked_for(together):
    _, found = together
    assert found[0]["ddp"] == "ddp"
    assert found[0]["fsdp"] == found[0]["fsdp accumulated"] == "fsdp"


def test_checkpoints_of_shards_are_whole_and_those_of_one_process(together, single):
    out, _ = together
    for file in ("model", "average", "optimiser"):
        ours = load_file(out / "fsdp" / "step-00000004" / f"{file}.safetensors")
        theirs = load_file(single / "adamw" / "step-00000004" / f"{file}.safetensors")
        assert set(ours) == set(theirs)
        for name, value in theirs.items():
            assert ours[name].dtype == value.dtype
            torch.testing.assert_close(ours[name], value, rtol=1e-3, atol=2e-5, msg=f"{file} {name}")


def test_a_sharded_run_resumes_to_the_same_losses(together):
    out, _ = together
    whole = [line for line in lines_of(out / "fsdp accumulated") if "evaluation" not in line]
    resumed = [line for line in lines_of(out / "resumed") if "evaluation" not in line]
    assert [line["step"] for line in resumed] == [1, 2, 3, 4]
    for mine, other in zip(resumed, whole, strict=True):
        assert mine["loss"] == pytest.approx(other["loss"], abs=1e-5)
        assert mine["tokens_seen"] == other["tokens_seen"]


def test_what_fails_in_one_process_is_told_once(together):
    out, (first, second) = together
    assert first["agreed"] == [
        "TrainingError", "process 1: the second shelf is empty; given: nothing; fill it"
    ]  # fmt: skip
    assert second["agreed"] == ["SystemExit", 1]
    assert first["full disk"][0] == "StorageError"
    assert "could not be written" in first["full disk"][1]
    assert second["full disk"] == ["SystemExit", 1]
    assert not list((out / "full").glob("step-*"))


def test_a_loss_of_one_process_that_is_no_number_stops_both(together):
    out, (first, second) = together
    kind, message = first["poisoned"]
    assert kind == "TrainingError"
    assert message.startswith("process 1: the loss is not finite: step 3")
    assert second["poisoned"] == ["SystemExit", 1]
    note = json.loads((out / "poisoned" / "bad_batch.json").read_text())
    assert [batch["process"] for batch in note["micro_batches"]] == [1]
    assert note["step"] == 3
    kept = load_file(out / "poisoned" / "step-00000002" / "model.safetensors")
    assert all(torch.isfinite(value).all() for value in kept.values())


def test_shards_and_muon_contradict_each_other(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    model = process.build(process.dataclasses.replace(process.TennsConfig.preset("tiny"), vocabulary=64))
    with pytest.raises(TrainingError, match="needs them whole"):
        kind_of("fsdp", model, "muon")
    assert kind_of("auto", model, "adamw") == "ddp"
    monkeypatch.setattr("precog.train.parallel.SHARDED_FROM_PARAMETERS", 1000)
    assert kind_of("auto", model, "adamw") == "fsdp"
    assert kind_of("auto", model, "muon") == "ddp"
