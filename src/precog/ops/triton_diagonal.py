"""The fused selective scan as operations of torch: which tiles a shape gets, launches, gradients.

The kernels are opaque to a compiler: a block that is compiled has no break here.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from precog.errors import UsageError
from precog.ops.launching import on_own_device
from precog.ops.triton_diagonal_chain import backward_chain, forward_chain
from precog.ops.triton_diagonal_kernels import backward_kernel, forward_kernel

DTYPES = (torch.bfloat16, torch.float16, torch.float32)


@dataclass(frozen=True)
class Tile:
    """How one direction is cut up.

    Attributes:
        modes: complex modes of a program (BM); two a thread read four bytes at once, so modes · chunks is best
            64 · warps.
        chunks: of a tile (C), each in a thread of its own.
        steps: tokens of a chunk (L), in a thread's registers.
        warps: of a program.
        ahead: whether the next tile is read into registers before this one is computed; without, reading overlaps
            only with other programs of the same processor.
        again: whether the backward pass reads its inputs a second time, from cache, rather than keep them in registers.
        chain: whether every tile has a program of its own, which waits for its neighbour's state; otherwise one program
            walks through all of them.
    """

    modes: int
    chunks: int
    steps: int
    warps: int
    ahead: bool = False
    again: bool = False
    chain: bool = False

    @property
    def tokens(self) -> int:
        """Of a tile."""
        return self.chunks * self.steps


@dataclass(frozen=True)
class Tiles:
    """The tiles of both directions; the forward pass saves a state for every tile of the backward one."""

    forward: Tile
    backward: Tile

    def __post_init__(self) -> None:
        if self.backward.tokens % self.forward.steps:
            raise UsageError(
                "selective scan: a backward tile must start where a forward chunk starts",
                given=f"{self.backward.tokens} tokens, chunks of {self.forward.steps}",
            )


_TABLE = (  # first row whose number of programs of 32 modes is reached; the last fits all
    (264, Tiles(Tile(32, 8, 8, 4, ahead=True), Tile(32, 8, 8, 4))),
    (0, Tiles(Tile(16, 32, 8, 8, ahead=True), Tile(16, 32, 8, 8, ahead=True, again=True))),
)


def tiles_for(rows: int, modes: int, modes_per_group: int) -> Tiles:
    """The tiles for a shape: wide ones when rows fill the card, narrow and long ones when they do not."""
    programs = rows * -(-modes // 32)
    tiles = next(tiles for least, tiles in _TABLE if programs >= least)
    return tiles if modes_per_group <= min(tiles.forward.modes, tiles.backward.modes) else _TABLE[0][1]


def is_supported(v: Tensor, dt: Tensor, real: Tensor) -> bool:
    """Whether the kernels know these dtypes and this number of modes a group."""
    per_group = real.shape[0] // max(1, dt.shape[-1])
    power = per_group in (1, 2, 4, 8, 16, 32) and per_group * dt.shape[-1] == real.shape[0]
    return power and v.dtype in DTYPES and dt.dtype == torch.float32


def _is_even(length: int, modes: int, tile: Tile) -> bool:
    """Whether tiles cover the tokens and modes exactly, so that nothing needs a mask."""
    return length > 0 and length % tile.tokens == 0 and modes % tile.modes == 0


def _unwritten(rows: int, length: int, reals: int, tile: Tile, device: torch.device) -> Tensor:
    """Where neighbours leave their states: NaNs that no arithmetic makes."""
    return torch.full((rows, max(1, -(-length // tile.tokens)), reals), -1, dtype=torch.int32, device=device)


def _bytes(resets: Tensor | None) -> Tensor | None:
    return None if resets is None else resets.contiguous().view(torch.uint8)


def launch_forward(
    v: Tensor,
    beta: Tensor,
    dt: Tensor,
    real: Tensor,
    omega: Tensor | None,
    initial: Tensor | None,
    resets: Tensor | None,
    tiles: Tiles,
) -> tuple[Tensor, Tensor, Tensor]:
    """States [B, T, N] in the dtype of v, the final state and the one that enters each backward tile, FP32."""
    rows, length, reals = v.shape
    modes, tile, save = reals // 2, tiles.forward, tiles.backward.tokens
    states = torch.empty(v.shape, dtype=v.dtype, device=v.device)
    final = torch.empty((rows, reals), dtype=torch.float32, device=v.device)
    entering = torch.empty((rows, -(-length // save), reals), dtype=torch.float32, device=v.device)
    pointers = (
        v.contiguous(),
        beta.contiguous(),
        dt.contiguous(),
        real.contiguous(),
        None if omega is None else omega.contiguous(),
        None if initial is None else initial.contiguous(),
        _bytes(resets),
        states,
        final,
        entering,
    )
    blocks = rows * -(-modes // tile.modes)
    constants = {
        "M": modes,
        "MPG": modes // dt.shape[-1],
        "BM": tile.modes,
        "C": tile.chunks,
        "L": tile.steps,
        "SAVE": save,
        "COMPLEX": omega is not None,
        "INITIAL": initial is not None,
        "RESETS": resets is not None,
        "EVEN": _is_even(length, modes, tile),
        "num_warps": tile.warps,
    }
    if rows and tile.chain:
        chain = _unwritten(rows, length, reals, tile, v.device)
        forward_chain[(blocks * chain.shape[1],)](*pointers, chain, length, rows, **constants)
    elif rows:
        forward_kernel[(blocks,)](*pointers, length, AHEAD=tile.ahead, **constants)
    return states, final, entering


def launch_backward(
    v: Tensor,
    beta: Tensor,
    dt: Tensor,
    real: Tensor,
    omega: Tensor | None,
    resets: Tensor | None,
    entering: Tensor,
    d_states: Tensor,
    d_final: Tensor,
    tiles: Tiles,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of v, β, Δ, Re λ, Im λ (empty without rotation) and the initial state."""
    rows, length, reals = v.shape
    modes, tile = reals // 2, tiles.backward

    def made(*shape: int) -> Tensor:
        return torch.empty(shape, dtype=torch.float32, device=v.device)

    d_v = torch.empty(v.shape, dtype=v.dtype, device=v.device)
    d_beta = torch.empty(v.shape, dtype=v.dtype, device=v.device)
    parts = rows * max(1, -(-length // tile.tokens)) if tile.chain else rows
    d_dt, d_real, d_initial = made(*dt.shape), made(parts, modes), made(rows, reals)
    d_omega = made(parts, modes) if omega is not None else made(0)
    pointers = (
        v.contiguous(),
        beta.contiguous(),
        dt.contiguous(),
        real.contiguous(),
        None if omega is None else omega.contiguous(),
        _bytes(resets),
        entering,
        d_states.contiguous(),
        d_final.contiguous(),
        d_v,
        d_beta,
        d_dt,
        d_real,
        d_omega,
        d_initial,
    )
    blocks = rows * -(-modes // tile.modes)
    constants = {
        "M": modes,
        "MPG": modes // dt.shape[-1],
        "BM": tile.modes,
        "C": tile.chunks,
        "L": tile.steps,
        "COMPLEX": omega is not None,
        "RESETS": resets is not None,
        "EVEN": _is_even(length, modes, tile),
        "AGAIN": tile.again,
        "num_warps": tile.warps,
    }
    if rows and tile.chain:
        chain = _unwritten(rows, length, reals, tile, v.device)
        backward_chain[(blocks * chain.shape[1],)](*pointers, chain, length, rows, **constants)
    elif rows:
        backward_kernel[(blocks,)](*pointers, length, AHEAD=tile.ahead, **constants)
    return d_v, d_beta, d_dt, d_real.sum(0), d_omega if omega is None else d_omega.sum(0), d_initial


def _tiles_of(v: Tensor, dt: Tensor) -> Tiles:
    modes = v.shape[2] // 2
    return tiles_for(v.shape[0], modes, modes // dt.shape[2])


@on_own_device
def launch_scan(
    v: Tensor,
    beta: Tensor,
    dt: Tensor,
    real: Tensor,
    omega: Tensor | None,
    initial: Tensor | None,
    resets: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """States, the final one, and what the backward pass starts from, in tiles of the size that suits."""
    return launch_forward(v, beta, dt, real, omega, initial, resets, _tiles_of(v, dt))


# the same as one operation that a compiler does not look into
selective_scan_op = torch.library.custom_op("precog::selective_scan", launch_scan, mutates_args=())


@selective_scan_op.register_fake
def _(
    v: Tensor,
    beta: Tensor,
    dt: Tensor,
    real: Tensor,
    omega: Tensor | None,
    initial: Tensor | None,
    resets: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    rows, length, reals = v.shape
    slots = -(-length // _tiles_of(v, dt).backward.tokens)
    return v.new_empty(v.shape), dt.new_empty((rows, reals)), dt.new_empty((rows, slots, reals))


@torch.library.custom_op("precog::selective_scan_backward", mutates_args=())
def selective_scan_backward_op(
    v: Tensor,
    beta: Tensor,
    dt: Tensor,
    real: Tensor,
    omega: Tensor | None,
    resets: Tensor | None,
    entering: Tensor,
    d_states: Tensor,
    d_final: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The backward kernel as one operation that a compiler does not look into."""
    return launch_backward(v, beta, dt, real, omega, resets, entering, d_states, d_final, _tiles_of(v, dt))


@selective_scan_backward_op.register_fake
def _(
    v: Tensor,
    beta: Tensor,
    dt: Tensor,
    real: Tensor,
    omega: Tensor | None,
    resets: Tensor | None,
    entering: Tensor,
    d_states: Tensor,
    d_final: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    return (
        v.new_empty(v.shape),
        v.new_empty(v.shape),
        dt.new_empty(dt.shape),
        real.new_empty(real.shape),
        real.new_empty((0,) if omega is None else real.shape),
        d_final.new_empty(d_final.shape),
    )


def _save(ctx: Any, inputs: tuple[Tensor | None, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    v, beta, dt, real, omega, initial, resets = inputs
    ctx.save_for_backward(v, beta, dt, real, omega, resets, output[2])
    ctx.has_initial = initial is not None


def _differentiate(ctx: Any, d_states: Tensor, d_final: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    v, beta, dt, real, omega, resets, entering = ctx.saved_tensors
    d_v, d_beta, d_dt, d_real, d_omega, d_initial = selective_scan_backward_op(
        v, beta, dt, real, omega, resets, entering, d_states, d_final
    )
    return (
        d_v,
        d_beta,
        d_dt,
        d_real,
        None if omega is None else d_omega,
        d_initial if ctx.has_initial else None,
        None,
    )


selective_scan_op.register_autograd(_differentiate, setup_context=_save)
