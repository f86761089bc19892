"""bench train: the loop's own steps, in the one schema."""

import json

import pytest
import torch

from precog.bench import train as bench
from precog.cli.main import main
from precog.errors import UsageError

CPU = torch.device("cpu")


@pytest.mark.parametrize(("objective", "optimiser"), [("tokens", "adamw"), ("questions", "muon")])
def test_a_quick_run_measures_the_loop(objective, optimiser):
    sizes = bench.sized(quick=True, objective=objective, optimiser=optimiser, rows=8, tokens=512, repeats=3)
    shown = bench.bench_train("tiny", CPU, sizes, quick=True).to_json()
    values = shown["values"]
    tokens = 2 * 32 if objective == "tokens" else 2 * 32 + 4 * 8
    assert values["tokens_per_step"] == tokens
    assert values["tokens_per_sec"] == pytest.approx(tokens / values["step"]["median_sec"], rel=1e-4)
    assert values["mfu"] is None  # no processor has a peak in the table
    assert 0 < values["share_of_matmul"] < 1
    assert (shown["repeats"], shown["warm_up"], shown["quick"]) == (2, 1, True)
    assert shown["model"]["name"] == "random:tiny"
    assert shown["model"]["state_bytes"] > 0


def test_sizes_out_of_range_are_refused():
    for values in ({"rows": 0}, {"tokens": 3}, {"repeats": 0}, {"accumulate": 0}):
        with pytest.raises(UsageError, match="bench train"):
            bench.TrainBench(**values)
    with pytest.raises(UsageError, match="--objective"):
        bench.sized(quick=True, objective="chess", optimiser="adamw")
    with pytest.raises(UsageError, match="--optimiser"):
        bench.sized(quick=True, objective="tokens", optimiser="sgd")


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
