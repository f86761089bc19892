"""kill −9 at random moments of an indexing run: what was acknowledged stays, and the end is the same."""

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tiny_corpus import checksum, numbered, write

KILLS = 50

# Loads model and encoder once and then forks a fresh process for every run that is to be killed: single-threaded, so
# that a fork is safe, and fast enough for fifty of them.
ZYGOTE = """
import os, signal, sys, time, traceback
import torch
torch.set_num_threads(1)
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from tiny_corpus import WordEncoder, run
from precog.backbones.tenns.backbone import TennsBackbone
from precog.text.tokenizer import load_mistral_tokenizer
backbone, encoder = TennsBackbone.random("tiny-outer", load_mistral_tokenizer()), WordEncoder()
backbone.encode_chunks([[5, 6, 7]])
print("ready", flush=True)
for line in sys.stdin:
    folder, docs, delay = line.rstrip("\\n").split("\\t")
    child = os.fork()
    if child == 0:
        try:
            run(Path(folder), Path(docs), backbone, encoder, chunk_tokens=16)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if delay:
        time.sleep(float(delay))
        os.kill(child, signal.SIGKILL)  # not waited for yet, so the id is still its own
    _, status = os.waitpid(child, 0)
    print("killed" if os.WIFSIGNALED(status) else os.WEXITSTATUS(status), flush=True)
"""


class Runs:
    """Indexing runs in processes of their own."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", ZYGOTE, str(Path(__file__).parent)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        assert self._read() == "ready"

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def run(self, folder: Path, docs: Path, killed_after_sec: float | None = None) -> str:
        """The exit status, or "killed"."""
        assert self._process.stdin is not None
        delay = "" if killed_after_sec is None else f"{killed_after_sec:.6f}"
        self._process.stdin.write(f"{folder}\t{docs}\t{delay}\n")
        self._process.stdin.flush()
        return self._read()

    def close(self) -> None:
        self._process.communicate(timeout=60)


@pytest.fixture
def runs() -> Iterator[Runs]:
    made = Runs()
    yield made
    made.close()


def segment_bytes(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(folder.rglob("*.seg"))]


def test_fifty_kills_change_nothing_in_the_end(tmp_path: Path, runs: Runs) -> None:
    docs = tmp_path / "docs"
    for number in range(8):
        write(docs, f"{number:02d}.txt", numbered(100 * number, 36))
    write(docs, "03b-empty.txt", "")
    write(docs, "05-again.txt", numbered(500, 30))  # shares chunks with the sixth
    whole = tmp_path / "whole"
    started = time.perf_counter()
    assert runs.run(whole, docs) == "0"
    whole_sec = time.perf_counter() - started
    expected, segments = checksum(whole), segment_bytes(whole)
    rng = random.Random(9)
    kills = rounds = 0
    while kills < KILLS:
        folder = tmp_path / f"killed-{rounds}"
        rounds += 1
        result = "killed"
        while result == "killed":
            result = runs.run(folder, docs, rng.uniform(0, whole_sec / 4) if kills < KILLS else None)
            kills += result == "killed"
        assert result == "0"
        assert checksum(folder) == expected
        assert segment_bytes(folder) == segments
    assert rounds >= 2
