"""``/v1/corpora/{name}/search`` and ``/ask``: the answers of ``precog search --json`` and ``precog ask --json``."""

from typing import Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from precog.config import Retrieval
from precog.corpus.ask import AskOptions
from precog.engine.composed import DEFAULT_RULE, DEFAULT_TEMPERATURE
from precog.engine.sampling import Sampling
from precog.server.asking import asking, saved_tokens, searching
from precog.server.depends import ReaderFor, ServicesDep
from precog.server.openapi import events
from precog.server.routes.corpora import Layers, Name
from precog.server.streaming import named, streamed
from precog.server.work import Job as Work
from precog.text.question import MOST_CHARS

router = APIRouter(prefix="/v1/corpora/{name}", tags=["asking"])
Rule = Literal["mean", "concat", "permute", "mix", "replay"]
MOST_CHUNKS = 100
_QUESTION = "Who was named king of Bhutan in 1907?"
_SEED = (1 << 63) - 1


class Searching(BaseModel):
    """What is looked for."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"query": _QUESTION, "top_k": 3}]})

    query: str = Field(min_length=1, max_length=MOST_CHARS)
    top_k: int = Field(10, ge=1, le=MOST_CHUNKS)
    retrieval: Retrieval = "hybrid"


class Hit(BaseModel):
    """A chunk that was found; a score orders the chunks of one question and says nothing of another's."""

    document: str
    page: int | None
    span: tuple[int, int]
    score: float
    text: str
    dense: float
    lexical: float


class Hits(BaseModel):
    """Chunks, best first."""

    hits: list[Hit]
    timings_sec: dict[str, float]


class Context(BaseModel):
    """What is found for a question, and how it comes into the model."""

    mode: Literal["auto", "inject", "resume", "in-context", "none"] = "inject"
    top_k: int = Field(3, ge=1, le=MOST_CHUNKS)
    inject: int = Field(1, ge=1, le=MOST_CHUNKS)
    compose: Rule = DEFAULT_RULE  # type: ignore[assignment]  # one of them
    compose_temperature: float = Field(DEFAULT_TEMPERATURE, gt=0, le=1_000, allow_inf_nan=False)
    compose_renorm: Literal["none", "layer"] = "none"
    layers: Layers | None = None
    retrieval: Retrieval = "hybrid"


class Asking(Context):
    """A question, and how it is answered; the options of ``precog ask``."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"question": _QUESTION}]})

    question: str = Field(min_length=1, max_length=MOST_CHARS)
    free: bool = False
    min_confidence: float | None = Field(None, ge=0, le=1, allow_inf_nan=False)
    always_answer: bool = False
    temperature: float = Field(0.0, ge=0, le=100, allow_inf_nan=False)
    top_p: float = Field(1.0, gt=0, le=1, allow_inf_nan=False)
    sample_top_k: int = Field(0, ge=0, le=1_000_000)
    seed: int = Field(0, ge=0, le=_SEED)
    max_tokens: int | None = Field(None, ge=1, le=4_096)
    stream: bool = False

    def options(self) -> AskOptions:
        """The same for the engine.

        Raises:
            UsageError: they contradict each other.
        """
        return AskOptions(
            mode=self.mode,
            top_k=self.top_k,
            inject=self.inject,
            compose=self.compose,
            compose_temperature=self.compose_temperature,
            compose_renorm=self.compose_renorm,
            layers=self.layers,
            free=self.free,
            min_confidence=self.min_confidence,
            always_answer=self.always_answer,
            sampling=Sampling(self.temperature, self.top_p, self.sample_top_k, self.seed),
            max_tokens=self.max_tokens,
        )


class Citation(BaseModel):
    """Where an answer stands, character by character."""

    source: int
    document: str
    page: int | None
    span: tuple[int, int]


class AskAnswer(BaseModel):
    """An answer with its sources, as ``precog ask --json`` prints it."""

    question: str
    text: str
    sources: list[dict[str, Any]]
    citation: Citation | None
    model: str
    mode: str
    composition: dict[str, Any]
    confidence: float | None
    abstained: bool
    looked_at: list[Hit]
    tokens_processed: int
    mask: dict[str, float]
    plan: dict[str, Any] | None
    timings_sec: dict[str, float]


_ANSWERS = events(
    "The answer; with `stream`, events `delta` with pieces of the text, then `answer` with all of it, or `error`.",
    'event: delta\ndata: {"text": "Ugyen"}',
)


@router.post("/search", operation_id="search_corpus")
async def search(request: Request, name: Name, body: Searching, services: ServicesDep, principal: ReaderFor) -> Hits:
    """What would be found for a question, without a model."""

    def work(_: Work) -> dict[str, object]:
        with searching(services, principal, name) as searcher:
            result = searcher.search(body.query, body.top_k, retrieval=body.retrieval)
        times = {"encode": result.encode_sec, "search": result.search_sec}
        return {"hits": [found.to_json() for found in result.found], "timings_sec": times}

    return Hits.model_validate(await services.workers.run(request, work))


@router.post("/ask", operation_id="ask_corpus", response_model=AskAnswer, responses=_ANSWERS)
async def ask(request: Request, name: Name, body: Asking, services: ServicesDep, principal: ReaderFor) -> Response:
    """Answer a question from what the model remembers of the documents, with sources."""
    options = body.options()

    def work(job: Work) -> dict[str, object]:
        def say(text: str) -> None:
            if text:
                job.emit(("delta", {"text": text}))

        model = services.model(principal, job.cancelled)
        with asking(services, principal, name, model, body.retrieval) as asker:
            answer = asker.ask(body.question, options, on_text=say)
        if not answer.abstained:
            services.metrics.answered(answer.timings.ttft, saved_tokens(answer, options.inject))
        return {"question": body.question, **answer.to_json()}

    if body.stream:
        return await streamed(services.workers, request, work, named("answer"))
    return JSONResponse(await services.workers.run(request, work))
