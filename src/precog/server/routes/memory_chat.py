"""``POST /v1/memories/me/chat``: something is said to a memory, answered from it, and remembered."""

from typing import Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse
from pydantic import ConfigDict, Field

from precog.engine.composed import DEFAULT_RULE, DEFAULT_TEMPERATURE, RULES, Composing
from precog.errors import UsageError
from precog.server.depends import ServicesDep
from precog.server.memory_models import Asked, ReadMemory, Words
from precog.server.openapi import events
from precog.server.streaming import named, streamed
from precog.server.talking import talk
from precog.server.user_memory import UserMemory
from precog.server.work import Job
from precog.session import SessionOptions

router = APIRouter(prefix="/v1/memories/me", tags=["memories"])


class ChatOptions(Asked):
    """How an utterance is answered."""

    top_k: int = Field(3, ge=1, le=100, description="Deposits and chunks that are retrieved and shown.")
    inject: int = Field(1, ge=1, le=100, description="Of the best of them whose states are the context.")
    compose: Literal[*RULES] = Field(DEFAULT_RULE, description="How several states become one context.")  # type: ignore[valid-type]  # the rules that there are
    compose_temperature: float = Field(DEFAULT_TEMPERATURE, ge=1e-3, le=1e3)
    baseline: float = Field(0.0, ge=0, le=1, description="Share of the semantic state in the answer.")
    free: bool = Field(False, description="Let the model say what it likes.")
    min_confidence: float | None = Field(None, ge=0, le=1, description="Below it there is no answer.")
    always_answer: bool = False
    remember: Literal["statements", "all", "nothing"] = Field(
        "statements", description="Which utterances are deposited; unless nothing is, the key needs the scope write."
    )
    speaker: Words | None = Field(None, max_length=256, description="Who speaks; the user by default.")


class Utterance(Asked):
    """What is said."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"utterance": "Where did I move to?", "options": {"top_k": 3}}]}
    )
    utterance: Words = Field(min_length=1)
    corpus: Words | None = Field(None, description="A corpus that is searched along with the memory.")
    options: ChatOptions = Field(default_factory=lambda: ChatOptions.model_validate({}))
    stream: bool = Field(
        False, description="Answer with server-sent events: ``delta``, then ``done`` or ``error``; for free answers."
    )


@router.post(
    "/chat",
    operation_id="chat_with_memory",
    response_model=dict[str, Any],
    responses=events(
        "The answer, as `precog chat --json` prints it; with `stream`, events `delta`, then `done` or `error`.",
        'event: delta\ndata: {"text": "To"}',
    ),
)
async def chat(
    asked: Utterance, request: Request, services: ServicesDep, memory: ReadMemory
) -> dict[str, object] | StreamingResponse:
    """Answers an utterance from what was said before, and from a corpus; then remembers it."""
    if asked.options.remember != "nothing":
        memory.principal.check("write")
    if asked.stream and not asked.options.free:
        raise UsageError("only free answers are streamed", given="stream", expected="options.free")
    if asked.stream:
        return await streamed(services.workers, request, lambda job: _said(memory, asked, job), named("done"))
    return await services.workers.run(request, lambda job: _said(memory, asked, job))


def _said(memory: UserMemory, asked: Utterance, job: Job) -> dict[str, object]:
    services, principal = memory.services, memory.principal
    model = services.model(principal, job.cancelled)
    talked = talk(
        services,
        principal,
        model,
        asked.utterance,
        _options(asked.options, principal.user),
        cancelled=job.cancelled,
        corpus=asked.corpus,
        say=lambda text: job.emit(("delta", {"text": text})),
    )
    return {"utterance": asked.utterance, **talked.to_json()}


def _options(asked: ChatOptions, user: str) -> SessionOptions:
    return SessionOptions(
        top_k=asked.top_k,
        inject=asked.inject,
        composing=Composing(asked.compose, asked.compose_temperature, baseline_share=asked.baseline),
        free=asked.free,
        min_confidence=asked.min_confidence,
        always_answer=asked.always_answer,
        remember=asked.remember,
        speaker=asked.speaker or user,
    )
