"""``/v1/chat/completions``: a conversation answered, whole or as it comes."""

import secrets
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from precog.server.answering import Answering, How, Said
from precog.server.conversation import Conversation, Message
from precog.server.depends import Reader, ServicesDep
from precog.server.extension import Extended
from precog.server.openapi import events
from precog.server.streaming import DONE, frame, streamed
from precog.server.wire import (
    Name,
    Sampled,
    Stops,
    StreamOptions,
    TokensDetails,
    Unsupported,
    Usage,
    check_model,
    stops_of,
)
from precog.server.work import Done, Job

router = APIRouter(prefix="/v1/chat", tags=["chat"])
_QUESTION = {"role": "user", "content": "Who found radium?"}
_EXAMPLES: list[Any] = [
    {"model": "tenns-base", "messages": [_QUESTION]},
    {"model": "tenns-base", "messages": [_QUESTION], "precog": {"corpus": "handbook"}},
]


class ChatRequest(Sampled, Unsupported, Extended):
    """A conversation; the last message of the user is the question."""

    model_config = ConfigDict(
        extra="ignore",
        json_schema_extra={"examples": _EXAMPLES},
    )

    model: Name
    messages: Annotated[list[Message], Field(min_length=1, max_length=4096)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    stop: Stops | None = None

    @property
    def how(self) -> How:
        """How the answer is to be."""
        return How(self.max_completion_tokens or self.max_tokens, self.sampling, stops_of(self.stop))


class ChatMessage(BaseModel):
    """What the model says."""

    role: Literal["assistant"] = "assistant"
    content: str
    refusal: None = None


class ChatChoice(BaseModel):
    """The answer."""

    index: int = 0
    message: ChatMessage
    finish_reason: Literal["stop", "length"]
    logprobs: None = None


class ChatCompletion(BaseModel):
    """A conversation answered."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage
    precog: dict[str, Any] = Field(description="What the answer was made from, and how: see `precog ask --json`.")


def usage_of(said: Said) -> Usage:
    """What an answer cost."""
    return Usage(
        prompt_tokens=said.prompt_tokens,
        completion_tokens=said.completion_tokens,
        total_tokens=said.prompt_tokens + said.completion_tokens,
        prompt_tokens_details=TokensDetails(cached_tokens=said.cached_tokens),
    )


@router.post(
    "/completions",
    response_model=ChatCompletion,
    operation_id="create_chat_completion",
    responses=events(
        "The answer; with `stream`, chunks of it as events without a name, then `[DONE]`.",
        'data: {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "Marie"}}]}',
    ),
)
async def create_chat_completion(
    body: ChatRequest, request: Request, services: ServicesDep, principal: Reader
) -> ChatCompletion | StreamingResponse:
    """Answer the last question of a conversation; with `stream`, as server-sent events."""
    check_model(services, body.model)
    body.refuse()
    asker = principal.acting_for(None if body.precog is None else body.precog.user)
    conversation = Conversation.of([message.turn for message in body.messages])
    head = {"id": f"chatcmpl-{secrets.token_hex(16)}", "created": int(time.time()), "model": body.model}

    def answer(job: Job) -> Said:
        return Answering.of(services, asker, job).answer(conversation, body.how, body.precog, say=job.emit)

    if body.stream:
        with_usage = body.stream_options is not None and bool(body.stream_options.include_usage)
        chunks = _Chunks(head, with_usage)
        return await streamed(services.workers, request, answer, chunks.frames)
    said = await services.workers.run(request, answer)
    choice = ChatChoice(message=ChatMessage(content=said.text), finish_reason=said.finish)  # type: ignore[arg-type]  # one of both
    return ChatCompletion(**head, choices=[choice], usage=usage_of(said), precog=said.details)  # type: ignore[arg-type]  # checked when made


class _Chunks:
    """The events of a stream: role, pieces, end, and what it cost where that was asked for."""

    def __init__(self, head: dict[str, Any], with_usage: bool) -> None:
        self._head = {**head, "object": "chat.completion.chunk"}
        self._usage: dict[str, Any] = {"usage": None} if with_usage else {}

    async def frames(self, events: AsyncIterator[object]) -> AsyncIterator[str]:
        """As text."""
        yield self._chunk({"role": "assistant", "content": ""})
        async for event in events:
            if not isinstance(event, Done):
                yield self._chunk({"content": event})
                continue
            said: Said = event.result
            yield self._chunk({}, said.finish, precog=said.details)
            if self._usage:
                usage = usage_of(said).model_dump()
                yield frame({**self._head, "choices": [], "usage": usage})
        yield DONE

    def _chunk(self, delta: dict[str, object], finish: str | None = None, **more: object) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        return frame({**self._head, "choices": [choice], **self._usage, **more})
