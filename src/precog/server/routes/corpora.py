"""``/v1/corpora``: corpora are made, listed, described, read again, verified and deleted."""

from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, ConfigDict, Field

from precog.corpus.verify import DEFAULT_CHUNKS, verify_corpus
from precog.server import corpora
from precog.server.depends import ReaderFor, ServicesDep, WriterFor
from precog.server.job import REINDEX, JobRecord
from precog.server.job_folder import new_job_folder
from precog.server.routes.jobs import JobAnswer, answer_of
from precog.server.tenant import NAME
from precog.server.wording import in_requests_words
from precog.server.work import Job as Work

router = APIRouter(prefix="/v1/corpora", tags=["corpora"])
_NAME = f"^{NAME.pattern}$"
Name = Annotated[str, Path(description="Name of a corpus.", examples=["papers"], json_schema_extra={"pattern": _NAME})]
Quality = Literal["fast", "twice", "study"]
Codec = Literal["fp32", "fp16", "int8", "int8-rot", "int4", "int4-rot"]
Keys = Literal["text", "title", "questions"]
Layers = Annotated[str, Field(max_length=400, examples=["all", "bottom:6"])]
_MOST_BYTES = 1 << 53


class _Made(BaseModel):
    """How states are made and what they are found by; what is left out is as usual."""

    model_config = ConfigDict(extra="forbid")

    quality: Quality | None = None
    codec: Codec | None = None
    layers: Layers | None = None
    keys: Keys | None = None
    study_steps: int | None = Field(None, ge=0, le=1_000)
    study_seconds: float | None = Field(None, gt=0, le=86_400, allow_inf_nan=False)


class NewCorpus(_Made):
    """A corpus that is to be made; its settings hold for all that is ingested."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"name": "papers", "codec": "int8", "chunk_tokens": 256}]}
    )

    name: str = Field(pattern=_NAME)
    chunk_tokens: int | None = Field(None, ge=1, le=1 << 20)
    overlap: int | None = Field(None, ge=0, le=1 << 20)
    strategy: Literal["document", "paragraph", "sentence", "window", "turns"] | None = None
    budget_bytes: int | None = Field(None, ge=0, le=_MOST_BYTES)


class Reindexing(_Made):
    """What of a corpus is to be made anew; with nothing named, all states are."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"codec": "int8"}]})


class Corpus(BaseModel):
    """What a corpus holds and what made it."""

    name: str
    object: Literal["corpus"] = "corpus"
    shared: bool
    created: float | None = None
    documents: int = 0
    failed: int = 0
    chunks: int = 0
    tokens: int = 0
    states: int = 0
    bytes: int = 0
    state_bytes: int = 0
    budget_bytes: int | None = None
    quality: str = ""
    codec: str = ""
    layers: str = ""
    chunk_tokens: int = 0
    overlap: int = 0
    strategy: str = ""
    keys: str = ""
    model: str = ""
    fingerprint: str = ""
    generation: int = 0
    error: dict[str, str | None] | None = None


class Corpora(BaseModel):
    """Those that may be asked."""

    object: Literal["list"] = "list"
    data: list[Corpus]


class Deleted(BaseModel):
    """What is gone."""

    object: Literal["corpus"] = "corpus"
    name: str
    deleted: Literal[True] = True


class Verifying(BaseModel):
    """How much is compared."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"chunks": 3}]})

    chunks: int = Field(DEFAULT_CHUNKS, ge=1, le=100)


@router.get("", operation_id="list_corpora")
async def list_corpora(request: Request, services: ServicesDep, principal: ReaderFor) -> Corpora:
    """Your corpora, and those that are shared."""
    tenant = services.tenant(principal)
    found = await services.workers.run(request, lambda _: corpora.describe_all(tenant))
    return Corpora.model_validate({"data": found})


@router.post("", status_code=201, operation_id="create_corpus")
async def create_corpus(request: Request, body: NewCorpus, services: ServicesDep, principal: WriterFor) -> Corpus:
    """Make an empty corpus."""
    wanted = body.model_dump(exclude={"name", "budget_bytes"}, exclude_none=True)
    tenant = services.tenant(principal)

    def work(job: Work) -> dict[str, object]:
        choice = services.model(principal, job.cancelled)
        folder = corpora.create(tenant, body.name, choice, services.encoder, wanted, body.budget_bytes)
        return corpora.describe(folder, body.name, is_shared=False)

    return Corpus.model_validate(await services.workers.run(request, work))


@router.get("/{name}", operation_id="get_corpus")
async def get_corpus(request: Request, name: Name, services: ServicesDep, principal: ReaderFor) -> Corpus:
    """What a corpus holds and what made it."""
    tenant = services.tenant(principal)

    def work(job: Work) -> dict[str, object]:
        folder = tenant.corpus(name)
        return corpora.describe(folder, name, is_shared=folder != tenant.own_corpus(name))

    return Corpus.model_validate(await services.workers.run(request, work))


@router.delete("/{name}", operation_id="delete_corpus")
async def delete_corpus(request: Request, name: Name, services: ServicesDep, principal: WriterFor) -> Deleted:
    """Delete a corpus with all its documents, states and jobs, and answers that have read it."""
    await services.workers.run(request, lambda _: corpora.delete(services, principal.user, name))
    return Deleted(name=name)


@router.post("/{name}/reindex", status_code=202, operation_id="reindex_corpus")
async def reindex_corpus(
    request: Request, name: Name, services: ServicesDep, principal: WriterFor, body: Reindexing | None = None
) -> JobAnswer:
    """Read the stored text again, as another quality, codec, layers or keys; a job."""
    wanted = {} if body is None else body.model_dump(exclude_none=True)
    tenant = services.tenant(principal)

    def work(_: Work) -> JobAnswer:
        corpora.own_corpus(tenant, name)
        record = JobRecord.new(REINDEX, principal.user, name).asking(wanted=wanted)
        return answer_of(services.jobs.add(record, partial(new_job_folder, tenant.jobs)))

    return await services.workers.run(request, work)


@router.post("/{name}/verify", operation_id="verify_corpus")
async def verify(
    request: Request, name: Name, services: ServicesDep, principal: ReaderFor, body: Verifying | None = None
) -> dict[str, Any]:
    """Prove that continuing from a stored state equals reading the text, and check every stored record."""
    tenant = services.tenant(principal)
    count = DEFAULT_CHUNKS if body is None else body.chunks

    def work(job: Work) -> dict[str, object]:
        folder = tenant.corpus(name)
        with in_requests_words(folder, name):
            return verify_corpus(folder, model=services.model(principal, job.cancelled), num_chunks=count).to_json()

    return await services.workers.run(request, work)
