"""``/v1/jobs``: long work on corpora is watched and stopped."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, Field

from precog.errors import PrecogError
from precog.server.depends import ReaderFor, ServicesDep, WriterFor
from precog.server.failure import body_of, status_of
from precog.server.job import REINDEX, Job
from precog.server.openapi import events
from precog.server.streaming import STILL_THERE, EventStream, frame

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])
Id = Annotated[str, Path(description="Id of a job.", examples=["job_0123456789abcdef01234567"])]
_LOOK_SEC, _SILENT_SEC = 1.0, 15.0
State = Literal["queued", "running", "stopping", "done", "failed", "cancelled"]


class Progress(BaseModel):
    """How far it is: source bytes of an ingest, tokens of a reindex."""

    document: str = ""
    done: int = 0
    total: int = 0
    unit: Literal["bytes", "tokens"] = "bytes"
    tokens: int = Field(default=0, description="That were read.")
    tokens_total: int | None = Field(
        default=None, description="That will have been at its end; of an ingest an estimate, null until there is one."
    )
    tokens_per_sec: float = 0.0
    eta_sec: float | None = Field(
        default=None, description="Seconds until it has ended, at the pace of late; null until known, or not running."
    )


class JobAnswer(BaseModel):
    """A job; its report is that of ``precog index --json``."""

    id: str
    object: Literal["job"] = "job"
    kind: Literal["ingest", "reindex"]
    corpus: str
    state: State
    created: float
    started: float | None
    ended: float | None
    resumed: int
    documents: list[str]
    progress: Progress
    report: dict[str, Any] | None
    error: dict[str, str | None] | None


class JobList(BaseModel):
    """Jobs, newest first."""

    object: Literal["list"] = "list"
    data: list[JobAnswer]


def answer_of(job: Job) -> JobAnswer:
    """A job as it is now."""
    record = job.record
    is_stopping = record.is_unwanted and not record.has_ended
    return JobAnswer.model_validate(
        {
            "id": record.id,
            "kind": record.kind,
            "corpus": record.corpus,
            "state": "stopping" if is_stopping else record.state,
            "created": record.created,
            "started": record.started,
            "ended": record.ended,
            "resumed": record.resumed,
            "documents": [*(one.name for one in record.uploads), *record.paths],
            "progress": _progress(job),
            "report": record.report,
            "error": record.error,
        }
    )


def _progress(job: Job) -> dict[str, object]:
    now = job.progress
    return {
        "document": now.document,
        "done": now.done,
        "total": now.total,
        "unit": "tokens" if job.record.kind == REINDEX else "bytes",
        "tokens": now.tokens,
        "tokens_total": now.tokens_total,
        "tokens_per_sec": now.tokens_per_sec,
        "eta_sec": job.eta_sec,
    }


@router.get("", operation_id="list_jobs")
async def list_jobs(services: ServicesDep, principal: ReaderFor) -> JobList:
    """Your jobs, newest first."""
    return JobList(data=[answer_of(job) for job in services.jobs.of(principal.user)])


@router.get("/{id}", operation_id="get_job")
async def get_job(id: Id, services: ServicesDep, principal: ReaderFor) -> JobAnswer:
    """How far a job is, and what came of it."""
    return answer_of(services.jobs.find(principal.user, id))


@router.delete("/{id}", operation_id="cancel_job")
async def cancel_job(request: Request, id: Id, services: ServicesDep, principal: WriterFor) -> JobAnswer:
    """Stop a job, which keeps the documents that it has finished; one that has ended is forgotten."""
    return answer_of(await services.workers.run(request, lambda _: services.jobs.cancel(principal.user, id)))


@router.get(
    "/{id}/events",
    operation_id="watch_job",
    response_class=EventStream,
    responses=events(
        "Events `progress`, then `done`, `failed` or `cancelled`, each with the job; "
        "or `interrupted`: the server stops, and goes on with it at its next start; or `error`: the key was revoked.",
        'event: progress\ndata: {"id": "job_0123456789abcdef01234567", "state": "running"}',
    ),
)
async def watch_job(request: Request, id: Id, services: ServicesDep, principal: ReaderFor) -> EventStream:
    """Follow a job until it ends, event by event."""
    job = services.jobs.find(principal.user, id)
    return EventStream(_events(request, services, job))


async def _events(request: Request, services: ServicesDep, job: Job) -> AsyncIterator[str]:
    """The job after each change, as long as the key of whoever follows it is one."""
    try:
        async for text in _changes(request, services, job):
            yield text
    except PrecogError as error:
        yield frame(body_of(error, status_of(error)), "error")


async def _changes(request: Request, services: ServicesDep, job: Job) -> AsyncIterator[str]:
    """The job after each change; changes that come faster than they are read are told as one."""
    loop, changed = asyncio.get_running_loop(), asyncio.Event()

    def on_change() -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(changed.set)

    with job.watched(on_change):
        while True:
            changed.clear()
            request.state.check_key()
            has_ended = job.record.has_ended
            yield frame(answer_of(job).model_dump(), job.record.state if has_ended else "progress")
            if has_ended:
                return
            silent_sec = 0.0
            while not changed.is_set():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), _LOOK_SEC)
                if services.stopping.is_set():
                    yield frame(answer_of(job).model_dump(), "interrupted")
                    return
                if await request.is_disconnected():
                    return
                request.state.check_key()
                silent_sec += _LOOK_SEC
                if silent_sec % _SILENT_SEC == 0:
                    yield STILL_THERE
