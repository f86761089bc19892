"""A response of `/v1/responses` as JSON, whole and as events."""

import secrets
from collections.abc import AsyncIterator
from typing import Any, Literal

from pydantic import BaseModel, Field

from precog.server.answering import Said
from precog.server.conversation import Turn
from precog.server.streaming import frame
from precog.server.work import Done

JsonObject = dict[str, Any]


class ResponseBody(BaseModel):
    """A response."""

    id: str
    object: Literal["response"] = "response"
    created_at: float
    status: Literal["completed", "incomplete", "in_progress"]
    error: None = None
    incomplete_details: JsonObject | None = None
    instructions: str | None = None
    max_output_tokens: int | None = None
    model: str
    output: list[JsonObject]
    parallel_tool_calls: bool = True
    previous_response_id: str | None = None
    store: bool = True
    temperature: float | None = None
    top_p: float | None = None
    text: JsonObject = {"format": {"type": "text"}}
    tool_choice: str = "auto"
    tools: list[JsonObject] = []
    truncation: str = "disabled"
    metadata: dict[str, str] = {}
    usage: JsonObject | None = None
    user: str | None = None
    precog: JsonObject | None = Field(
        default=None, description="What the answer was made from: see `precog ask --json`."
    )


class Deleted(BaseModel):
    """What is gone."""

    id: str
    object: Literal["response"] = "response"
    deleted: Literal[True] = True
    count: int = Field(
        default=1, description="Responses that are gone: this one, and those that went on from it if asked for."
    )


class AllDeleted(BaseModel):
    """How much is gone."""

    object: Literal["list"] = "list"
    deleted: Literal[True] = True
    count: int


class Items(BaseModel):
    """What a response was asked with."""

    object: Literal["list"] = "list"
    data: list[JsonObject]
    first_id: str | None
    last_id: str | None
    has_more: bool


def new_item_id() -> str:
    """An id of a message."""
    return f"msg_{secrets.token_hex(24)}"


def item_of(turn: Turn) -> JsonObject:
    """A turn of the input as it is listed."""
    kind = "output_text" if turn.role == "assistant" else "input_text"
    part: JsonObject = {"type": kind, "text": turn.text, **({"annotations": []} if kind == "output_text" else {})}
    return {"id": new_item_id(), "type": "message", "role": turn.role, "status": "completed", "content": [part]}


def finished(begun: ResponseBody, said: Said, item_id: str) -> ResponseBody:
    """A response with its answer."""
    was_cut = said.finish == "length"
    status: Literal["completed", "incomplete"] = "incomplete" if was_cut else "completed"
    usage = {
        "input_tokens": said.prompt_tokens,
        "input_tokens_details": {"cached_tokens": said.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": said.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": said.prompt_tokens + said.completion_tokens,
    }
    return begun.model_copy(
        update={
            "status": status,
            "incomplete_details": {"reason": "max_output_tokens"} if was_cut else None,
            "output": [_message(item_id, status, [_part(said.text)])],
            "usage": usage,
            "precog": said.details,
        }
    )


def _message(item_id: str, status: str, content: list[JsonObject]) -> JsonObject:
    return {"id": item_id, "type": "message", "role": "assistant", "status": status, "content": content}


def _part(text: str) -> JsonObject:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


class Events:
    """The events of a response that is made, each numbered.

    Args:
        begun: the response before it has an answer.
        item_id: of the message that the answer is.
    """

    def __init__(self, begun: ResponseBody, item_id: str) -> None:
        self._begun, self._item_id = begun, item_id
        self._number = -1

    async def frames(self, events: AsyncIterator[object]) -> AsyncIterator[str]:
        """As text; the work emits pieces of the answer, and its result is the finished response."""
        begun = self._begun.model_dump(mode="json")
        yield self._event("response.created", response=begun)
        yield self._event("response.in_progress", response=begun)
        item = _message(self._item_id, "in_progress", [])
        yield self._event("response.output_item.added", output_index=0, item=item)
        here = {"item_id": self._item_id, "output_index": 0, "content_index": 0}
        yield self._event("response.content_part.added", **here, part=_part(""))
        async for event in events:
            if not isinstance(event, Done):
                yield self._event("response.output_text.delta", **here, delta=event, logprobs=[])
                continue
            body: ResponseBody = event.result
            item = body.output[0]
            part = item["content"][0]
            yield self._event("response.output_text.done", **here, text=part["text"], logprobs=[])
            yield self._event("response.content_part.done", **here, part=part)
            yield self._event("response.output_item.done", output_index=0, item=item)
            yield self._event(f"response.{body.status}", response=body.model_dump(mode="json"))

    def _event(self, kind: str, **data: object) -> str:
        self._number += 1
        return frame({"type": kind, "sequence_number": self._number, **data}, kind)
