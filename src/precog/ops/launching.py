"""Where a kernel is launched: on the device that its tensors are on.

What is not torch's own goes to the current device of the thread, and a thread begins with the first one.
"""

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

T = TypeVar("T")


def on_device_of(tensor: Tensor) -> AbstractContextManager[Any]:
    """The device of a tensor is the thread's current one meanwhile; nothing changes where it is on a CPU."""
    return cast("AbstractContextManager[Any]", torch.cuda.device_of(tensor))  # type: ignore[no-untyped-call]


def on_own_device(launch: Callable[..., T]) -> Callable[..., T]:
    """A function that launches kernels on the device of its first tensor."""

    @functools.wraps(launch)
    def launched(first: Tensor, *others: Any) -> T:
        with on_device_of(first):
            return launch(first, *others)

    return launched
