"""Forgetting is proved on a few hundred deposits, as the measurement does it on thousands."""

import json
from pathlib import Path

import pytest
from made_keys import CountingEncoder

from precog.bench.forget import ForgetSettings, bench_forget, sized
from precog.bench.model import open_backbone
from precog.cli.main import main
from precog.errors import UsageError


def test_nothing_is_left_of_hundreds_of_deposits_half_of_whose_states_had_expired(tmp_path: Path) -> None:
    settings = ForgetSettings(num_deposits=240, num_samples=30)
    result = bench_forget(
        open_backbone("random:tiny"), settings, encoder=CountingEncoder(), folder=tmp_path, quick=True
    )
    assert {name: ratio.ok for name, ratio in result.ratios.items()} == dict.fromkeys(result.ratios, True)
    values = result.to_json()["values"]
    assert values["num_states_expired"] == 120
    assert 0 < values["num_forgotten_with_states"] < values["num_forgotten"] == 26
    # text and tokens in at least one piece each, keys in 3 and 2 windows, a state in 13
    assert values["num_searched_for"] > values["num_forgotten"] * 7 + values["num_forgotten_with_states"] * 13
    assert values["num_semantic_states"] > 5
    assert values["num_planted"] == 3
    assert list(tmp_path.iterdir()) == []


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["bench", "forget", "--quick", "--folder", str(tmp_path), "--check", "--json"])
    assert ended.value.code == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["ok"]
    assert shown["ratios"]["hits"]["value"] == shown["ratios"]["plain_hits"]["value"] == 0
    with pytest.raises(UsageError, match="--deposits"):
        sized(quick=True, num_deposits=3)
