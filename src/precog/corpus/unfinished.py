"""A change of a corpus that `reindex` has begun and not ended: how far it is, and how to go on with it."""

from dataclasses import dataclass

from precog.corpus.corpus import settings_of
from precog.corpus.settings import REINDEXED_FLAGS
from precog.store import CorpusStore
from precog.store.remedy import reindex_command


@dataclass(frozen=True)
class Unfinished:
    """A change of a corpus that was begun and has not taken its place.

    Attributes:
        num_chunks: that are done.
        command: that goes on with it.
    """

    num_chunks: int
    command: str

    def to_json(self) -> dict[str, object]:
        """As the command line prints it."""
        return {"chunks": self.num_chunks, "command": self.command}


def unfinished(store: CorpusStore) -> Unfinished | None:
    """The change of a corpus that an interrupted `reindex` left, or one that is under way; None where there is none."""
    begun = store.replacement()
    if begun is None:
        return None
    with begun:
        before, wanted, num_chunks = settings_of(store), settings_of(begun), begun.size().num_chunks
    flags = {**REINDEXED_FLAGS, "model": "--model", "encoder": "--encoder"}
    options = [
        word
        for key, flag in flags.items()
        if (value := getattr(wanted, key)) not in (getattr(before, key), "", 0.0)
        for word in (flag, f"{value:g}" if isinstance(value, float) else str(value))
    ]
    return Unfinished(num_chunks, reindex_command(store.path, *options))
