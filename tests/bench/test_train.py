"""bench train: the loop's own steps, in the one schema."""

import json
import re

import pytest
import torch

from precog.bench import train as bench
from precog.cli.main import main
from precog.errors import UsageError

CPU = torch.device("cpu")


@pytest.mark.parametrize(("objective", "optimiser"), [("tokens", "adamw"), ("questions", "muon")])
def test_a_quick_run_measures_the_loop(objective, optimiser):
    sizes = bench.sized(CPU, quick=True, objective=objective, optimiser=optimiser, rows=8, tokens=512, repeats=3,
                        total_tokens=5000)  # fmt: skip
    shown = bench.bench_train("tiny", CPU, sizes, quick=True).to_json()
    values = shown["values"]
    tokens = 2 * 32 if objective == "tokens" else 2 * 32 + 4 * 8
    assert values["tokens_per_step"] == tokens
    assert values["tokens_per_sec"] == pytest.approx(tokens / values["step"]["median_sec"], rel=1e-4)
    assert values["mfu"] is None  # no processor has a peak in the table
    assert 0 < values["share_of_matmul"] < 1
    assert values["share_of_matmul"] == pytest.approx(
        values["model_flops_per_sec"] / shown["ceiling"]["matmul_flops_per_sec"], rel=1e-4
    )
    estimate = values["estimate"]
    assert estimate["total_tokens"] == 5000
    assert estimate["run_sec"] == pytest.approx(5000 / values["tokens_per_sec"], rel=1e-4)
    assert any("no data sheet" in note for note in shown["notes"])
    assert (shown["repeats"], shown["warm_up"], shown["quick"]) == (2, 1, True)
    assert shown["model"]["name"] == "random:tiny"
    assert shown["model"]["state_bytes"] > 0


def test_sizes_out_of_range_are_refused():
    for values in ({"rows": 0}, {"tokens": 3}, {"repeats": 0}, {"accumulate": 0}, {"total_tokens": 0}):
        with pytest.raises(UsageError, match="bench train"):
            bench.TrainBench(**values)
    with pytest.raises(UsageError, match="--objective"):
        bench.sized(CPU, quick=True, objective="chess", optimiser="adamw")
    with pytest.raises(UsageError, match="--optimiser"):
        bench.sized(CPU, quick=True, objective="tokens", optimiser="sgd")


def test_a_processor_measures_less_unless_told_otherwise():
    wanted = {"quick": False, "objective": "tokens", "optimiser": "adamw"}
    on_gpu, on_cpu = (bench.sized(torch.device(name), **wanted, rows=None) for name in ("cuda", "cpu"))
    assert on_gpu == bench.TrainBench()
    assert (on_cpu.warm_up + on_cpu.repeats) * on_cpu.rows * on_cpu.tokens <= 4096  # seconds, not minutes
    assert bench.sized(CPU, **wanted, rows=8, repeats=None).rows == 8


def test_people_see_speed_ceiling_and_time_of_a_run(capsys):
    with pytest.raises(SystemExit) as end:
        main(["bench", "train", "--quick", "--total-tokens", "10000000000"])
    assert end.value.code == 0
    shown = capsys.readouterr().out
    for line in ("tokens_per_sec: ", "model_flops_per_sec: ", "share_of_matmul: ", "ceiling: matmul_flops_per_sec "):
        assert line in shown
    assert re.search(r"estimate: total_tokens 10,000,000,000, run_sec [\d,.]+ (days|hours)", shown)


def test_the_command_prints_the_result(capsys):
    with pytest.raises(SystemExit) as end:
        main(["bench", "train", "--quick", "--json"])
    assert end.value.code == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["name"] == "train"
    assert shown["values"]["tokens_per_sec"] > 0


@pytest.mark.gpu
def test_a_gpu_has_an_mfu():
    sizes = bench.TrainBench(rows=4, tokens=256, repeats=2, warm_up=2)
    values = bench.bench_train("base", torch.device("cuda"), sizes).to_json()["values"]
    assert values["peak_memory_bytes"] > 0
    assert values["mfu"] is None or 0 < values["mfu"] < 1
