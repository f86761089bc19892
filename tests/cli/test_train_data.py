"""`precog train-data` stopped by a signal, and options that it cannot have."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ended import Run


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--out", "", "--recall", "3"], "is a variable unset?"),
        (["--out", "o", "--recall", str(10**14)], "--recall is out of range"),
        (["--out", "o", "--recall", "3", "--context-tokens", str(10**12)], "--context-tokens is out of range"),
        (["--out", "o", "--recall", "3", "--show", "-1"], "--show is out of range"),
    ],
)
def test_values_that_no_option_can_have(
    words: list[str], said: str, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = run("train-data", *words)
    assert ended.status in (1, 2)
    [line] = ended.err.splitlines()
    assert said in line
    assert list(tmp_path.iterdir()) == []


def test_files_of_other_formats_are_told_in_a_folder_and_refused_by_name(tmp_path: Path, run: Run) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    text = "The mill of Oslo was built in 1790 by Ada Quill. It stands near the river Ouse.\n"
    (raw / "mills.txt").write_text(text * 20)
    (raw / "b.html").write_text(text)
    (raw / "c.pdf").write_text(text)
    made = run("train-data", raw, "--out", tmp_path / "out", "--workers", "1", "--slices", "1", "--json")
    assert made.status == 0, made.err
    assert made.err.splitlines()[0].startswith(f"passed over 2 files of other formats in {raw}: 1 .html, 1 .pdf; ")
    assert made.json["passed_over"] == {".html": 1, ".pdf": 1}
    named = run("train-data", raw / "c.pdf", "--out", tmp_path / "other")
    assert named.status == 1
    [line] = named.err.splitlines()
    assert "a file of a format that is not read" in line
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(("number", "to_all"), [(signal.SIGTERM, False), (signal.SIGTERM, True), (signal.SIGINT, True)])
def test_a_signal_ends_all_processes_and_leaves_nothing(number: int, to_all: bool, tmp_path: Path) -> None:
    words = ["train-data", "--recall", "2000000", "--workers", "2", "--out", str(tmp_path / "out")]
    process = subprocess.Popen(
        [sys.executable, "-m", "precog", *words], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    group = os.getpgid(process.pid)
    try:
        end = time.monotonic() + 60
        while not (tmp_path / "out").exists() and time.monotonic() < end:
            time.sleep(0.02)
        time.sleep(1)  # the workers begin
        os.killpg(group, number) if to_all else process.send_signal(number)
        _, told = process.communicate(timeout=100)
    finally:
        if process.poll() is None:
            os.killpg(group, signal.SIGKILL)
            process.wait()
    assert process.returncode == 130
    assert "Traceback" not in told
    assert not list((tmp_path / "out").rglob("*"))
    assert is_gone(group)


def is_gone(group: int) -> bool:
    """Whether all processes of a group end by themselves, the pool's own helper last."""
    for _ in range(100):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False
