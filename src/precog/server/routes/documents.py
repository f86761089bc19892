"""``/v1/corpora/{name}/documents``: files come in, are listed, and are forgotten with a proof."""

from itertools import islice
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, ConfigDict, Field

from precog.backbones.registry import load_tokenizer
from precog.corpus.corpus import settings_of
from precog.corpus.forget import forget_document
from precog.corpus.listing import chunk_json, document_json
from precog.errors import MissingError
from precog.server import corpora
from precog.server.depends import ReaderFor, ServicesDep, WriterFor
from precog.server.forgetting import forget_using
from precog.server.job import INGEST, JobRecord
from precog.server.job_folder import new_job_folder, remove_job
from precog.server.job_work import below_roots
from precog.server.multipart import sent_files
from precog.server.routes.corpora import Name
from precog.server.routes.jobs import JobAnswer, answer_of
from precog.server.services import Services
from precog.server.uploads import MOST_NAME_CHARS, Sent, keep
from precog.server.wording import in_requests_words
from precog.server.work import Job as Work
from precog.store import CorpusStore, Document
from precog.text.tokenizer import Tokenizer

router = APIRouter(prefix="/v1/corpora/{name}", tags=["documents"])
DocumentName = Annotated[str, Path(description="As it was named when it came in.", examples=["report.pdf"])]
Limit = Annotated[int, Query(ge=1, le=1_000, description="Most entries.")]
Offset = Annotated[int, Query(ge=0, le=1 << 53, description="Entries left out.")]
_UPLOAD = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "properties": {"files": {"type": "array", "items": {"type": "string", "format": "binary"}}},
                    "required": ["files"],
                }
            },
            "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
        },
    }
}


class Paths(BaseModel):
    """Files and folders of the server's machine."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"paths": ["/srv/papers"]}]})

    paths: list[Annotated[str, Field(min_length=1, max_length=4_096)]] = Field(min_length=1, max_length=1_000)


class DocumentAnswer(BaseModel):
    """A document, as ``precog list --json`` tells it, and what its states take."""

    document: str
    status: str
    chunks: int
    reason: str | None
    media_type: str
    bytes: int
    sha256: str
    warnings: list[str]
    state_bytes: int = Field(description="Of its stored states; what documents share counts for each.")


class Documents(BaseModel):
    """Some documents of a corpus, in the order they came in."""

    object: Literal["list"] = "list"
    data: list[DocumentAnswer]
    total: int
    offset: int


class Chunk(BaseModel):
    """What one state has read, and where it stands in the document's extracted text."""

    ordinal: int
    page: int | None
    span: tuple[int, int]
    context: str
    text: str
    tokens: int
    stored: bool


class WithChunks(BaseModel):
    """A document and some of its chunks, in order."""

    document: DocumentAnswer
    chunks: list[Chunk]
    offset: int


class Forgotten(BaseModel):
    """What was forgotten, and what the search of every byte for it found; ``hits`` is 0, or something is wrong."""

    forgotten: list[str]
    files_searched: int
    bytes_searched: int
    searched_for: int
    hits: int
    hit_files: list[str]
    outside: list[dict[str, Any]]


@router.post("/documents", status_code=202, operation_id="upload_documents", openapi_extra=_UPLOAD)
async def upload_documents(
    request: Request,
    name: Name,
    services: ServicesDep,
    principal: WriterFor,
    document: Annotated[
        str | None, Query(alias="name", description="What the document is called, where the body is one.")
    ] = None,
) -> JobAnswer:
    """Send files, in a form or one as the body; they are ingested by a job, and replace what had their names."""
    tenant = services.tenant(principal)
    await run_in_threadpool(corpora.own_corpus, tenant, name)  # before the body is read
    services.jobs.check_room(principal.user)
    async with sent_files(request, document) as sent:
        return await services.workers.run(request, lambda _: _queue(services, principal.user, name, sent))


def _queue(services: Services, user: str, name: str, sent: list[Sent]) -> JobAnswer:
    """Keeps files and queues their ingest."""
    record = JobRecord.new(INGEST, user, name)
    tenant = services.tenant_of(user)
    folder = new_job_folder(tenant.jobs, record.id)
    try:
        record = record.asking(uploads=keep(folder, sent))
        corpora.own_corpus(tenant, name)  # it may have been deleted while the body came
        return answer_of(services.jobs.add(record, lambda _: folder))
    except BaseException:
        remove_job(folder)
        raise


@router.post("/ingest", status_code=202, operation_id="ingest_paths")
async def ingest_paths(
    request: Request, name: Name, body: Paths, services: ServicesDep, principal: WriterFor
) -> JobAnswer:
    """Read files and folders of the server's machine, below those that it was started to allow; a job."""
    tenant = services.tenant(principal)

    def work(_: Work) -> JobAnswer:
        corpora.own_corpus(tenant, name)
        below_roots(body.paths, services.settings)  # and again when it runs
        record = JobRecord.new(INGEST, principal.user, name).asking(paths=tuple(body.paths))
        return answer_of(services.jobs.add(record, lambda job_id: new_job_folder(tenant.jobs, job_id)))

    return await services.workers.run(request, work)


@router.get("/documents", operation_id="list_documents")
async def list_documents(
    request: Request,
    name: Name,
    services: ServicesDep,
    principal: ReaderFor,
    limit: Limit = 100,
    offset: Offset = 0,
    status: Literal["indexed", "failed", "indexing"] | None = None,
) -> Documents:
    """The documents of a corpus, in the order they came in."""
    folder = services.tenant(principal).corpus(name)
    return await services.workers.run(request, lambda _: _page(folder, name, status, offset, limit))


@router.get("/failures", operation_id="list_failures")
async def list_failures(
    request: Request,
    name: Name,
    services: ServicesDep,
    principal: ReaderFor,
    limit: Limit = 100,
    offset: Offset = 0,
) -> Documents:
    """The documents that yield nothing, each with the reason."""
    folder = services.tenant(principal).corpus(name)
    return await services.workers.run(request, lambda _: _page(folder, name, "failed", offset, limit))


def _page(folder: FilePath, name: str, status: str | None, offset: int, limit: int) -> Documents:
    with in_requests_words(folder, name), CorpusStore.open(folder) as store:
        rows = list(islice(store.documents(status), offset, offset + limit))
        data = [_answer_of(store, row) for row in rows]
        total = sum(1 for _ in store.documents(status))
    return Documents(data=data, total=total, offset=offset)


@router.get("/documents/{document:path}", operation_id="get_document")
async def get_document(
    request: Request,
    name: Name,
    document: DocumentName,
    services: ServicesDep,
    principal: ReaderFor,
    limit: Limit = 100,
    offset: Offset = 0,
) -> WithChunks:
    """A document and what its states have read."""
    folder = services.tenant(principal).corpus(name)

    def work(_: Work) -> WithChunks:
        with in_requests_words(folder, name), CorpusStore.open(folder) as store:
            row = _found(store, document)
            chunks = list(islice(store.chunks_of(row.id), offset, offset + limit))
            told = _answer_of(store, row)
        return WithChunks(
            document=told,
            chunks=[Chunk.model_validate(chunk_json(chunk)) for chunk in chunks],
            offset=offset,
        )

    return await services.workers.run(request, work)


@router.delete("/documents/{document:path}", operation_id="forget_document")
async def forget(
    request: Request, name: Name, document: DocumentName, services: ServicesDep, principal: WriterFor
) -> Forgotten:
    """Forget a document, and search every byte of the corpus for it; it leaves uploads and jobs, too."""
    return await services.workers.run(request, lambda _: _forget(services, principal.user, name, document))


def _forget(services: Services, user: str, name: str, document: str) -> Forgotten:
    tenant = services.tenant_of(user)
    folder = corpora.own_corpus(tenant, name)
    with in_requests_words(folder, name):
        with CorpusStore.open(folder) as store:
            is_known = bool(store.find_documents(document)) or store.is_forgetting(document)
            tokenizer = _tokenizer_of(services, store)
        removed = services.jobs.forget_document(user, name, document)
        if not is_known and not removed:
            raise _missing(document)
        services.corpora.drop(folder)
        report = forget_document(folder, document, tokenizer) if is_known else None
        services.corpora.drop(folder)
        forget_using(services, user, "corpus", name)
    if report is None:
        return Forgotten(
            forgotten=[document], files_searched=0, bytes_searched=0, searched_for=0, hits=0, hit_files=[], outside=[]
        )
    told = report.to_json()
    told["hit_files"] = [str(FilePath(path).relative_to(folder)) for path in report.hit_files]
    return Forgotten.model_validate(told)


def _answer_of(store: CorpusStore, row: Document) -> DocumentAnswer:
    return DocumentAnswer.model_validate({**document_json(row), "state_bytes": store.state_bytes_of(row.id)})


def _tokenizer_of(services: Services, store: CorpusStore) -> Tokenizer:
    """That of the model that made a corpus, which may be another than the one that is open."""
    backbone = services.scheduler.backbone
    is_its_own = store.fingerprint.hex() == backbone.fingerprint
    return backbone.tokenizer if is_its_own else load_tokenizer(settings_of(store).model)


def _found(store: CorpusStore, document: str) -> Document:
    rows = store.find_documents(document)
    settled = [row for row in rows if row.status != "indexing"] or rows
    if not settled:
        raise _missing(document)
    return settled[0]


def _missing(document: str) -> MissingError:
    shown = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in document[:MOST_NAME_CHARS])
    return MissingError("there is no such document in this corpus", given=shown)
