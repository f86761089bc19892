"""Learning to ask: question rows turned round, so that the answer is given and the question wanted."""

from precog.train.data.batches import Batch, QuestionBatches
from precog.train.data.tokens import BOUNDARY_ID, EOS_ID, PROMPT, Pieces

ASKING = "###Answer: {answer} ###Question:"
_BEFORE, _AFTER = PROMPT.split("{question}")


class ReversedBatches:
    """Batches whose rows give the answer and want the question; rows too long for their width keep their own form.

    Train on them with weights for the answer tokens only: ``grounded_weight=0``.
    """

    def __init__(self, source: QuestionBatches, pieces: Pieces) -> None:
        self._source, self._pieces = source, pieces

    def batch(self, step: int) -> Batch:
        """The reversed batch of a step."""
        batch = self._source.batch(step)
        out = batch.copy()
        questions, prompt_len, row_len = (batch[name].copy() for name in ("questions", "prompt_len", "row_len"))
        width = questions.shape[1]
        rows = [r for r in range(len(row_len)) if row_len[r] - prompt_len[r] > 1]
        texts = self._pieces.decode_all([questions[r, 1 : prompt_len[r]].tolist() for r in rows])
        answers = self._pieces.decode_all([questions[r, prompt_len[r] : row_len[r] - 1].tolist() for r in rows])
        prompts = self._pieces.encode([ASKING.format(answer=answer) for answer in answers])
        targets = self._pieces.encode([text.removeprefix(_BEFORE).removesuffix(_AFTER) for text in texts])
        for r, prompt, target in zip(rows, prompts, targets, strict=True):
            ids = [BOUNDARY_ID, *prompt, *target, EOS_ID]
            if len(ids) <= width:
                questions[r, : len(ids)], questions[r, len(ids) :] = ids, 0
                prompt_len[r], row_len[r] = 1 + len(prompt), len(ids)
        out["questions"], out["prompt_len"], out["row_len"] = questions, prompt_len, row_len
        return out

    def describe(self, step: int) -> list[str]:
        """Where the chunks of a step's batch come from, for a person."""
        return self._source.describe(step)
