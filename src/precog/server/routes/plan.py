"""``/v1/plan``: what bringing a context in would take on this machine, by every way that is open."""

from typing import Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, model_validator

from precog.corpus.ask import AskOptions
from precog.server.depends import ReaderFor, ServicesDep
from precog.server.planning import plan_of_corpus, plan_of_question, plan_of_tokens
from precog.server.routes.asking import Context
from precog.server.work import Job as Work
from precog.text.question import MOST_CHARS

router = APIRouter(prefix="/v1/plan", tags=["asking"])


class Planning(Context):
    """A corpus, and perhaps a question to it; or so many tokens of any text."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"corpus": "papers", "question": "Who was named king of Bhutan in 1907?"}, {"tokens": 512}]
        },
    )

    corpus: str | None = Field(None, min_length=1, max_length=63)
    question: str | None = Field(None, min_length=1, max_length=MOST_CHARS)
    tokens: int | None = Field(None, ge=1, le=1 << 20)
    mode: Literal["auto"] = "auto"

    def how(self) -> AskOptions:
        """The same for the engine.

        Raises:
            UsageError: more is injected than is found.
        """
        return AskOptions(
            mode="auto",
            top_k=self.top_k,
            inject=self.inject,
            compose=self.compose,
            compose_temperature=self.compose_temperature,
            layers=self.layers,
        )

    @model_validator(mode="after")
    def _is_one(self) -> "Planning":
        if (self.corpus is None) == (self.tokens is None):
            raise ValueError("either corpus or tokens")
        if self.question is not None and self.corpus is None:
            raise ValueError("a question needs a corpus")
        return self


class Need(BaseModel):
    """One text of the context: tokens to read it, bytes of its state, bytes read from the disk for it."""

    num_tokens: int
    state_bytes: int
    record_bytes: int


class PlanAnswer(BaseModel):
    """The quickest way, why, and what each takes in seconds until the question can be read."""

    chosen: str
    why: str
    estimates_sec: dict[str, float]
    texts: list[Need]
    model_speed: dict[str, float]
    disk_speed: dict[str, float]


@router.post("", operation_id="plan")
async def plan(request: Request, body: Planning, services: ServicesDep, principal: ReaderFor) -> PlanAnswer:
    """Inject stored states, resume from one, or read: what is quickest here, as measured on this machine."""

    def work(job: Work) -> dict[str, Any]:
        if body.tokens is not None:
            return plan_of_tokens(services, principal, job, body.tokens)
        assert body.corpus is not None
        if body.question is None:
            return plan_of_corpus(services, principal, job, body.corpus)
        options = body.how()
        return plan_of_question(services, principal, job, body.corpus, body.question, options, body.retrieval)

    return PlanAnswer.model_validate(await services.workers.run(request, work))
