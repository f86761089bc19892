"""``/v1/completions``: texts that the model goes on with, as it is, without question or corpus."""

import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from precog.backbones.protocol import Backbone
from precog.engine import FreeSettings, Spoken, speak
from precog.errors import InputError
from precog.server.answering import MOST_TOKENS
from precog.server.depends import Reader, ServicesDep
from precog.server.openapi import events
from precog.server.streaming import DONE, frame, streamed
from precog.server.wire import (
    Name,
    Sampled,
    Stops,
    StreamOptions,
    Text,
    Unsupported,
    Usage,
    check_model,
    stops_of,
    texts_of,
)
from precog.server.work import Done, Job

router = APIRouter(prefix="/v1/completions", tags=["completions"])
_HABIT_TOKENS = 16
_MOST_PROMPTS = 128


class CompletionRequest(Sampled, Unsupported):
    """One text, or several."""

    model_config = ConfigDict(
        extra="ignore",
        json_schema_extra={"examples": [{"model": "tenns-base", "prompt": "Radium was found by", "max_tokens": 16}]},
    )

    model: Name
    prompt: Text | list[Text] | list[int] | list[list[int]] = Field(description="Text; token ids are not taken.")
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: Annotated[int, Field(ge=0)] | None = Field(default=None, description=f"{_HABIT_TOKENS} when left out.")
    echo: bool | None = Field(default=None, description="Whether the prompt comes first.")
    stop: Stops | None = None
    best_of: Any = Field(default=None, description="1 or nothing.")
    suffix: Any = Field(default=None, description="Not offered.")
    precog: Any = Field(
        default=None, description="Not offered here: /v1/chat/completions answers from corpora and memories."
    )

    @property
    def prompts(self) -> list[str]:
        """The texts.

        Raises:
            UsageError: token ids, or something that is not offered.
            InputError: there are none, or too many.
        """
        self.refuse({"best_of": (1,), "suffix": ("",), "precog": ({},)})
        return texts_of(self.prompt, "prompts", _MOST_PROMPTS)


class CompletionChoice(BaseModel):
    """A text gone on with."""

    index: int
    text: str
    finish_reason: Literal["stop", "length"]
    logprobs: None = None


class Completion(BaseModel):
    """Texts gone on with, in the order they came in."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage


@dataclass(frozen=True)
class _Piece:
    """What is said after one of the prompts."""

    index: int
    text: str


@dataclass(frozen=True)
class _End:
    """That one of them is at its end."""

    index: int
    finish: str


@router.post(
    "",
    response_model=Completion,
    operation_id="create_completion",
    responses=events(
        "The texts; with `stream`, pieces of them as events without a name, then `[DONE]`.",
        'data: {"object": "text_completion", "choices": [{"index": 0, "text": " Marie", "finish_reason": null}]}',
    ),
)
async def create_completion(
    body: CompletionRequest, request: Request, services: ServicesDep, principal: Reader
) -> Completion | StreamingResponse:
    """Go on with texts, as the bare model does; with `stream`, as server-sent events."""
    check_model(services, body.model)
    prompts = body.prompts
    head = {"id": f"cmpl-{secrets.token_hex(16)}", "created": int(time.time()), "model": body.model}

    def go_on(job: Job) -> tuple[list[CompletionChoice], Usage]:
        backbone = services.model(principal, job.cancelled).load("once")
        choices, num_read, num_said = [], 0, 0
        for index, prompt in enumerate(prompts):
            before = prompt if body.echo else ""
            if before:
                job.emit(_Piece(index, before))
            ids = [*backbone.opening, *(backbone.tokenizer.encode(prompt) if prompt else [])]
            spoken = _gone_on(backbone, ids, body, index, job)
            finish: Literal["stop", "length"] = "length" if spoken.was_cut else "stop"
            job.emit(_End(index, finish))
            choices.append(CompletionChoice(index=index, text=before + spoken.text, finish_reason=finish))
            num_read, num_said = num_read + len(ids), num_said + spoken.num_tokens
        usage = Usage(prompt_tokens=num_read, completion_tokens=num_said, total_tokens=num_read + num_said)
        return choices, usage

    if body.stream:
        with_usage = body.stream_options is not None and bool(body.stream_options.include_usage)
        return await streamed(services.workers, request, go_on, _Chunks(head, with_usage).frames)
    choices, usage = await services.workers.run(request, go_on)
    return Completion(**head, choices=choices, usage=usage)  # type: ignore[arg-type]  # checked when made


def _gone_on(backbone: Backbone, ids: list[int], body: CompletionRequest, index: int, job: Job) -> Spoken:
    max_tokens = min(_HABIT_TOKENS if body.max_tokens is None else body.max_tokens, MOST_TOKENS)
    if max_tokens == 0:
        return Spoken("", 0, True)
    if not ids:
        raise InputError("there is nothing to go on with", expected="a prompt")
    settings = FreeSettings(max_tokens, body.sampling, whole_sentences=False)
    stops = stops_of(body.stop)
    return speak(backbone, None, ids, settings, lambda text: job.emit(_Piece(index, text)), stops=stops, goes_on=True)


class _Chunks:
    """The events of a stream."""

    def __init__(self, head: dict[str, Any], with_usage: bool) -> None:
        self._head = {**head, "object": "text_completion"}
        self._usage: dict[str, Any] = {"usage": None} if with_usage else {}

    async def frames(self, events: AsyncIterator[object]) -> AsyncIterator[str]:
        """As text."""
        async for event in events:
            if isinstance(event, _Piece):
                yield self._chunk(event.index, event.text)
            elif isinstance(event, _End):
                yield self._chunk(event.index, "", event.finish)
            elif isinstance(event, Done) and self._usage:
                _, usage = event.result
                yield frame({**self._head, "choices": [], "usage": usage.model_dump()})
        yield DONE

    def _chunk(self, index: int, text: str, finish: str | None = None) -> str:
        choice = {"index": index, "text": text, "finish_reason": finish, "logprobs": None}
        return frame({**self._head, "choices": [choice], **self._usage})
