"""Server-sent events: what work emits, as it comes.

While the server stops, a stream of work goes on to its end, as long as the time of grace lasts; one that follows
something longer looks at `Services.stopping`.
"""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import TypeVar

from fastapi import Request
from fastapi.responses import StreamingResponse

from precog.errors import CancelledError, PrecogError
from precog.server.failure import body_of, bug_of, status_of
from precog.server.work import Done, Job, Workers

T = TypeVar("T")
Frames = Callable[[AsyncIterator[object]], AsyncIterator[str]]
DONE = "data: [DONE]\n\n"
STILL_THERE = ": still there\n\n"
"""A comment that keeps those between server and client from taking a silent stream for a dead one."""


class EventStream(StreamingResponse):
    """Events as an answer."""

    media_type = "text/event-stream"

    def __init__(self, texts: AsyncIterator[str], status_code: int = 200) -> None:
        super().__init__(texts, status_code, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})


def frame(data: object, event: str | None = None) -> str:
    """One event."""
    name = "" if event is None else f"event: {event}\n"
    return f"{name}data: {json.dumps(data, separators=(',', ':'))}\n\n"


def named(last: str) -> Frames:
    """For work that emits names and objects: each is an event, and the result is the last one.

    Args:
        last: name of the event of the result.
    """

    async def frames(events: AsyncIterator[object]) -> AsyncIterator[str]:
        async for event in events:
            if isinstance(event, Done):
                yield frame(event.result, last)
            else:
                assert isinstance(event, tuple)
                name, data = event
                yield frame(data, name)

    return frames


async def streamed(workers: Workers, request: Request, work: Callable[[Job], T], frames: Frames) -> EventStream:
    """Work whose events are told as they come.

    What fails before the first event is an answer with the status of its error; what fails later is told in the stream.

    Args:
        workers: that do it.
        request: whose client is watched.
        work: emits events; its result comes last, as `Done`.
        frames: makes text of them.
    """
    events = workers.stream(request, work)
    first = await anext(events)

    async def all_events() -> AsyncIterator[object]:
        yield first
        async for event in events:
            yield event

    async def told() -> AsyncIterator[str]:
        async with aclosing(events):
            try:
                async for text in frames(all_events()):
                    yield text
            except CancelledError:
                return
            except PrecogError as error:
                yield frame(body_of(error, status_of(error)), "error")
            except Exception as error:
                yield frame(body_of(bug_of(error), 500), "error")

    return EventStream(told())
