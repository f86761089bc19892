"""One piece of long work on a corpus: what is kept of it on the disk, and how far it is."""

import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from precog.errors import CancelledError
from precog.server.pace import Pace

QUEUED, RUNNING, DONE, FAILED, CANCELLED = STATES = ("queued", "running", "done", "failed", "cancelled")
INGEST, REINDEX = KINDS = ("ingest", "reindex")


@dataclass(frozen=True)
class Upload:
    """A file that was sent to be ingested.

    Attributes:
        name: what the document is called.
        file: of the job's folder that holds its bytes.
        num_bytes: how many.
    """

    name: str
    file: str
    num_bytes: int


@dataclass(frozen=True)
class JobRecord:
    """What is kept of a job.

    Attributes:
        id: random.
        kind: ``ingest`` or ``reindex``.
        user: whose it is.
        corpus: name of the user's corpus.
        created: seconds since 1970.
        uploads: files to ingest.
        paths: files and folders of this machine to ingest.
        wanted: what is to be made anew, and how, as `ReindexRequest.wanted` says.
        state: one of `STATES`.
        started: when it first ran; None before.
        ended: when it did; None before.
        resumed: how often it went on after the server had stopped.
        is_unwanted: whether it is to be cancelled as soon as it can.
        report: what it did, as the command line prints it; None before its end.
        error: what went wrong; None where nothing did.
    """

    id: str
    kind: str
    user: str
    corpus: str
    created: float
    uploads: tuple[Upload, ...] = ()
    paths: tuple[str, ...] = ()
    wanted: Mapping[str, object] = field(default_factory=dict)
    state: str = QUEUED
    started: float | None = None
    ended: float | None = None
    resumed: int = 0
    is_unwanted: bool = False
    report: Mapping[str, object] | None = None
    error: Mapping[str, object] | None = None

    @classmethod
    def new(cls, kind: str, user: str, corpus: str, job_id: str = "") -> "JobRecord":
        """A job that waits."""
        return cls(job_id or new_id(), kind, user, corpus, time.time())

    def asking(self, **asked: object) -> "JobRecord":
        """The same with ``uploads``, ``paths`` or ``wanted``."""
        return replace(self, **asked)  # type: ignore[arg-type]  # fields by name

    @classmethod
    def from_json(cls, values: dict[str, object]) -> "JobRecord":
        """What `to_json` wrote.

        Raises:
            TypeError, ValueError: it did not.
        """
        uploads, paths = values.pop("uploads"), values.pop("paths")
        if not isinstance(uploads, list) or not isinstance(paths, list):
            raise ValueError("no lists")
        made = cls(**values, uploads=tuple(Upload(**one) for one in uploads), paths=tuple(paths))  # type: ignore[arg-type]  # checked by what follows
        if made.state not in STATES or made.kind not in KINDS or not isinstance(made.user, str):
            raise ValueError("no such state")
        return made

    def to_json(self) -> dict[str, object]:
        """Plain data, complete."""
        return asdict(self)

    @property
    def has_ended(self) -> bool:
        """Whether nothing more happens to it."""
        return self.state in (DONE, FAILED, CANCELLED)

    def names(self, document: str) -> bool:
        """Whether anything in it says the name of a document."""
        return any(document == text or document in text.split(", ") for text in _texts(self.to_json()))


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from (str(key), *_texts(inner))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)


def new_id() -> str:
    """A name for a job that nobody can guess."""
    return f"job_{secrets.token_hex(12)}"


@dataclass(frozen=True)
class JobProgress:
    """How far a job is.

    Attributes:
        document: that is read now; "" for none yet.
        done: so much of ``total``: source bytes of an ingest, tokens of a reindex.
        total: all of it; 0 while it is not known.
        tokens: that were read.
        tokens_total: that will have been at its end; of an ingest an estimate, None until there is one.
        tokens_per_sec: since it began.
        ends: when it will have ended, by the job's clock; None while nobody knows.
    """

    document: str = ""
    done: int = 0
    total: int = 0
    tokens: int = 0
    tokens_total: int | None = None
    tokens_per_sec: float = 0.0
    ends: float | None = None


class Job:
    """A job that waits, runs, or has ended; watches its own run as `precog.corpus.report.Progress`.

    Args:
        record: what is kept of it.
        folder: of its record and its uploads.
        clock: seconds, never going back.

    Attributes:
        stopped: set when the work is to end at its next step.
    """

    def __init__(self, record: JobRecord, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.record, self.folder, self._clock = record, folder, clock
        self.progress = JobProgress()
        self.stopped = threading.Event()
        self._began, self._pace = clock(), Pace()
        self._watchers: set[Callable[[], None]] = set()
        self._lock = threading.Lock()

    @property
    def eta_sec(self) -> float | None:
        """Seconds until it will have ended; None while nobody knows, and where it does not run."""
        if self.record.state != RUNNING or self.record.is_unwanted or self.progress.ends is None:
            return None
        return round(max(0.0, self.progress.ends - self._clock()), 1)

    @contextmanager
    def watched(self, on_change: Callable[[], None]) -> Iterator[None]:
        """Inside, the callable is called after every change, from whichever thread made it."""
        with self._lock:
            self._watchers.add(on_change)
        try:
            yield
        finally:
            with self._lock:
                self._watchers.discard(on_change)

    def tell(self) -> None:
        """Tells all watchers that something has changed."""
        with self._lock:
            watchers = list(self._watchers)
        for on_change in watchers:
            on_change()

    def look(self) -> None:
        """Ends the work where it is not wanted any more.

        Raises:
            CancelledError: it is not.
        """
        if self.stopped.is_set():
            raise CancelledError("the job was stopped")

    def growing(self, state_bytes: int, room_tokens: int) -> None:
        """Nothing: GET /v1/corpora/{name} says what a state takes."""

    def start(self, total_bytes: int) -> None:
        """All sources are known."""
        self._began = self._clock()
        self._pace = Pace(total_bytes, self._began)
        self._tell_progress(total=total_bytes, tokens_total=total_bytes if self.record.kind == REINDEX else None)

    def reading(self, document: str) -> None:
        """A document is opened."""
        self.look()
        self._tell_progress(document=document)

    def advance(self, done_bytes: int, num_tokens: int) -> None:
        """How far it is."""
        self.look()
        now, before = self._clock(), self.progress
        changed: dict[str, object] = {"ends": self._pace.at(done_bytes, now) or before.ends}
        if self.record.kind != REINDEX and num_tokens > before.tokens and done_bytes:
            changed["tokens_total"] = max(num_tokens, round(num_tokens * before.total / done_bytes))
        per_sec = round(num_tokens / max(now - self._began, 1e-6), 1)
        self._tell_progress(done=done_bytes, tokens=num_tokens, tokens_per_sec=per_sec, **changed)

    def _tell_progress(self, **changed: object) -> None:
        self.progress = replace(self.progress, **changed)  # type: ignore[arg-type]  # fields by name
        self.tell()
