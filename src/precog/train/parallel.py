"""Several processes that train one model: whole copies whose gradients are averaged, or weights cut into shards.

``ddp`` keeps a copy per process and exchanges all gradients in one flat reduction. ``fsdp`` cuts the FP32 weights,
gradients and optimiser state of every block along its first axis (FSDP2), gathers a block before it computes and
scatters its gradients after. Both exchange gradients once per step, at the last of its micro-batches.
"""

import datetime
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Literal, TypeGuard, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn

from precog.backbones.tenns.model import TennsModel
from precog.errors import PrecogError, TrainingError, UsageError

if TYPE_CHECKING:  # two seconds of imports that one process does not need
    from torch.distributed.fsdp import FSDPModule
    from torch.distributed.tensor import DTensor

SHARDED_FROM_PARAMETERS = 500_000_000
"""``auto`` shards from here on: four FP32 values per parameter then take a tenth of a large card."""

MESSAGE_BYTES = 8192
PATIENCE = datetime.timedelta(hours=3)
"""How long processes wait for one that prepares data or writes a checkpoint; torchrun ends them sooner if it dies."""

PROGRAMS = 32
"""Compiled forms of a block: chunks and rows from a state or none, narrow and wide, and all again without dropout."""

T = TypeVar("T")


def _allow_programs() -> None:
    """Raise the number of programs above which the compiler gives up and leaves a block uncompiled."""
    import torch._dynamo.config as dynamo  # a second of imports that only compiled runs need

    dynamo.recompile_limit = max(PROGRAMS, dynamo.recompile_limit)


def place_in_world() -> tuple[int, int]:
    """Number of this process and of all, as torchrun sets them; 0 and 1 without it.

    Raises:
        UsageError: the variables are not what torchrun sets.
    """
    try:
        rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    except ValueError as error:
        raise UsageError("RANK and WORLD_SIZE are set by torchrun", given=str(error), expected="numbers") from error
    if not 0 <= rank < world:
        raise UsageError("RANK is not below WORLD_SIZE", given=f"{rank}, {world}", hint="start several with torchrun")
    return rank, world


def join(device: torch.device) -> torch.device:
    """Meet the other processes and return this one's device.

    Raises:
        UsageError: there are more processes than GPUs, or the processes do not find each other.
    """
    _, world = place_in_world()
    if world == 1:
        return device
    if device.type == "cuda":
        here = int(os.environ.get("LOCAL_WORLD_SIZE", str(world)))
        if here > torch.cuda.device_count():
            raise UsageError(
                "more processes than GPUs",
                given=f"{here} processes, {torch.cuda.device_count()} GPUs",
                hint="lower --nproc-per-node",
            )
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    if not dist.is_initialized():
        try:
            dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=PATIENCE)
        except (ValueError, RuntimeError) as error:
            reason = str(error).strip().splitlines()[0]
            raise UsageError(f"the processes do not find each other: {reason}", hint="start with torchrun") from error
    return device


def leave() -> None:
    """Part from the other processes, once all of them are done; after a failure nobody is waited for.

    A process that ends while a thread of the group is still busy with the last exchange ends that thread by force,
    and the whole of it with status -6.
    """
    if not dist.is_initialized():
        return
    if sys.exception() is None:
        here = [torch.cuda.current_device()] if dist.get_backend() == "nccl" else None
        with suppress(RuntimeError):  # another one is gone already
            dist.barrier(device_ids=here)
    dist.destroy_process_group()


def summed(values: Tensor) -> Tensor:
    """Sums over all processes, in place."""
    if dist.is_initialized():
        dist.all_reduce(values)
    return values


@contextmanager
def agreed(device: torch.device) -> Iterator[None]:
    """What fails inside in one process fails in all: the first raises, the others end silently with its status."""
    if not dist.is_initialized():
        yield
        return
    failure: PrecogError | None = None
    try:
        yield
    except PrecogError as error:
        failure = error
    rank, world = place_in_world()
    note = b"" if failure is None else json.dumps({**failure.to_json(), "exit_status": failure.exit_status}).encode()
    if len(note) > MESSAGE_BYTES:
        note = json.dumps({"message": str(failure)[:500], "exit_status": 1}).encode()
    padded = torch.zeros(MESSAGE_BYTES, dtype=torch.uint8)
    padded[: len(note)] = torch.tensor(list(note), dtype=torch.uint8)
    notes = [torch.empty_like(padded, device=device) for _ in range(world)]
    dist.all_gather(notes, padded.to(device))
    for number, received in enumerate(notes):
        text = bytes(received.cpu().tolist()).rstrip(b"\0")
        if not text:
            continue
        if rank:
            raise SystemExit(json.loads(text)["exit_status"])
        if failure is not None and not number:
            raise failure
        told = json.loads(text)
        other = TrainingError(
            f"process {number}: {told['message']}",
            given=told.get("given"),
            expected=told.get("expected"),
            hint=told.get("hint"),
        )
        other.exit_status = told["exit_status"]
        raise other


@contextmanager
def alone() -> Iterator[None]:
    """What fails in one process other than the first, unforeseen by the rest, says so itself; torchrun ends the rest.

    Around it the first process speaks for all, so the others only take its exit status.
    """
    rank, _ = place_in_world()
    try:
        yield
    except Exception as error:
        if not rank:
            raise
        reason = str(error) if isinstance(error, PrecogError) else f"{type(error).__name__}: {error}"
        sys.stderr.write(f"precog: process {rank}: {' '.join(reason.split())}\n")
        raise SystemExit(error.exit_status if isinstance(error, PrecogError) else 1) from error


def _is_sharded(tensor: Tensor) -> "TypeGuard[DTensor]":
    return hasattr(tensor, "full_tensor")


def local(tensor: Tensor) -> Tensor:
    """The shard of a sharded tensor that is kept here; a whole tensor as it is. In-place changes reach the tensor."""
    return tensor.to_local() if _is_sharded(tensor) else tensor


def whole(tensor: Tensor) -> Tensor:
    """A sharded tensor gathered in every process, which all must ask for; a whole tensor as it is."""
    return tensor.full_tensor() if _is_sharded(tensor) else tensor


def like(value: Tensor, pattern: Tensor) -> Tensor:
    """A whole tensor cut into shards as ``pattern`` is, without communication."""
    if not _is_sharded(pattern):
        return value
    from torch.distributed.tensor import distribute_tensor

    device = pattern.to_local().device
    return distribute_tensor(value.to(device), pattern.device_mesh, pattern.placements, src_data_rank=None)


def kind_of(
    wanted: Literal["auto", "ddp", "fsdp"], model: TennsModel, optimiser: str
) -> Literal["single", "ddp", "fsdp"]:
    """How the processes of this run work together.

    Raises:
        TrainingError: shards without processes, or with an optimiser that needs whole matrices.
    """
    _, world = place_in_world()
    if wanted == "fsdp":
        if world == 1:
            raise TrainingError(
                "parallel=fsdp needs several processes, not one",
                hint="start with: torchrun --nproc-per-node 4 -m precog train …",
            )
        if optimiser != "adamw":
            raise TrainingError(
                "parallel=fsdp cuts matrices into shards",
                given=f"optimiser={optimiser}, which needs them whole",
                expected="optimiser=adamw, or parallel=ddp",
            )
        return "fsdp"
    if world == 1:
        return "single"
    large = model.num_parameters() >= SHARDED_FROM_PARAMETERS and optimiser == "adamw"
    return "fsdp" if wanted == "auto" and large else "ddp"


class _Root(nn.Module):
    """Calls a function with the model; as the outermost sharded module it has the embeddings gathered meanwhile."""

    def __init__(self, model: TennsModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, compute: Callable[[TennsModel], T]) -> T:
        """Call ``compute`` with the model."""
        return compute(self.model)


class Workers:
    """The processes of a run and the model they share.

    With ``fsdp`` the model's parameters are shards after this; make optimisers afterwards.

    Args:
        model: on the device; equal in all processes.
        kind: see `kind_of`.
        device: of this process.
        compiled: compile the blocks.
    """

    def __init__(
        self, model: TennsModel, kind: Literal["single", "ddp", "fsdp"], device: torch.device, compiled: bool = False
    ) -> None:
        self.model = model
        self.kind = kind
        self.rank, self.world = place_in_world()
        self._root = _Root(model)
        if kind == "fsdp":
            from torch.distributed.device_mesh import init_device_mesh
            from torch.distributed.fsdp import fully_shard

            # a block's state may be a view; nobody writes into it
            warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view", category=UserWarning)
            mesh = init_device_mesh(device.type, (self.world,))
            for block in model.blocks:
                if compiled:  # the function alone: gathering and scattering happen in hooks around it
                    block.forward = torch.compile(block.forward, dynamic=False)
                fully_shard(block, mesh=mesh, reshard_after_forward=False)
            fully_shard(self._root, mesh=mesh, reshard_after_forward=False)
        elif compiled:
            for block in model.blocks:
                block.compile(dynamic=False)
        if compiled:
            _allow_programs()
        self._parameters = [p for p in model.parameters() if p.requires_grad]

    def run(self, compute: Callable[[TennsModel], T]) -> T:
        """Call a function that may use every part of the model; all processes must."""
        result: T = self._root(compute)
        return result

    def begin(self, is_last: bool) -> None:
        """Before a micro-batch: whether it is the step's last, after which gradients are exchanged."""
        if self.kind == "fsdp":
            root = cast("FSDPModule", self._root)
            root.set_requires_gradient_sync(is_last)
            root.set_reshard_after_backward(is_last)
            root.set_is_last_backward(is_last)

    @torch.no_grad()
    def average_gradients(self) -> None:
        """After the last micro-batch: every process holds the mean gradient (of its shards)."""
        if self.kind != "ddp":
            return
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        flat = torch.cat([g.flatten() for g in gradients])
        dist.all_reduce(flat)
        flat /= self.world
        for gradient, averaged in zip(gradients, torch.split(flat, [g.numel() for g in gradients]), strict=True):
            gradient.copy_(averaged.view_as(gradient))

    @torch.no_grad()
    def clip_gradients(self, limit: float) -> Tensor:
        """Scale all gradients so that their norm is at most ``limit``; returns the norm before, on the device."""
        gradients = [local(p.grad) for p in self._parameters if p.grad is not None]
        norm: Tensor = torch.linalg.vector_norm(torch.stack(list(torch._foreach_norm(gradients))))
        if self.kind == "fsdp":
            norm = summed(norm.square()).sqrt()
        torch._foreach_mul_(gradients, (limit / (norm + 1e-6)).clamp(max=1.0))
        return norm

    def reshard(self) -> None:
        """Drop gathered weights, so that the next use sees what the shards are now."""
        if self.kind == "fsdp":
            for module in (self._root, *self.model.blocks):
                cast("FSDPModule", module).reshard()
