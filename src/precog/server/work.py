"""Work of requests in threads: the model and the store block, the event loop must not.

Whoever asks may go at any time: the job is told, the model stops at its next token, nothing is left half done.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from fastapi import Request

from precog.errors import CancelledError
from precog.serving.places import Places

T = TypeVar("T")
_LOOK_SEC = 0.1


@dataclass(frozen=True)
class Job:
    """One piece of work, as the thread that does it sees it.

    Attributes:
        emit: hand something to whoever waits; may be called from the thread only.
        cancelled: set when nobody waits any more.
    """

    emit: Callable[[object], None]
    cancelled: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True)
class Done(Generic[T]):
    """The last thing that `stream` yields.

    Attributes:
        result: of the work.
    """

    result: T


class Workers:
    """Threads for the work of requests; one user alone never has all of them (`Places`).

    Args:
        count: at most so many at once; whoever comes then is told to come later.
    """

    def __init__(self, count: int) -> None:
        self._places = Places(count)
        self._pool = ThreadPoolExecutor(max_workers=count, thread_name_prefix="request")

    @property
    def num_busy(self) -> int:
        """Threads that work now."""
        return self._places.num_taken

    def close(self) -> None:
        """Waits for what has begun."""
        self._pool.shutdown(cancel_futures=True)

    async def run(self, request: Request, work: Callable[[Job], T]) -> T:
        """The result of work, what it emits unheard; it is cancelled as in `stream`.

        Raises:
            CancelledError: the client has gone.
            AccessError: its key was revoked, or has expired.
            LimitError: too much is worked on, in all or for this user.
        """
        async for event in self.stream(request, work):
            if isinstance(event, Done):
                return event.result  # type: ignore[no-any-return]  # what this work returned
        raise CancelledError("whoever asked has gone")

    async def stream(self, request: Request, work: Callable[[Job], T]) -> AsyncGenerator[object, None]:
        """Everything that work emits, then `Done`; what it raises is raised here.

        Closing the iterator, a client that disconnects, or a key that is none any more cancels the work.

        Raises:
            CancelledError: the client has gone.
            AccessError: its key was revoked, or has expired.
            LimitError: too much is worked on, in all or for this user.
        """
        user, check_key = request.state.principal.user, request.state.check_key
        check_key()  # its body may have taken long to come
        loop = asyncio.get_running_loop()
        events: asyncio.Queue[object] = asyncio.Queue()

        def emit(event: object) -> None:
            loop.call_soon_threadsafe(events.put_nowait, event)

        def placed(job: Job) -> T:
            try:
                return work(job)
            finally:
                self._places.leave(user)

        job = Job(emit)
        self._places.take(user)
        future = loop.run_in_executor(self._pool, placed, job)
        future.add_done_callback(events.put_nowait)
        try:
            while True:
                try:
                    event = await asyncio.wait_for(events.get(), _LOOK_SEC)
                except TimeoutError:
                    if await request.is_disconnected():
                        raise CancelledError("whoever asked has gone") from None
                    check_key()
                    continue
                if event is future:
                    yield Done(future.result())
                    return
                check_key()
                yield event
        finally:
            job.cancelled.set()
            if not future.done():
                future.add_done_callback(_forget)


def _forget(future: "asyncio.Future[T]") -> None:
    """What cancelled work raises is nobody's business any more."""
    if not future.cancelled():
        future.exception()
