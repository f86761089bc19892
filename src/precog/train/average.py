"""An exponential moving average of the weights: FP32, on the device, exchanged with the model where it is wanted."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from precog.train.parallel import local


class WeightAverage:
    """The average m ← d·m + (1 − d)·w of every trained weight, with d = min(decay, (1 + t) / (10 + t)) after t steps.

    The early d forgets the random weights a run starts from.

    Args:
        model: whose weights; where they are sharded, so is the average.
        decay: 0 < d < 1.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self._decay = decay
        self._parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.values: dict[str, Tensor] = {name: p.detach().clone() for name, p in self._parameters.items()}

    @torch.no_grad()
    def update(self, steps: int) -> None:
        """Take in the weights after ``steps`` optimiser steps."""
        decay = min(self._decay, (1 + steps) / (10 + steps))
        averages = [local(value) for value in self.values.values()]
        torch._foreach_lerp_(averages, [local(p.detach()) for p in self._parameters.values()], 1 - decay)

    @torch.no_grad()
    def _exchange(self) -> None:
        for name, parameter in self._parameters.items():
            weight, average = local(parameter.detach()), local(self.values[name])
            kept = weight.clone()
            weight.copy_(average)
            average.copy_(kept)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Inside, the model's weights are the averages."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()
