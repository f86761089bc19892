"""Kernels run on the card where there is one, and in Triton's interpreter elsewhere."""

import importlib.util

import numpy as np
import pytest
import torch

INTERPRETED = not torch.cuda.is_available()


@pytest.fixture(scope="session", autouse=True)
def _interpreter() -> None:
    """Three gaps of the interpreter: NumPy 2.4 no longer takes its loop counts, arrays of one element, for integers; it
    multiplies the bits of BF16 matrices as if they were integers; and it cuts FP32 off to BF16 where the card rounds.
    """
    if not INTERPRETED or importlib.util.find_spec("triton") is None:
        return
    import triton.language
    from triton.runtime import interpreter

    patch_tensor = interpreter._patch_lang_tensor

    def patched(tensor: type, scope: object) -> None:
        patch_tensor(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    multiply = interpreter.InterpreterBuilder.create_dot

    def widened(self: object, a: object, b: object, *rest: object) -> object:
        if a.dtype == triton.language.bfloat16:
            a, b = (self.cast_impl(x, triton.language.float32) for x in (a, b))
        return multiply(self, a, b, *rest)

    cast = interpreter.InterpreterBuilder.cast_impl

    def rounded(self: object, source: object, target: object) -> object:
        if (source.dtype.scalar, target.scalar) == (triton.language.float32, triton.language.bfloat16):
            bits = torch.from_numpy(np.ascontiguousarray(source.data)).bfloat16().view(torch.int16)
            return interpreter.TensorHandle(bits.numpy().view(np.uint16), target.scalar)
        return cast(self, source, target)

    interpreter._patch_lang_tensor = patched
    interpreter.InterpreterBuilder.cast_impl = rounded
    interpreter.InterpreterBuilder.create_dot = widened


@pytest.fixture(scope="session")
def device() -> torch.device:
    """Where kernels run."""
    return torch.device("cpu" if INTERPRETED else "cuda")
