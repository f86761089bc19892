"""Commit units: what the writer does to the corpus in one step, in order, formed the same way on every run.

A unit is full when it holds a fixed number of chunks, or of tokens; it does not depend on time, nor on what the
machine was doing. An interrupted run goes on after the last committed unit and so forms the units it would have
formed; states that depend on their batch in the last bit come out equal, too.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from precog.store import DocumentInfo
from precog.text.chunking.chunk import Chunk

UNIT_CHUNKS = 16
UNIT_TOKENS = 4_096
STUDY_CHUNKS = 4
"""Chunks of a unit where each sentence is read, too: an interruption costs seconds of work, not a minute."""
_UNIT_EVENTS = 256


@dataclass(frozen=True)
class Take:
    """Add a chunk to a document; ``copy_of`` names the same chunk in another store that holds its state."""

    info: DocumentInfo
    chunk: Chunk
    copy_of: int | None = None


@dataclass(frozen=True)
class Finish:
    """Make a document visible; ``info`` is what is known of it at its end."""

    info: DocumentInfo


@dataclass(frozen=True)
class Fail:
    """Record why a document yields nothing."""

    info: DocumentInfo
    reason: str


@dataclass(frozen=True)
class Drop:
    """Forget a document."""

    document_id: int


Event = Take | Finish | Fail | Drop


@dataclass(frozen=True)
class Unit:
    """One commit unit."""

    events: list[Event] = field(default_factory=list)

    @property
    def takes(self) -> list[Take]:
        """The events that add a chunk, in order."""
        return [event for event in self.events if isinstance(event, Take)]


def units(events: Iterable[Event], *, is_studied: bool = False) -> Iterator[Unit]:
    """Cuts a stream of events into units, smaller ones where chunks are studied."""
    most_chunks = min(STUDY_CHUNKS, UNIT_CHUNKS) if is_studied else UNIT_CHUNKS
    unit, num_chunks, num_tokens = Unit(), 0, 0
    for event in events:
        if isinstance(event, Take):
            if num_chunks == most_chunks or (num_chunks and num_tokens + len(event.chunk.token_ids) > UNIT_TOKENS):
                yield unit
                unit, num_chunks, num_tokens = Unit(), 0, 0
            num_chunks += 1
            num_tokens += len(event.chunk.token_ids)
        unit.events.append(event)
        if len(unit.events) >= _UNIT_EVENTS:
            yield unit
            unit, num_chunks, num_tokens = Unit(), 0, 0
    if unit.events:
        yield unit
