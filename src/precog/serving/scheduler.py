"""One thread has the model; everybody else asks it.

The thread goes round: tokens for the branches of grounded answers, one pass of reading (questions, chunks), one token
for all free answers. What is long is read in pieces, so that nobody's answer stands still for longer than a piece
takes, those of whoever asks among them; chunks have half of the time while answers are worked on.
"""

import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

from precog.backbones.protocol import Backbone
from precog.errors import CancelledError, LimitError
from precog.serving.counts import SchedulerCounts
from precog.serving.passes import (
    each_alone,
    encodes_together,
    reads_together,
    run_call,
    run_encodes,
    run_reads,
    run_steps,
    steps_together,
)
from precog.serving.places import Places
from precog.serving.request import Call, Encode, Read, Request, Step, Stream
from precog.serving.running import Running
from precog.serving.shared_backbone import SharedBackbone, shared_as
from precog.serving.turns import Turns
from precog.state import StateBatch

_PASS_TOKENS = {"cpu": 256}  # of one pass of reading, which whoever comes meanwhile waits for: some tenths of a second
_LONG_PASS_TOKENS = 4096  # elsewhere
_GAP_SEC = 0.05  # between two steps of one search
_LONGEST_RETRY_SEC = 60.0
_RESTART_SEC = 5.0
_CLOSING = "the server is shutting down"


class Scheduler:
    """One model, used by many threads.

    Args:
        backbone: the model.
        max_streams: free answers that are worked on at once; further ones take turns by user.
        max_waiting: requests that may wait beyond as many as ``max_streams``; whoever comes then is told to come later,
            and somewhat sooner whoever has nearly all of them (`Places`).
    """

    def __init__(self, backbone: Backbone, *, max_streams: int = 64, max_waiting: int = 128) -> None:
        self.backbone = backbone
        self._max_streams = max_streams
        self._places = Places(max_streams + max_waiting)
        self._pass_tokens = _PASS_TOKENS.get(backbone.device.type, _LONG_PASS_TOKENS)
        self._changed = threading.Condition()
        self._arrived: list[Request[Any]] = []  # this and what follows: under the condition
        self._done = SchedulerCounts()
        self._mean_sec = 1.0  # that an answer takes
        self._is_stopping = self._drops = self._has_ended = False
        self._steps: Turns[Step] = Turns()  # the rest: the thread's own
        self._reading: Turns[Request[Any]] = Turns(lambda request: isinstance(request, Read))  # or chunks
        self._waiting: Turns[Stream] = Turns()
        self._running = Running(backbone)
        self._begun: dict[Stream, float] = {}
        self._debt_sec = 0.0  # that chunks owe to answers
        self._last_step = -_GAP_SEC
        self._thread = threading.Thread(target=self._work, name="model", daemon=True)
        self._thread.start()

    def __enter__(self) -> "Scheduler":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def counts(self) -> SchedulerCounts:
        """How things stand now, and what has been done so far."""
        with self._changed:
            waiting = len(self._waiting)
            return replace(self._done, active=max(0, self._places.num_taken - waiting), waiting=waiting)

    def share(self, user: str, cancelled: threading.Event) -> SharedBackbone:
        """The model as one asker's own, to be used by one thread.

        Args:
            user: whose turn it is; users take turns, whatever each of them asks for.
            cancelled: set when the asker has gone.

        Raises:
            LimitError: too many wait already, too many of this user's do, or the scheduler is closed.
        """
        with self._changed:
            self._check_room(user)
        return shared_as(self.backbone)(self.backbone, self._submit, user, cancelled)

    def close(self, *, drain: bool = True) -> None:
        """Ends: nothing new is begun. With ``drain`` what has been asked for is finished, else it is cancelled."""
        with self._changed:
            self._is_stopping = True
            self._drops = self._drops or not drain
            self._changed.notify()
        self._thread.join()

    def _check_room(self, user: str) -> None:
        if self._is_stopping:
            raise LimitError(_CLOSING, hint="try again", retry_after_sec=_RESTART_SEC)
        wait_sec = max(1.0, self._mean_sec * self._places.num_taken / self._max_streams)
        try:
            self._places.check(user, min(wait_sec, _LONGEST_RETRY_SEC))
        except LimitError:
            self._done = replace(self._done, refused=self._done.refused + 1)
            raise

    def _submit(self, request: Request[Any], is_first: bool) -> None:
        if request.has_gone:
            raise CancelledError("whoever asked has gone")
        with self._changed:
            if self._has_ended:
                raise CancelledError(_CLOSING)
            if is_first:
                self._check_room(request.user)
            self._places.squeeze_in(request.user)
            request.on_end = self._left
            self._arrived.append(request)
            self._changed.notify()

    def _left(self, request: Request[Any]) -> None:
        with self._changed:
            self._places.leave(request.user)
            done = self._done
            self._done = replace(
                done,
                cancelled=done.cancelled + request.cancelled.is_set(),
                tokens_read=done.tokens_read + request.num_read,
                tokens_generated=done.tokens_generated + request.num_generated,
            )
            if isinstance(request, Stream) and (begun := self._begun.pop(request, None)) is not None:
                self._mean_sec += 0.1 * (time.monotonic() - begun - self._mean_sec)

    # what follows runs in the thread

    def _work(self) -> None:
        try:
            device = self.backbone.device
            if device.type == "cuda" and device.index is not None:
                torch.cuda.set_device(device)  # a thread begins with the first
            while self._take_in():
                try:
                    self._let_go()
                    self._go_round()
                except Exception as error:  # a bug: whoever is concerned is told, and the others go on
                    self._fail_all(error)
        except Exception as error:  # nobody may wait for a thread that is gone
            self._end_with(error)

    def _end_with(self, error: Exception) -> None:
        with self._changed:
            self._has_ended = True
            arrived, self._arrived = self._arrived, []
        for request in arrived:
            request.fail(error)
        self._fail_all(error)

    def _take_in(self) -> bool:
        """Waits until there is something to do, and says whether there is."""
        with self._changed:
            while not (self._arrived or self._is_busy or self._is_stopping):
                self._changed.wait()
            arrived, self._arrived = self._arrived, []
            self._has_ended = self._is_stopping and not arrived and not self._is_busy
            drops = self._drops
        for request in arrived:
            if isinstance(request, Stream):
                self._waiting.add(request)
            elif isinstance(request, Step):
                self._steps.add(request)
            else:
                self._reading.add(request)
        if drops:
            self._fail_all(CancelledError(_CLOSING))
        return not self._has_ended

    @property
    def _is_busy(self) -> bool:
        return bool(self._steps or self._reading or self._waiting or self._running)

    def _let_go(self) -> None:
        """Whoever has gone leaves."""
        for request in [
            *self._steps.drop(lambda request: request.has_gone),
            *self._reading.drop(lambda request: request.has_gone),
            *self._waiting.drop(lambda request: request.has_gone),
            *self._running.drop(),
        ]:
            request.fail(CancelledError("whoever asked has gone"))

    def _fail_all(self, error: Exception) -> None:
        lines: tuple[Turns[Any], ...] = (self._steps, self._reading, self._waiting)
        for request in [*self._running.clear(), *(gone for line in lines for gone in line.drop(lambda _: True))]:
            request.fail(error)

    def _go_round(self) -> None:
        begun = time.monotonic()
        has_stepped = bool(self._steps)
        if has_stepped:
            self._step()
            self._last_step = time.monotonic()
        self._admit()
        reading = self._reading.in_turn()
        is_answering = self._running or begun - self._last_step < _GAP_SEC
        if is_answering and self._debt_sec > 0:
            reading = [request for request in reading if isinstance(request, Read)]
        spent_sec = self._read(reading) if reading else 0.0
        if self._running:
            self._speak()
        elif not (has_stepped or reading):  # a search that thinks has a step to ask for in a moment
            with self._changed:
                if not (self._arrived or self._is_stopping):
                    self._changed.wait(_GAP_SEC)
        others_sec = time.monotonic() - begun - spent_sec
        self._debt_sec = max(0.0, self._debt_sec + spent_sec - others_sec) if is_answering else 0.0

    def _step(self) -> None:
        """One token for the branches of searches."""
        chosen = steps_together(self._steps.in_turn())
        each_alone(chosen, lambda steps: run_steps(self.backbone, steps))
        self._steps.had(chosen)
        self._steps.drop(lambda step: step.has_ended)

    def _admit(self) -> None:
        """Streams begin while there is room, those of whoever has fewest first."""
        if not self._waiting:
            return
        reading = [request for request in self._reading.in_turn() if isinstance(request, Stream)]
        load = self._running.load + Counter(stream.user for stream in reading)
        while self._waiting and load.total() < self._max_streams:
            stream = self._waiting.in_turn(load)[0]
            self._waiting.had([stream])
            self._waiting.drop(lambda waiting, stream=stream: waiting is stream)  # type: ignore[misc]
            self._begun[stream] = time.monotonic()
            self._reading.add(stream)
            load[stream.user] += 1

    def _read(self, order: Sequence[Request[Any]]) -> float:
        """One pass of the kind whose turn it is; the seconds that it took, unless a question was read."""
        begun = time.monotonic()
        first = order[0]
        chosen: list[Any] = [first]
        if isinstance(first, Read):
            reads = [request for request in order if isinstance(request, Read)]
            chosen = reads_together(self.backbone, reads, self._pass_tokens)
            each_alone(chosen, lambda reads: run_reads(self.backbone, reads, self._pass_tokens, self._have_read))
        elif isinstance(first, Encode):
            chosen = encodes_together([request for request in order if isinstance(request, Encode)])
            each_alone(chosen, lambda encodes: run_encodes(encodes, self._pass_tokens))
        elif isinstance(first, Call):
            each_alone(chosen, run_call)
        self._reading.had(chosen)
        self._reading.drop(lambda request: request.has_ended or request in self._running.streams)
        return 0.0 if isinstance(first, Read) else time.monotonic() - begun

    def _have_read(self, read: Read, batch: StateBatch, hidden: Tensor) -> None:
        if isinstance(read, Stream):
            self._running.join(read, batch, hidden)
        else:
            read.done((batch, hidden))

    def _speak(self) -> None:
        """One token for every answer."""
        try:
            self._running.tick()
        except Exception as error:
            for stream in self._running.clear():
                stream.fail(error)
