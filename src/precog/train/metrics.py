"""A run's metrics: one JSON object per line, each step once, however often the run was resumed."""

import json
import os
from pathlib import Path
from typing import Any

from precog.errors import StorageError

METRICS_FILE = "metrics.jsonl"


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The lines of a run in order; a line that was cut off, or that no run writes, is left out.

    Raises:
        StorageError: the file cannot be read.
    """
    path = folder / METRICS_FILE
    if not path.exists():
        return []
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise StorageError("the metrics cannot be read", given=path, hint=error.strerror) from error
    lines = []
    for line in text.splitlines():
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict) and type(entry.get("step")) is int:
            lines.append(entry)
    return lines


class MetricsLog:
    """Appends lines to a run's metrics.

    Args:
        folder: of the run.
        step: lines after this step belong to a past that is done again; they are dropped.

    Raises:
        StorageError: the file cannot be written.
    """

    def __init__(self, folder: Path, step: int) -> None:
        self._path = folder / METRICS_FILE
        kept = [entry for entry in read_metrics(folder) if entry["step"] <= step]
        partial = folder / f".{METRICS_FILE}.partial"
        try:
            with partial.open("w", encoding="utf-8") as file:
                file.writelines(json.dumps(entry) + "\n" for entry in kept)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(self._path)
            self._file = self._path.open("a", encoding="utf-8")
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise self._refused(error) from error

    def write(self, entry: dict[str, Any]) -> None:
        """Append a line.

        Raises:
            StorageError: the disk is full or refuses.
        """
        try:
            self._file.write(json.dumps(entry) + "\n")
            self._file.flush()
        except OSError as error:
            raise self._refused(error) from error

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _refused(self, error: OSError) -> StorageError:
        return StorageError(
            "the metrics cannot be written", given=self._path, hint=f"{error.strerror}; free some space and resume"
        )
