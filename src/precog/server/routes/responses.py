"""``/v1/responses``: answers that are kept, each the beginning of the next one."""

import time
from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import ConfigDict, Field

from precog.errors import InputError, UsageError
from precog.server.answering import Answering, How
from precog.server.conversation import ROLES, Conversation, Message, Turn
from precog.server.depends import Reader, ReaderFor, ServicesDep
from precog.server.extension import Extended
from precog.server.openapi import events
from precog.server.principal import Principal
from precog.server.responding import Ask, respond
from precog.server.response_body import (
    AllDeleted,
    Deleted,
    Events,
    Items,
    JsonObject,
    ResponseBody,
    finished,
    item_of,
    new_item_id,
)
from precog.server.services import Services
from precog.server.streaming import streamed
from precog.server.wire import Metadata, Name, Sampled, Text, Unsupported, check_model
from precog.server.work import Job
from precog.store.response import new_id
from precog.store.responses import ResponseFolder

router = APIRouter(prefix="/v1/responses", tags=["responses"])


class Item(Message):
    """One item of the input: a message."""

    type: Text = Field(default="message", json_schema_extra={"const": "message"})
    role: Text = Field(default="user", json_schema_extra={"enum": list(ROLES)})

    @property
    def turn(self) -> Turn:
        """What is said in it."""
        if self.type != "message":
            raise UsageError("an item is no message", given=self.type[:40], expected="messages of text alone")
        return super().turn


class ResponseRequest(Sampled, Unsupported, Extended):
    """What is to be answered, and from which response on."""

    model_config = ConfigDict(
        extra="ignore",
        json_schema_extra={
            "examples": [
                {"model": "tenns-base", "input": "Who found radium?"},
                {"model": "tenns-base", "input": "Who found radium?", "precog": {"corpus": "handbook"}},
            ]
        },
    )

    model: Name
    input: Text | Annotated[list[Item], Field(min_length=1, max_length=4096)]
    instructions: Text | None = Field(default=None, description="Read before the input, for this answer alone.")
    previous_response_id: Name | None = Field(default=None, description="Whose state this conversation goes on from.")
    store: bool | None = Field(default=None, description="Whether the response is kept; true when left out.")
    stream: bool | None = None
    max_output_tokens: Annotated[int, Field(ge=1)] | None = None
    metadata: Metadata | None = None
    text: Any = Field(default=None, description="Text or nothing.")
    include: Any = None
    background: Any = Field(default=None, description="false or nothing.")
    conversation: Any = Field(default=None, description="Not offered: previous_response_id goes on.")
    prompt: Any = Field(default=None, description="Not offered.")

    def check(self) -> tuple[Turn, ...]:
        """The turns of the input, once nothing is asked for that cannot be had.

        Raises:
            UsageError: something is.
            InputError: there is no question.
        """
        self.refuse({"background": (False,), "conversation": (), "prompt": ()})
        wanted = self.text.get("format") if isinstance(self.text, dict) else self.text
        if wanted is not None and not (isinstance(wanted, dict) and wanted.get("type") == "text"):
            raise UsageError("text.format is not offered: this model answers with plain text", expected="text")
        if isinstance(self.include, list) and "message.output_text.logprobs" in self.include:
            raise UsageError("include: log-probabilities are not offered", given="message.output_text.logprobs")
        turns = (Turn("user", self.input),) if isinstance(self.input, str) else tuple(one.turn for one in self.input)
        Conversation.of(turns)
        return turns


def _folder(services: Services, principal: Principal) -> ResponseFolder:
    return ResponseFolder(services.tenant(principal).responses)


@router.post(
    "",
    response_model=ResponseBody,
    operation_id="create_response",
    responses=events(
        "The response; with `stream`, events from `response.created` to `response.completed` or `response.incomplete`.",
        'event: response.output_text.delta\ndata: {"type": "response.output_text.delta", "delta": "Marie"}',
    ),
)
async def create_response(
    body: ResponseRequest, request: Request, services: ServicesDep, principal: Reader
) -> ResponseBody | StreamingResponse:
    """Answer, and keep the state after the answer to go on from; with `stream`, as server-sent events."""
    check_model(services, body.model)
    turns = body.check()
    asker = principal.acting_for(None if body.precog is None else body.precog.user)
    ask = Ask(
        new_id(),
        turns,
        body.instructions or "",
        body.previous_response_id,
        body.store,
        How(body.max_output_tokens, body.sampling),
        body.precog,
    )
    begun = ResponseBody(
        id=ask.id,
        created_at=time.time(),
        status="in_progress",
        instructions=body.instructions,
        max_output_tokens=body.max_output_tokens,
        model=body.model,
        output=[],
        previous_response_id=body.previous_response_id,
        store=body.store is not False,
        temperature=body.temperature,
        top_p=body.top_p,
        metadata=body.metadata or {},
    )
    item_id = new_item_id()

    def answer(job: Job) -> ResponseBody:
        folder = _folder(services, asker)
        begun_at = folder.num_forgets
        answering = Answering.of(services, asker, job)
        responded = respond(answering, folder, ask, services.settings.keep_responses_sec, job.emit)
        made = finished(begun, responded.said, item_id)
        if responded.stored is None:
            return made.model_copy(update={"store": False})
        items = [item_of(turn) for turn in turns]
        kept = replace(responded.stored, response=made.model_dump(mode="json"), items=items)
        folder.add(kept, begun_at=begun_at)
        return made

    if body.stream:
        return await streamed(services.workers, request, answer, Events(begun, item_id).frames)
    return await services.workers.run(request, answer)


@router.delete("", operation_id="delete_all_responses")
async def delete_all_responses(request: Request, services: ServicesDep, principal: ReaderFor) -> AllDeleted:
    """Delete every response of mine, with its state."""
    folder = _folder(services, principal)
    return AllDeleted(count=await services.workers.run(request, lambda job: folder.forget_all()))


@router.get("/{response_id}", operation_id="get_response")
async def get_response(
    response_id: str,
    request: Request,
    services: ServicesDep,
    principal: ReaderFor,
    stream: bool = False,
) -> ResponseBody:
    """A response as it was answered."""
    if stream:
        raise UsageError("a stored response is not streamed", given="stream", expected="nothing")
    folder = _folder(services, principal)
    found = await services.workers.run(request, lambda job: folder.get(response_id))
    return ResponseBody.model_validate(found.response)


@router.delete("/{response_id}", operation_id="delete_response")
async def delete_response(
    response_id: str,
    request: Request,
    services: ServicesDep,
    principal: ReaderFor,
    following: Annotated[bool, Query(description="Whether those that went on from it go, too.")] = False,
) -> Deleted:
    """Delete a response with its state; those that went on from it have read it, too, and stay unless asked for."""
    folder = _folder(services, principal)

    def delete(job: Job) -> int:
        if following:
            return folder.forget_following(response_id)
        folder.delete(response_id)
        return 1

    return Deleted(id=response_id, count=await services.workers.run(request, delete))


@router.get("/{response_id}/input_items", operation_id="list_input_items")
async def list_input_items(
    response_id: str,
    request: Request,
    services: ServicesDep,
    principal: ReaderFor,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    order: Literal["asc", "desc"] = "desc",
    after: Annotated[Name | None, Query(description="Id of the item that the page comes after.")] = None,
) -> Items:
    """What a response was asked with, page by page."""
    folder = _folder(services, principal)
    found = await services.workers.run(request, lambda job: folder.get(response_id))
    items: list[JsonObject] = found.items if order == "asc" else found.items[::-1]
    if after is not None:
        at = next((number for number, item in enumerate(items) if item["id"] == after), None)
        if at is None:
            raise InputError("there is no such item", given=after[:80], expected="an id of this response's input")
        items = items[at + 1 :]
    page = items[:limit]
    first, last = (str(page[0]["id"]), str(page[-1]["id"])) if page else (None, None)
    return Items(data=page, first_id=first, last_id=last, has_more=len(items) > limit)
