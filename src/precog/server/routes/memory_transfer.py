"""``/v1/memories/me``: whole conversations in, and a memory as an archive in and out."""

import gzip
import json
import time
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Form, Query, Request, UploadFile
from fastapi.responses import StreamingResponse

from precog.memory.archive import archive_of, archive_rows
from precog.memory.restore import check_archive, import_archive
from precog.memory.settings import MemorySettings
from precog.memory.transcript import transcript_of
from precog.memory.utterance import clean
from precog.server import memory_models as models
from precog.server.depends import ServicesDep
from precog.server.memory_models import ReadMemory, WriteMemory
from precog.server.openapi import events
from precog.server.remembering import num_tokens, remember_all, told_of
from precog.server.streaming import named, streamed
from precog.server.work import Done, Job
from precog.text.tokenizer import Tokenizer

router = APIRouter(prefix="/v1/memories/me", tags=["memories"])
_BLOCK_BYTES = 1 << 16
_Stream = Annotated[bool, Form(description="Answer with server-sent events: ``progress``, then ``done`` or ``error``.")]


@router.post(
    "/transcripts",
    operation_id="remember_transcript",
    response_model=models.Remembered,
    responses=events(
        "What became of it; with `stream`, events `progress`, then `done` or `error`.",
        'event: progress\ndata: {"turns": 16, "total": 412}',
    ),
)
async def remember_transcript(
    request: Request,
    services: ServicesDep,
    memory: WriteMemory,
    file: UploadFile,
    importance: Annotated[float, Form(allow_inf_nan=False)] = 0.0,
    stream: _Stream = False,
) -> models.Remembered | StreamingResponse:
    """Remembers a whole conversation from a file, in any of the formats that `precog memory remember --file` reads.

    It is read whole before anything is remembered. Sending it again goes on where it was interrupted.
    """
    data, name = await file.read(), clean(file.filename or "transcript")[-200:]

    def work(job: Job) -> models.Remembered:
        transcript = transcript_of(data, name)
        total = transcript.num_utterances

        def told(turns: int) -> None:
            if stream:
                job.emit(("progress", {"turns": turns, "total": total}))

        said = transcript.utterances
        return remember_all(memory, job, said, importance, notes=transcript.notes, on_turn=told)

    if stream:
        return await streamed(services.workers, request, lambda job: work(job).model_dump(), named("done"))
    return await services.workers.run(request, work)


@router.post("/import", operation_id="import_memory")
async def import_memory(
    request: Request, services: ServicesDep, memory: WriteMemory, file: UploadFile
) -> models.Remembered:
    """Remembers what an exported archive holds; what is known already changes nothing."""
    data = await file.read()

    def work(job: Job) -> models.Remembered:
        started = time.perf_counter()
        entries = archive_of(data, clean(file.filename or "archive")[-200:])

        def check(tokenizer: Tokenizer, settings: MemorySettings) -> None:
            check_archive(entries, tokenizer, settings.chunk_tokens, None)

        with memory.writing(job.cancelled, create=True, before_making=check) as opened:
            before = num_tokens(opened)
            done = import_archive(opened, entries)
            seconds = time.perf_counter() - started
            return told_of(memory, opened, done, num_tokens(opened) - before, seconds)

    return await services.workers.run(request, work)


@router.get(
    "/export",
    operation_id="export_memory",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "The archive.",
            "content": {
                "application/x-ndjson": {"schema": {"type": "string"}, "example": '{"format": "precog-memory"}\n'},
                "application/gzip": {"schema": {"type": "string", "format": "binary"}},
            },
        }
    },
)
async def export_memory(
    request: Request,
    services: ServicesDep,
    memory: ReadMemory,
    compressed: Annotated[bool, Query(description="Pack it with gzip.")] = False,
) -> StreamingResponse:
    """What was said, as JSON lines that people can read; forgetting does not reach it there."""

    def work(job: Job) -> None:
        with memory.reading() as store:
            rows, _ = archive_rows(store)
        data = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
        data = gzip.compress(data, mtime=0) if compressed else data
        for start in range(0, len(data), _BLOCK_BYTES):
            job.emit(data[start : start + _BLOCK_BYTES])

    told = services.workers.stream(request, work)
    first = await anext(told)  # what fails, fails before an answer has begun

    async def blocks() -> AsyncIterator[bytes]:
        yield first  # type: ignore[misc]  # bytes: an archive has at least its first line
        async for event in told:
            if not isinstance(event, Done):
                yield event  # type: ignore[misc]  # bytes

    name = "memory.jsonl.gz" if compressed else "memory.jsonl"
    media_type = "application/gzip" if compressed else "application/x-ndjson"
    return StreamingResponse(
        blocks(), media_type=media_type, headers={"Content-Disposition": f'attachment; filename="{name}"'}
    )
