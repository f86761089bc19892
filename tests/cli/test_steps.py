import pytest

from precog.cli import verify
from precog.cli.verify import Steps


def test_steps_are_told_without_a_terminal_at_most_every_five_seconds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now_sec = 100.0
    monkeypatch.setattr(verify.time, "monotonic", lambda: now_sec)
    with Steps("loading the model") as steps:
        for second in range(12):
            now_sec = 100.0 + second
            steps.say(f"step {second}")
    assert capsys.readouterr().err.splitlines() == ["step 5", "step 10"]
