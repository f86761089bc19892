"""Turns of a conversation ▸ deposits, for one request; what is told of progress is on its way to the disk."""

import time
from collections.abc import Callable, Iterable

from precog.memory.chunking import chunks_of, told
from precog.memory.contents import groups_of
from precog.memory.deposit import Remembered, deposit
from precog.memory.opened import OpenMemory
from precog.memory.recall import refreshed_or_why
from precog.memory.utterance import Utterance
from precog.server.memory_models import Remembered as Told
from precog.server.user_memory import UserMemory
from precog.server.work import Job


def remember_all(
    memory: UserMemory,
    job: Job,
    turns: Iterable[Utterance],
    importance: float,
    *,
    notes: Iterable[str] = (),
    on_turn: Callable[[int], None] = lambda count: None,
) -> Told:
    """Deposits turns in commit units, and returns when all are on the disk.

    A client that goes away ends it at the next unit; sending the same again goes on, as what is known is not read.

    Args:
        memory: that is to hold them; it is made where there is none.
        job: of the request.
        turns: in order.
        importance: of all of them.
        notes: to be told with the answer.
        on_turn: told how many turns are through.
    """
    started = time.perf_counter()
    with memory.writing(job.cancelled, create=True) as opened:
        before, most = num_tokens(opened), opened.settings.chunk_tokens
        chunks = told(chunks_of(turns, opened.backbone.tokenizer, max_tokens=most), on_turn)
        done = deposit(opened, chunks, importance=importance)
        return told_of(memory, opened, done, num_tokens(opened) - before, time.perf_counter() - started, notes)


def num_tokens(opened: OpenMemory) -> int:
    """Tokens of all deposits."""
    return sum(group.num_tokens for group in opened.store.subclusters())


def told_of(
    memory: UserMemory, opened: OpenMemory, done: Remembered, tokens: int, seconds: float, notes: Iterable[str] = ()
) -> Told:
    """What is answered when something was remembered; it is counted and put into the index."""
    refreshed_or_why(opened.store, opened.settings.encoder_fingerprint)
    groups = groups_of(opened.store, done.ids)
    memory.services.metrics.ingested(tokens, seconds)
    return Told.model_validate({**done.to_json(), "groups": groups, "notes": list(notes)})
