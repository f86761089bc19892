"""Records of experiments on disk: JSON lines that several processes write and a later run goes on from.

Every process that measures writes a file of its own under a name nobody has used; what an experiment has measured is
all that its files hold. A line that was not finished is as if it had not been begun.
"""

import json
import os
import secrets
from collections.abc import Mapping
from hashlib import sha256
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from types import TracebackType
from typing import Any

from precog.errors import StorageError
from precog.evaluate.experiment import Experiment, Record
from precog.writing import open_new

__all__ = ["RecordFile", "Records", "code_digest"]

NOT_MEASURING = ("cli", "data", "figures", "paper", "plan", "__pycache__")
"""Folders whose code only chooses, calculates, draws or writes up; a change anywhere else makes records worthless.

Data sets are named by their digests.
"""


def code_digest(package: Traversable | None = None) -> str:
    """SHA-256 over the code that decides records.

    Args:
        package: where it lies; this package when None.
    """
    digest = sha256()
    package = resources.files("precog") if package is None else package
    for name, file in sorted(_sources(package, ""), key=lambda pair: pair[0]):
        digest.update(name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def _sources(folder: Traversable, path: str) -> list[tuple[str, Traversable]]:
    found = []
    for entry in folder.iterdir():
        inside = f"{path}/{entry.name}"
        if entry.is_dir() and entry.name not in NOT_MEASURING:
            found += _sources(entry, inside)
        elif entry.name.endswith((".py", ".json")):
            found.append((inside, entry))
    return found


class Records:
    """What is kept of one experiment.

    Args:
        folder: of the records of a run.
        name: of the experiment in this run.
        experiment: its settings and those of the code name the files.
        code: `code_digest`.
    """

    def __init__(self, folder: Path, name: str, experiment: Experiment, code: str) -> None:
        settings = json.dumps([name, experiment.settings, code], sort_keys=True)
        self.folder, self.name, self.size, self.code = folder, name, len(experiment), code
        self.fingerprint = sha256(settings.encode()).hexdigest()[:16]

    @property
    def paths(self) -> list[Path]:
        """Its files."""
        return sorted(self.folder.glob(f"{self.name}-{self.fingerprint}.*.jsonl"))

    def read(self) -> dict[int, Record]:
        """Every record there is, by the number of its item; damaged lines are no records.

        Raises:
            StorageError: a file cannot be read.
        """
        found: dict[int, Record] = {}
        for path in self.paths:
            for line in _lines(path):
                number, record = line.get("number"), line.get("record")
                if isinstance(number, int) and 0 <= number < self.size and isinstance(record, dict):
                    found[number] = record
        return found

    def count(self) -> int:
        """About how many records there are, without reading them: for showing how far a run is."""
        lines = sum(path.read_bytes().count(b"\n") - 1 for path in self.paths)
        return min(max(lines, 0), self.size)

    def origins(self) -> list[Mapping[str, object]]:
        """What stands at the head of its files: where and when they were measured."""
        first = [line for path in self.paths for line in _lines(path)[:1]]
        return [line["origin"] for line in first if isinstance(line.get("origin"), dict)]

    def write(self, origin: Mapping[str, object]) -> "RecordFile":
        """A new file of it.

        Args:
            origin: stands at its head.

        Raises:
            StorageError: it cannot be written.
        """
        return RecordFile(self.folder / f"{self.name}-{self.fingerprint}.{secrets.token_hex(4)}.jsonl", origin)


class RecordFile:
    """A file that records are appended to; each is on the disk when `add` returns."""

    def __init__(self, path: Path, origin: Mapping[str, object]) -> None:
        self._path = path
        try:
            self._descriptor = open_new(path, 0o644)
        except OSError as error:
            raise StorageError("records cannot be written", given=path, hint=error.strerror) from error
        self._line({"origin": origin})

    def add(self, number: int, record: Record) -> None:
        """Append the record of item ``number``.

        Raises:
            StorageError: the disk refuses.
        """
        self._line({"number": number, "record": record})

    def _line(self, value: Mapping[str, object]) -> None:
        data = (json.dumps(value, ensure_ascii=False) + "\n").encode()
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError as error:
            raise StorageError("records cannot be written", given=self._path, hint=error.strerror) from error

    def __enter__(self) -> "RecordFile":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)


def _lines(path: Path) -> list[dict[str, Any]]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise StorageError("records cannot be read", given=path, hint=error.strerror) from error
    found = []
    for line in data.split(b"\n")[:-1]:  # what no line end follows was not finished
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            found.append(value)
    return found
