"""The measurement of the fused scan: a card is needed to make it, none to refuse it."""

import pytest
import torch

from precog.bench import scan
from precog.cli.main import main
from precog.errors import UsageError


@pytest.mark.skipif(torch.cuda.is_available(), reason="here it would measure")
def test_without_a_card_it_says_so_in_one_line(capsys):
    for flags in ([], ["--json"]):
        with pytest.raises(SystemExit) as ended:
            main(["bench", "scan", "--quick", *flags])
        assert ended.value.code == 2
        shown = "".join(capsys.readouterr()).strip()
        assert "bench scan needs a CUDA device" in shown
        assert flags or "\n" not in shown


@pytest.mark.parametrize("change", [{"shapes": ()}, {"shapes": ((0, 8),)}, {"modes": 0}, {"launches": 0}])
def test_sizes_out_of_range(change):
    with pytest.raises(UsageError, match="out of range"):
        scan.ScanSettings(**change)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_quick_run():
    shown = scan.bench_scan(scan.QUICK, quick=True).to_json()
    assert len(shown["values"]["scan"]) == 4
    assert {row["frequencies"] for row in shown["values"]["scan"]} == {"pi", "zero"}
    assert all(row["forward_sec"] > 0 and row["torch_over_fused"] > 0 for row in shown["values"]["scan"])
    assert len(shown["ratios"]) == 8
