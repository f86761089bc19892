"""Key–value pairs of random tokens, made in memory: the shortest test of whether a state binds and can be addressed.

A chunk is ``<s>`` key ``:`` value ``;`` key ``:`` value ``;`` …, a question is ``<s>`` key ``?`` value ``</s>``, with
three fixed ids for the marks. Nothing repeats between chunks, so nothing can be learnt but to bind and to look up.
"""

from collections.abc import Sequence

import numpy as np

from precog.errors import TrainingError
from precog.questions.passage import Kind
from precog.train.data.batches import Batch

__all__ = ["LEVELS", "PairBatches"]

LEVELS = (1, 2, 4, 8, 16, 32)
BOUNDARY_ID, EOS_ID = 1, 2
IS, NEXT, ASKED = 5, 6, 7
FIRST_KEY = 10
OPEN_AT = 0.6  # of the schedule: from there on every level is drawn


class PairBatches:
    """Batches of key–value pairs; every chunk of a batch has the same number of them.

    Args:
        num_chunks: B, chunks of a batch.
        num_questions: Q, questions per chunk.
        vocabulary: ids in use; the lower half are keys, the upper half values.
        seed: source of every choice; a batch is a function of it and the step alone.
        levels: numbers of pairs, rising. The first two are drawn from the start, the others join one after another
            until `OPEN_AT` of the schedule.
        steps: length of the schedule.

    Raises:
        TrainingError: there are fewer keys than pairs.
    """

    def __init__(
        self,
        num_chunks: int,
        num_questions: int,
        vocabulary: int,
        *,
        seed: int,
        levels: Sequence[int] = LEVELS,
        steps: int = 1,
    ) -> None:
        self._first_value = (FIRST_KEY + vocabulary) // 2
        if not levels or min(levels) < 1 or self._first_value - FIRST_KEY < max(levels):
            raise TrainingError(
                "so many pairs cannot be made of so few tokens",
                given=f"pairs {list(levels)}, vocabulary {vocabulary}",
                expected=f"1 to {max(0, self._first_value - FIRST_KEY)} pairs",
            )
        self._shape = (num_chunks, num_questions)
        self._vocabulary, self._seed, self._levels, self._steps = vocabulary, seed, tuple(levels), steps

    def opened(self, step: int) -> int:
        """Levels that are drawn from at a step."""
        every = len(self._levels)
        return min(every, 2 + int((every - 2) * step / (OPEN_AT * self._steps))) if every > 2 else every

    def batch(self, step: int) -> Batch:
        """The batch of a step."""
        rng = np.random.default_rng((self._seed, step))
        pairs = self._levels[rng.integers(self.opened(step))]
        chunks, asks = self._shape
        order = rng.random((chunks, self._first_value - FIRST_KEY)).argpartition(pairs - 1, axis=1)[:, :pairs]
        keys = rng.permuted(order, axis=1) + FIRST_KEY
        values = rng.integers(self._first_value, self._vocabulary, (chunks, pairs))
        context = np.full((chunks, 1 + 4 * pairs), BOUNDARY_ID, dtype=np.int32)
        context[:, 1::4], context[:, 2::4], context[:, 3::4], context[:, 4::4] = keys, IS, values, NEXT
        owner = np.repeat(np.arange(chunks), asks)
        picked = rng.integers(pairs, size=chunks * asks)
        questions = np.empty((chunks * asks, 5), dtype=np.int32)
        questions[:, 0], questions[:, 2], questions[:, 4] = BOUNDARY_ID, ASKED, EOS_ID
        questions[:, 1], questions[:, 3] = keys[owner, picked], values[owner, picked]
        return {
            "context": context,
            "context_len": np.full(chunks, context.shape[1], dtype=np.int32),
            "questions": questions,
            "prompt_len": np.full(len(owner), 3, dtype=np.int32),
            "row_len": np.full(len(owner), 5, dtype=np.int32),
            "answer_start": (3 + 4 * picked).astype(np.int32),
            "owner": owner,
            "kind": np.full(len(owner), int(Kind.KEY_VALUE), dtype=np.uint8),
            "valid": np.ones(len(owner), dtype=np.bool_),
            "source": np.zeros(chunks, dtype=np.int64),
        }
