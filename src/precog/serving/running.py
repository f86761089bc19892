"""Answers in the making: all of them rows of one batch, one token each at a time."""

from collections import Counter
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from precog.backbones.protocol import Backbone, LearnableBackbone
from precog.engine.sampling import choose
from precog.serving.request import Stream
from precog.state import StateBatch


class Running:
    """The batch of all answers; a row comes when its question has been read and leaves when the answer has ended.

    Args:
        backbone: the model.
    """

    def __init__(self, backbone: Backbone) -> None:
        self._backbone = backbone
        self.streams: list[Stream] = []
        self._batch: StateBatch | None = None  # has read all tokens but those that are chosen next
        self._hidden: Tensor | None = None
        self._new: list[tuple[StateBatch, Tensor]] = []
        # a device works while tokens are handed over; a CPU would keep them back for a step, ended answers included
        self._steps_first = backbone.device.type != "cpu"

    def __bool__(self) -> bool:
        return bool(self.streams)

    @property
    def load(self) -> Counter[str]:
        """Rows of each user."""
        return Counter(stream.user for stream in self.streams)

    def join(self, stream: Stream, batch: StateBatch, hidden: Float[Tensor, "1 d"]) -> None:
        """A row that has read its question; it is in from the next token on."""
        self.streams.append(stream)
        self._new.append((batch, hidden))

    def drop(self) -> list[Stream]:
        """Lets rows go that nobody waits for."""
        gone = [stream for stream in self.streams if stream.has_gone or stream.has_ended]
        if gone:
            self._settle()
            self._keep([row for row, stream in enumerate(self.streams) if stream not in gone])
        return gone

    def clear(self) -> list[Stream]:
        """Lets all rows go."""
        streams, self.streams = self.streams, []
        self._batch, self._hidden, self._new = None, None, []
        return streams

    def tick(self) -> None:
        """One token for every row.

        Raises:
            Exception: what the model's step raised; rows whose answer ended before it was needed have left.
        """
        self._settle()
        if self._hidden is None or self._batch is None:
            return
        chosen = self._choose(self._hidden)
        failure: Exception | None = None
        if self._steps_first:
            try:
                self._batch, self._hidden = self._backbone.step(self._batch, [token_id for token_id, _ in chosen])
            except Exception as error:
                failure = error
        kept: list[int] = []
        token_ids: list[int] = []
        for row, (token_id, log_probability) in enumerate(chosen):
            stream = self.streams[row]
            try:
                goes_on = stream.take(token_id, log_probability)
            except Exception as error:  # its own affair
                stream.fail(error)
                continue
            if goes_on:
                kept.append(row)
                token_ids.append(token_id)
        if len(kept) < len(self.streams):
            self._keep(kept)
        if failure is not None and kept:
            raise failure
        if self._batch is not None and not self._steps_first:
            self._batch, self._hidden = self._backbone.step(self._batch, token_ids)

    def _settle(self) -> None:
        """The new rows beside the others; nothing is copied where there are none."""
        if self._new:
            old = [] if self._batch is None or self._hidden is None else [(self._batch, self._hidden)]
            batches, hidden = zip(*old, *self._new, strict=True)
            self._batch, self._hidden = StateBatch.side_by_side(batches), torch.cat(hidden)
            self._new = []

    def _keep(self, rows: Sequence[int]) -> None:
        self.streams = [self.streams[row] for row in rows]
        if not rows or self._batch is None or self._hidden is None:
            self._batch = self._hidden = None
            return
        self._batch = self._batch.select(rows)
        self._hidden = self._hidden[torch.tensor(list(rows), device=self._hidden.device)]

    def _choose(self, hidden: Tensor) -> list[tuple[int, float]]:
        """Each row's next token and its log-probability; one transfer from the device for all greedy rows."""
        scores = self._scores(hidden)
        first = [row for row, stream in enumerate(self.streams) if stream.ending.barred]
        if first:
            barred = torch.tensor(self.streams[first[0]].ending.barred, device=scores.device)
            scores = scores.clone()
            scores[torch.tensor(first, device=scores.device)[:, None], barred[None]] = -torch.inf
        best = scores.argmax(-1, keepdim=True)
        told = torch.log_softmax(scores, -1).gather(-1, best)
        both = torch.cat((best.double(), told.double()), dim=-1).tolist()
        chosen = [(int(token_id), log_probability) for token_id, log_probability in both]
        sampled = [row for row, stream in enumerate(self.streams) if stream.generator is not None]
        if sampled:
            plain = scores[torch.tensor(sampled, device=scores.device)].cpu()
            for row, logits in zip(sampled, plain, strict=True):
                stream = self.streams[row]
                try:
                    token_id = choose(logits, stream.sampling, stream.generator)
                except Exception as error:  # its own affair
                    stream.fail(error)
                    continue
                chosen[row] = token_id, float(torch.log_softmax(logits, 0)[token_id])
        return chosen

    def _scores(self, hidden: Tensor) -> Tensor:
        """Scores of every token, on the device where the model shows them there."""
        if isinstance(self._backbone, LearnableBackbone):
            with torch.no_grad():
                return self._backbone.token_scores(hidden)
        return self._backbone.logits(hidden)
