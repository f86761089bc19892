"""Reading in context, as fast as this model can: what an injected state is measured against."""

import time
from collections.abc import Sequence

import torch

from precog.backbones.protocol import Backbone
from precog.bench.harness import Rounds, Side, interleave
from precog.bench.synthetic import TextMaker

PASS_TOKENS = (64, 256, 1024, 4096)


class Reading:
    """The same questions with the context in front of them, read in one go."""

    def __init__(self, backbone: Backbone, segments: Sequence[Sequence[int]], most_tokens: int) -> None:
        self._backbone = backbone
        self._segments = segments
        text = TextMaker(2).passage(most_tokens)
        self._context = backbone.tokenizer.encode(text)[:most_tokens]

    def first_token(self, number: int, length: int, pass_tokens: int) -> float:
        """Seconds from the question to the first token, ``length`` tokens of context read before it."""
        started = time.perf_counter()
        question = self._segments[number % len(self._segments)]
        tokens = torch.tensor([[*self._backbone.reading(self._context[:length]), *question]])
        batch = self._backbone.open([self._backbone.empty_state()])
        for start in range(0, tokens.shape[1], pass_tokens):
            batch, hidden = self._backbone.read(batch, tokens[:, start : start + pass_tokens])
        int(self._backbone.logits(hidden[0]).argmax())
        return time.perf_counter() - started

    def fastest_pass(self) -> int:
        """How many tokens the model reads at once where reading is fastest on this machine."""
        length = min(1024, len(self._context))
        sizes = [size for size in PASS_TOKENS if size < length] + [max(PASS_TOKENS)]
        sides = [self._side(f"{size}", length, size) for size in sizes]
        tried = interleave(sides, repeats=2, warm_up=1)
        return min(sizes, key=lambda size: min(tried[f"{size}"].seconds))

    def measure(self, lengths: Sequence[int], pass_tokens: int, *, repeats: int, warm_up: int) -> Rounds:
        """Seconds to the first token for every length of context, interleaved; named by the length."""
        sides = [self._side(f"{length}", length, pass_tokens) for length in lengths]
        return interleave(sides, repeats=repeats, warm_up=warm_up)

    def _side(self, name: str, length: int, pass_tokens: int) -> Side:
        return lambda number: {name: self.first_token(number, length, pass_tokens)}
