"""Made batches for the tests of training."""

import numpy as np


def make_arrays(chunks=6, per_chunk=4, seed=0):
    rng = np.random.default_rng(seed)
    context = rng.integers(3, 60, (chunks, 12)).astype(np.int32)
    context[:, 0] = 1
    lengths = rng.integers(5, 13, chunks).astype(np.int32)
    rows = chunks * per_chunk
    owner = np.repeat(np.arange(chunks), per_chunk)
    questions = np.zeros((rows, 10), dtype=np.int32)
    prompt, total = rng.integers(2, 6, rows), np.zeros(rows, dtype=np.int32)
    for r in range(rows):
        size = int(rng.integers(1, 4))
        at = int(rng.integers(1, lengths[owner[r]] - size + 1))
        ids = [1, *rng.integers(3, 60, prompt[r] - 1), *context[owner[r], at : at + size], 2]
        questions[r, : len(ids)] = ids
        total[r] = len(ids)
    return {
        "context": context,
        "context_len": lengths,
        "questions": questions,
        "prompt_len": prompt.astype(np.int32),
        "row_len": total,
        "answer_start": np.zeros(rows, dtype=np.int32),
        "owner": owner,
        "kind": np.zeros(rows, dtype=np.uint8),
        "valid": np.ones(rows, dtype=np.bool_),
        "source": np.zeros(chunks, dtype=np.int64),
    }
