"""Which tokens may come next in a grounded answer: those that go on with a span of a source, and the end of one.

The sources' suffix arrays say where a span stands and what follows there, in O(L) bytes touched for each step.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from precog.engine.suffixes import Ids, build_suffix_array, successors
from precog.engine.words import blank_tokens, word_edges
from precog.errors import InputError
from precog.text.tokenizer import Tokenizer

Edges = tuple[NDArray[np.bool_], NDArray[np.bool_]]  # where a span may begin, n; where it may end, n + 1
Place = tuple[int, Ids]  # a member, and the positions in it, in the order of its suffix array


@dataclass(frozen=True)
class Source:
    """Text that an answer may be taken from.

    Attributes:
        token_ids: of the chunk, without boundary.
        suffixes: their suffix array.
    """

    token_ids: Ids
    suffixes: Ids

    @classmethod
    def of(cls, token_ids: Sequence[int] | Ids, suffixes: Ids | None = None) -> "Source":
        """A source; its suffix array is built unless a stored one is given.

        Raises:
            InputError: there is no token, or the suffix array has another length.
        """
        ids = token_ids if isinstance(token_ids, np.ndarray) else np.array(token_ids, np.int64)
        made: Ids = build_suffix_array(ids) if suffixes is None else suffixes
        if not len(ids) or len(made) != len(ids):
            raise InputError("a source needs tokens and their suffix array", given=f"{len(ids)} and {len(made)}")
        return cls(ids, made)


def _edges(tokenizer: Tokenizer, token_ids: Ids) -> Edges:
    """Where a span may begin and where it may end: at the edges of words, and not before mere white space."""
    ends = word_edges(tokenizer, token_ids)
    shown = ~blank_tokens(tokenizer)[token_ids.astype(np.int64)]
    return ends[:-1] & (shown if shown.any() else True), ends


class Mask:
    """What may come next, with a meter for the bytes and the seconds it takes."""

    def __init__(self, sources: Sequence[Source], tokenizer: Tokenizer, *, whole_words: bool) -> None:
        self.sources = sources
        self.end = tokenizer.eos_id
        self.edges = tuple(_edges(tokenizer, source.token_ids) for source in sources) if whole_words else None
        self.num_bytes = 0
        self.seconds = 0.0

    def beginnings(self) -> tuple[Place, ...]:
        """Where an answer may begin: before every word, or anywhere when words do not matter."""
        started = time.perf_counter()
        places: list[Place] = []
        for member, source in enumerate(self.sources):
            starts = source.suffixes
            places.append((member, starts if self.edges is None else starts[self.edges[member][0][starts]]))
        self.seconds += time.perf_counter() - started
        return tuple(places)

    def expand(
        self, span: Sequence[int], stands: Sequence[Place], *, may_end: bool
    ) -> tuple[NDArray[np.int64], dict[int, tuple[Place, ...]]]:
        """Ids that may follow a span, the end last, and for each token where its longer span stands.

        The end is left out where no occurrence of the span ends with a word, unless nothing else is left.

        Args:
            span: tokens of the answer so far.
            stands: where they stand.
            may_end: allow the end in any case.
        """
        started = time.perf_counter()
        places: dict[int, tuple[Place, ...]] = {}
        for member, starts in stands:
            source = self.sources[member]
            tokens, bounds = successors(source.token_ids, starts, 0, len(starts), len(span))
            self.num_bytes += len(starts) * (starts.itemsize + source.token_ids.itemsize)
            edges = bounds.tolist()
            for token, first, last in zip(tokens.tolist(), edges, edges[1:], strict=False):
                places[token] = (*places.get(token, ()), (member, starts[first:last]))
        ends = [self.end] if may_end or not span or not places or self._whole(span, stands) else []
        allowed = np.array([*sorted(places), *ends], np.int64)
        self.seconds += time.perf_counter() - started
        return allowed, places

    def occurrences(self, span: Sequence[int], stands: Sequence[Place]) -> list[tuple[int, int]]:
        """Every (member, start) of a finished span; only those that end with a word, if there are any."""
        return self._whole(span, stands) or sorted(
            (member, int(start)) for member, starts in stands for start in starts
        )

    def _whole(self, span: Sequence[int], stands: Sequence[Place]) -> list[tuple[int, int]]:
        return sorted(
            (member, int(start))
            for member, starts in stands
            for start in starts.tolist()
            if self.edges is None or self.edges[member][1][start + len(span)]
        )
