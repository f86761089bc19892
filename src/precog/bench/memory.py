"""Peak memory of an indexing run, measured in a process of its own.

``python -m precog.bench.memory CORPUS MODEL PATH…`` indexes the paths and prints one JSON object.
"""

import json
import re
import resource
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from precog.corpus.indexing import IndexRequest, index_documents
from precog.errors import PrecogError
from precog.records import ModelChoice
from precog.store import CorpusStore

_STATUS = Path("/proc/self/status")
_TIMEOUT_SEC = 3600


@dataclass(frozen=True)
class Peak:
    """What one run needed.

    Attributes:
        rss_bytes: most resident memory at any time.
        key_bytes: of all keys of the corpus, FP32.
        chunks: chunks indexed.
        tokens: tokens read.
        source_bytes: of the documents.
    """

    rss_bytes: int
    key_bytes: int
    chunks: int
    tokens: int
    source_bytes: int


def peak_of_indexing(corpus: Path, model: Path, paths: Sequence[Path], *, encoder: str | None = None) -> Peak:
    """Indexes in another process and returns what it needed.

    Raises:
        PrecogError: it failed.
    """
    command = [sys.executable, "-m", "precog.bench.memory", str(corpus), str(model), encoder or "", *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_SEC, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise PrecogError(f"indexing in a process of its own failed: {last}")
    return Peak(**json.loads(done.stdout.splitlines()[-1]))


def peak_rss_bytes() -> int:
    """Most resident memory of this process so far.

    Linux: from ``VmHWM``, because ``ru_maxrss`` starts with the memory of the process that started this one.
    """
    if _STATUS.exists():
        found = re.search(r"^VmHWM:\s+(\d+) kB", _STATUS.read_text(encoding="utf-8"), re.MULTILINE)
        if found is not None:
            return int(found[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _main(corpus: str, model: str, encoder: str, *paths: str) -> None:
    choice = ModelChoice(model, "cpu", 1)
    report = index_documents(IndexRequest(tuple(paths), Path(corpus), choice, encoder or None))
    peak = peak_rss_bytes()
    with CorpusStore.open(Path(corpus)) as store:
        key_bytes = store.size().key_bytes
    found = {
        "rss_bytes": peak,
        "key_bytes": key_bytes,
        "chunks": report.chunks,
        "tokens": report.tokens,
        "source_bytes": report.bytes,
    }
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    _main(*sys.argv[1:])
