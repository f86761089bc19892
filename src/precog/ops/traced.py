"""Whether a kernel has to be an operation of torch, or can be launched as it is.

Gradients and torch's compiler see a kernel as a custom operation. Such a one goes through the dispatcher, and its first
call in a process imports the compiler, which is two to five seconds of somebody's first answer on a GPU.
"""

import torch


def is_traced() -> bool:
    """Whether somebody differentiates or compiles what is computed now."""
    return torch.is_grad_enabled() or torch.compiler.is_compiling()
