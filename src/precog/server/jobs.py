"""The queue of long work: one job at a time in a corpus, a few at once in all, users in turn, kept across restarts.

Of those few the last is never one user's who has all others: somebody else's short job does not wait for long ones.
"""

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from precog.errors import BusyError, CancelledError, LimitError, MissingError, PrecogError, StorageError
from precog.server.failure import bug_of
from precog.server.job import CANCELLED, DONE, FAILED, QUEUED, RUNNING, Job, JobRecord
from precog.server.job_folder import remove_job, remove_uploads, stored_jobs, write_record
from precog.server.wording import reworded

MOST_RUNNING = 2
MOST_UNFINISHED = 20
"""Jobs of one user that wait or run."""
MOST_KEPT = 100
"""Jobs of one user that have ended and can still be looked up."""
_RETRY_SEC = 10.0
Work = Callable[[Job], Mapping[str, object]]
"""Does what a job says, and returns the report; raises CancelledError where the job is stopped."""


class Jobs:
    """All jobs of all users.

    Args:
        users: folder of the users' folders.
        work: does a job.
        most_running: jobs at once.
        take_back: removes what a job that failed or was cancelled has left half done.
    """

    def __init__(
        self,
        users: Path,
        work: Work,
        most_running: int = MOST_RUNNING,
        *,
        take_back: Callable[[Job], None] = lambda job: None,
    ) -> None:
        self._users, self._work, self._most_running, self._take_back = users, work, most_running, take_back
        self._changed = threading.Condition()
        self._jobs: dict[str, Job] = {}
        self._threads: dict[str, threading.Thread] = {}
        self._last_turn: dict[str, float] = {}
        self._is_open = False

    def open(self) -> None:
        """Takes up what waited or ran when the server stopped."""
        with self._changed:
            self._is_open = True
            for record, folder in stored_jobs(self._users):
                self._jobs[record.id] = Job(record, folder)
            self._dispatch()

    def close(self) -> None:
        """Interrupts what runs between two commit units; the next start goes on there."""
        with self._changed:
            self._is_open = False
            for job_id in self._threads:
                self._jobs[job_id].stopped.set()
            threads = list(self._threads.values())
        for thread in threads:
            thread.join()
        with self._changed:
            jobs = list(self._jobs.values())
        for job in jobs:
            job.tell()

    def check_room(self, user: str) -> None:
        """Refuses a further job where too many of a user's are unfinished.

        Raises:
            LimitError: there are.
        """
        if sum(not job.record.has_ended for job in self.of(user)) >= MOST_UNFINISHED:
            raise LimitError(
                "too many of your jobs are not finished",
                expected=f"at most {MOST_UNFINISHED}",
                hint="wait for one to end, or cancel one",
                retry_after_sec=_RETRY_SEC,
            )

    def add(self, record: JobRecord, make_folder: Callable[[str], Path]) -> Job:
        """Queues a job; once this returns it is done, whatever happens to the server.

        Args:
            record: what is to be done.
            make_folder: the folder for a job of this id, its uploads in it.

        Raises:
            LimitError: too many of this user's are unfinished.
            StorageError: it cannot be kept.
        """
        with self._changed:
            self.check_room(record.user)
            folder = make_folder(record.id)
            write_record(folder, record)
            job = self._jobs[record.id] = Job(record, folder)
            self._dispatch()
        return job

    def of(self, user: str, corpus: str | None = None) -> list[Job]:
        """A user's jobs, newest first; of one corpus or of all."""
        with self._changed:
            found = [job for job in self._jobs.values() if job.record.user == user]
        found = [job for job in found if corpus in (None, job.record.corpus)]
        return sorted(found, key=lambda job: job.record.created, reverse=True)

    def find(self, user: str, job_id: str) -> Job:
        """A job of a user's.

        Raises:
            MissingError: there is none of this id, or it is another user's.
        """
        with self._changed:
            job = self._jobs.get(job_id)
        if job is None or job.record.user != user:
            raise MissingError("there is no such job", given=job_id[:80], hint="GET /v1/jobs lists yours")
        return job

    def cancel(self, user: str, job_id: str) -> Job:
        """Stops a job, which keeps the documents that it has finished; forgets one that has ended.

        Raises:
            MissingError: there is none of this id.
        """
        job = self.find(user, job_id)
        with self._changed:
            if job.record.has_ended:
                del self._jobs[job_id]
                remove_job(job.folder)
            else:
                self._stop(job)
        return job

    def stop_all(self, user: str, corpus: str, wait_sec: float) -> None:
        """Cancels every job of a corpus and waits until none runs.

        Raises:
            BusyError: one does not end in time.
        """
        deadline = time.monotonic() + wait_sec
        with self._changed:
            for job in self.of(user, corpus):
                if not job.record.has_ended:
                    self._stop(job)
            while any(job.record.id in self._threads for job in self.of(user, corpus)):
                if not self._changed.wait(max(0.0, deadline - time.monotonic())):
                    raise BusyError("a job of this corpus does not end", given=corpus, hint="try again")

    def forget_corpus(self, user: str, corpus: str) -> None:
        """Removes what is kept of the jobs of a corpus that is gone."""
        with self._changed:
            for job in self.of(user, corpus):
                if job.record.id not in self._threads:
                    del self._jobs[job.record.id]
                    remove_job(job.folder)

    def forget_document(self, user: str, corpus: str, document: str) -> int:
        """Removes a document from all that waits, and the records of ended jobs that name it.

        Returns:
            Uploads of it that were removed.

        Raises:
            BusyError: it is being ingested.
        """
        removed = 0
        with self._changed:
            found = self.of(user, corpus)
            for job in found:
                if job.record.id in self._threads and any(one.name == document for one in job.record.uploads):
                    hint = "wait for the job to end, or cancel it"
                    raise BusyError("this document is being ingested", given=document, hint=hint)
            for job in found:
                if job.record.has_ended and job.record.names(document):
                    del self._jobs[job.record.id]
                    remove_job(job.folder)
                elif not job.record.has_ended and job.record.id not in self._threads:
                    removed += _without(job, document)
        return removed

    def _stop(self, job: Job) -> None:
        if job.record.id in self._threads:
            self._change(job, is_unwanted=True)
            job.stopped.set()
        elif job.record.started is not None:  # when its turn comes again, what it has left is taken back
            self._change(job, is_unwanted=True)
        else:
            self._end(job, state=CANCELLED)

    def _dispatch(self) -> None:
        """Starts what may run: the next user's oldest job whose corpus nobody works on."""
        while self._is_open and len(self._threads) < self._most_running and (job := self._next()) is not None:
            self._last_turn[job.record.user] = time.monotonic()
            name = job.record.id
            thread = self._threads[name] = threading.Thread(target=self._run, args=(job,), name=name)
            thread.start()

    def _next(self) -> Job | None:
        running = [self._jobs[job_id].record for job_id in self._threads]
        busy = {(record.user, record.corpus) for record in running}
        counts = Counter(record.user for record in running)
        most = max(1, self._most_running - 1)
        waiting = [
            job
            for job in self._jobs.values()
            if job.record.state == QUEUED
            and job.record.id not in self._threads
            and (job.record.user, job.record.corpus) not in busy
            and counts[job.record.user] < most
        ]

        def turn(job: Job) -> tuple[int, float, float]:
            user = job.record.user
            return counts[user], self._last_turn.get(user, 0.0), job.record.created

        return min(waiting, key=turn, default=None)

    def _run(self, job: Job) -> None:
        """One job from its start to its end, in a thread of its own."""
        if job.record.is_unwanted:  # cancelled, and killed before it could end
            job.stopped.set()
        self._change(job, state=RUNNING, started=job.record.started or time.time())
        changed: dict[str, object]
        try:
            job.look()
            changed = {"state": DONE, "report": dict(self._work(job))}
        except PrecogError as error:
            changed = {"state": FAILED, "error": reworded(error).to_json()}
            if isinstance(error, CancelledError) and job.stopped.is_set():
                changed = {"state": QUEUED, "resumed": job.record.resumed + 1}
                if job.record.is_unwanted:
                    changed = {"state": CANCELLED}
        except Exception as error:  # the queue goes on, whatever a job stumbles over
            changed = {"state": FAILED, "error": bug_of(error).to_json()}
        if changed["state"] in (FAILED, CANCELLED):
            with contextlib.suppress(Exception):  # what is left then goes with the document, or its next upload
                self._take_back(job)
        with self._changed:
            if changed["state"] == QUEUED:
                self._change(job, **changed)
            else:
                self._end(job, **changed)
            del self._threads[job.record.id]
            self._dispatch()
            self._changed.notify_all()

    def _end(self, job: Job, **changed: object) -> None:
        # whoever is told that it has ended finds nothing left of it, and whoever is killed here does not run it again
        with self._changed:
            record = replace(job.record, ended=time.time(), **changed)  # type: ignore[arg-type]  # fields by name
            with contextlib.suppress(StorageError):  # a full disk: it is run again then, and finds no files
                write_record(job.folder, record)
            remove_uploads(job.folder)
            job.record = record
        job.tell()
        for old in [other for other in self.of(job.record.user) if other.record.has_ended][MOST_KEPT:]:
            del self._jobs[old.record.id]
            remove_job(old.folder)

    def _change(self, job: Job, **changed: object) -> None:
        with self._changed:
            job.record = replace(job.record, **changed)  # type: ignore[arg-type]  # fields by name
            with contextlib.suppress(StorageError):  # a full disk does not keep it from running; it is run again then
                write_record(job.folder, job.record)
        job.tell()


def _without(job: Job, document: str) -> int:
    gone = [one for one in job.record.uploads if one.name == document]
    if gone:
        job.record = replace(job.record, uploads=tuple(one for one in job.record.uploads if one.name != document))
        write_record(job.folder, job.record)
        for one in gone:
            (job.folder / one.file).unlink(missing_ok=True)
    return len(gone)
