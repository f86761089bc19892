"""Jobs on the disk: ``users/…/jobs/ID/job.json`` with the uploads beside it, whole after a crash or not there.

A folder without a record is an upload that was never acknowledged, and goes at the next start.
"""

import contextlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from precog.errors import StorageError
from precog.server.job import QUEUED, RUNNING, JobRecord
from precog.server.tenant import make_private
from precog.store.failure import guarded
from precog.store.folder import write_atomically

_RECORD = "job.json"


def new_job_folder(jobs: Path, job_id: str) -> Path:
    """An empty folder for a job and its uploads, mode 0700.

    Raises:
        StorageError: the disk refuses.
    """
    folder = jobs / job_id
    with guarded(folder):
        make_private(folder)
    return folder


def write_record(folder: Path, record: JobRecord) -> None:
    """Writes what is kept of a job; returns when it is on the disk.

    Raises:
        StorageError: the disk refuses; what was kept before is untouched.
    """
    write_atomically(folder / _RECORD, json.dumps(record.to_json()).encode())


def remove_uploads(folder: Path) -> None:
    """Removes all but the record."""
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if path.name != _RECORD:
                path.unlink(missing_ok=True)


def remove_job(folder: Path) -> None:
    """Removes all that is kept of a job."""
    shutil.rmtree(folder, ignore_errors=True)


def stored_jobs(users: Path) -> Iterator[tuple[JobRecord, Path]]:
    """The jobs of all users, oldest first; what ran when the server stopped waits again.

    What a crash has left without a record, or of uploads that were ingested, is removed.
    """
    found = []
    for folder in sorted(users.glob("*/jobs/*")):
        record = _read(folder)
        if record is None:
            remove_job(folder)
            continue
        if record.has_ended:
            remove_uploads(folder)
        elif record.state == RUNNING:
            record = replace(record, state=QUEUED, resumed=record.resumed + 1)
            with contextlib.suppress(StorageError):  # it is then resumed once more
                write_record(folder, record)
        found.append((record, folder))
    yield from sorted(found, key=lambda pair: pair[0].created)


def _read(folder: Path) -> JobRecord | None:
    try:
        values = json.loads((folder / _RECORD).read_bytes())
        return JobRecord.from_json(values) if isinstance(values, dict) else None
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
