"""What the machine can do at best with the same number of threads: multiply, copy, read."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

_WARM_UP = 2
_TRIES = 5


@dataclass(frozen=True)
class Ceilings:
    """The best of several tries each, because a limit is what was reached once.

    Attributes:
        matmul_flops_per_sec: of a large square matrix product in the model's dtype.
        copy_bytes_per_sec: memory to memory, bytes read and bytes written both counted.
        read_bytes_per_sec: of a matrix times a vector: what one decoded token does with the weights.
    """

    matmul_flops_per_sec: float
    copy_bytes_per_sec: float
    read_bytes_per_sec: float

    @property
    def bandwidth_bytes_per_sec(self) -> float:
        """The higher of the two bandwidths."""
        return max(self.copy_bytes_per_sec, self.read_bytes_per_sec)

    def to_json(self) -> dict[str, float]:
        """Plain data."""
        return {
            "matmul_flops_per_sec": self.matmul_flops_per_sec,
            "copy_bytes_per_sec": self.copy_bytes_per_sec,
            "read_bytes_per_sec": self.read_bytes_per_sec,
        }


def measure_ceilings(device: torch.device, dtype: str = "float32", *, quick: bool = False) -> Ceilings:
    """Measures the machine.

    Args:
        device: where the model computes.
        dtype: what it computes in.
        quick: small sizes, which fit into caches: the figures are no limits then.
    """
    size, num_reals = (256, 1 << 20) if quick else (2048, 1 << 26)
    a, b = (torch.randn(size, size, device=device).to(getattr(torch, dtype)) for _ in range(2))
    matmul_sec = best_of(lambda: a @ b, device)
    source = torch.ones(num_reals, device=device)
    target = torch.empty_like(source)
    copy_sec = best_of(lambda: target.copy_(source), device)
    weight, vector = source.view(-1, 1024), torch.ones(1024, device=device)
    read_sec = best_of(lambda: weight @ vector, device)
    num_bytes = source.numel() * source.element_size()
    return Ceilings(2 * size**3 / matmul_sec, 2 * num_bytes / copy_sec, num_bytes / read_sec)


def best_of(function: Callable[[], object], device: torch.device) -> float:
    """The shortest of several runs, in seconds, after some that do not count."""
    shortest = float("inf")
    for number in range(_WARM_UP + _TRIES):
        started = time.perf_counter()
        function()
        wait(device)
        if number >= _WARM_UP:
            shortest = min(shortest, time.perf_counter() - started)
    return shortest


def wait(device: torch.device) -> None:
    """Returns when the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()
