"""How long a job will still take."""

from dataclasses import replace
from pathlib import Path

import pytest

from precog.server.job import DONE, INGEST, REINDEX, RUNNING, Job, JobRecord
from precog.server.pace import Pace


def test_nobody_knows_before_something_was_done_for_a_while() -> None:
    assert Pace(100, 0.0).at(0, 10.0) is None
    assert Pace(100, 0.0).at(50, 0.5) is None
    assert Pace(0, 0.0).at(50, 10.0) is None
    assert Pace(100, 0.0).at(50, 10.0) == pytest.approx(20.0)
    assert Pace(100, 0.0).at(100, 10.0) == pytest.approx(10.0)


def test_the_pace_of_late_counts() -> None:
    pace = Pace(1_000_000, 0.0)
    assert pace.at(500_000, 1.0) == pytest.approx(2.0)  # documents that had not changed
    found = None
    for second in range(2, 60):
        found = pace.at(500_000 + 1000 * second, float(second))
    assert found == pytest.approx(59 + (500_000 - 59_000) / 1000, rel=0.01)


@pytest.mark.parametrize(("kind", "tokens_total"), [(INGEST, 500), (REINDEX, 1000)])
def test_a_job_tells_what_is_left(kind: str, tokens_total: int, tmp_path: Path) -> None:
    now = 100.0
    job = Job(replace(JobRecord.new(kind, "ana", "papers"), state=RUNNING), tmp_path, lambda: now)
    job.start(1000)
    assert (job.eta_sec, job.progress.tokens_total) == (None, None if kind == INGEST else 1000)
    now = 110.0
    job.advance(200, 100)
    assert (job.eta_sec, job.progress.tokens_total, job.progress.tokens_per_sec) == (40.0, tokens_total, 10.0)
    now = 115.0
    assert job.eta_sec == 35.0  # also where it says nothing meanwhile
    now = 200.0
    assert job.eta_sec == 0.0
    job.record = replace(job.record, is_unwanted=True)
    assert job.eta_sec is None
    job.record = replace(job.record, is_unwanted=False, state=DONE)
    assert job.eta_sec is None
