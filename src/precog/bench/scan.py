"""How close the fused selective scan comes to copying its inputs and outputs once, and how far ahead of torch it is."""

import importlib
import importlib.util
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from precog.bench.harness import Side, interleave
from precog.bench.machine import Machine
from precog.bench.result import Ratio, Result, Value
from precog.bench.sizes import check_sizes
from precog.errors import UsageError
from precog.ops.selective import FUSED, torch_selective_scan

if FUSED:
    from precog.ops.triton_diagonal import Tile, Tiles, launch_backward, launch_forward, tiles_for

SHARE_OF_COPY = 0.8


@dataclass(frozen=True)
class ScanSettings:
    """Sizes of the measurement.

    Attributes:
        shapes: rows and tokens.
        modes: complex modes; two reals of state each.
        modes_per_group: that share one Δ.
        launches: of a kernel in a row, timed together.
        repeats: rounds that count.
        warm_up: rounds that do not.
    """

    shapes: tuple[tuple[int, int], ...] = ((8, 2048), (1, 8192))
    modes: int = 2048
    modes_per_group: int = 8
    launches: int = 20
    repeats: int = 7
    warm_up: int = 2

    def __post_init__(self) -> None:
        sizes = {"modes": self.modes, "modes_per_group": self.modes_per_group, "launches": self.launches}
        smallest = min((size for shape in self.shapes for size in shape), default=0)
        check_sizes("scan", {"shapes": smallest, **sizes, "repeats": self.repeats})


QUICK = ScanSettings(shapes=((2, 256), (1, 512)), modes=256, launches=2, repeats=2, warm_up=1)


@dataclass(frozen=True)
class _Inputs:
    v: Tensor
    beta: Tensor
    dt: Tensor
    real: Tensor
    omega: Tensor | None
    d_states: Tensor
    d_final: Tensor

    @property
    def forward_bytes(self) -> int:
        """v, β and Δ read, states written."""
        return 3 * _bytes(self.v) + _bytes(self.dt)

    @property
    def backward_bytes(self) -> int:
        """v, β, Δ and the states' gradient read, three gradients written."""
        return 5 * _bytes(self.v) + 2 * _bytes(self.dt)


def bench_scan(
    settings: ScanSettings | None = None,
    *,
    other_tiles: bool = False,
    quick: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Result:
    """Measures both directions in BF16, with modes that rotate (πk) and modes that do not.

    Args:
        settings: sizes.
        other_tiles: also time tiles that the table does not choose.
        quick: whether the sizes are tiny.
        say: told what is being measured.

    Raises:
        UsageError: there is no CUDA device, or torch came without Triton.
    """
    if not (FUSED and torch.cuda.is_available()):
        raise UsageError("bench scan needs a CUDA device and Triton", hint="elsewhere the scan runs in torch")
    settings = settings or ScanSettings()
    device = torch.device("cuda")
    machine = Machine.here()
    say("the machine's limits")
    copy = _copy_bytes_per_sec(settings, device)
    rows: list[Value] = []
    tried: list[Value] = []
    ratios: dict[str, Ratio] = {}
    for shape in settings.shapes:
        for rotating in (True, False):
            say(f"{shape[0]} rows of {shape[1]} tokens, {'rotating' if rotating else 'real'} modes")
            inputs = _inputs(settings, shape, rotating, device)
            tiles = tiles_for(shape[0], settings.modes, settings.modes_per_group)
            sides = {**_kernels(inputs, tiles), **_torch(inputs)}
            if rotating:
                sides |= _peers(settings, shape, device)
            row = _measured(settings, sides)
            for direction, size in (("forward", inputs.forward_bytes), ("backward", inputs.backward_bytes)):
                speed = size / row[f"{direction}_sec"]
                ratios[f"{direction}_{shape[0]}x{shape[1]}_{'pi' if rotating else 'zero'}"] = Ratio(
                    speed / copy, SHARE_OF_COPY, at_most=False, meaning="(inputs + outputs, once) / time, over copying"
                )
                row[f"{direction}_bytes_per_sec"] = speed
            row["torch_over_fused"] = row["torch_sec"] / (row["forward_sec"] + row["backward_sec"])
            rows.append({"rows": shape[0], "tokens": shape[1], "frequencies": "pi" if rotating else "zero", **row})
            for candidate in _CANDIDATES if other_tiles and FUSED else ():
                found = _measured(settings, _kernels(inputs, candidate))
                tried.append(
                    {
                        "rows": shape[0],
                        "tokens": shape[1],
                        "frequencies": "pi" if rotating else "zero",
                        "forward_tile": _name(candidate.forward),
                        "forward_of_copy": inputs.forward_bytes / found["forward_sec"] / copy,
                        "backward_tile": _name(candidate.backward),
                        "backward_of_copy": inputs.backward_bytes / found["backward_sec"] / copy,
                    }
                )
    return Result(
        name="scan",
        values={"modes": settings.modes, "scan": rows, **({"tiles": tried} if tried else {})},
        ratios=ratios,
        ceiling={"copy_bytes_per_sec": copy},
        machine=machine,
        warm_up=settings.warm_up,
        repeats=settings.repeats,
        quick=quick,
        notes=(
            "torch_sec, mamba_ssm_sec, fla_sec: forward and backward of our scan in torch, of mamba_ssm's selective "
            "scan and of fla's HGRN scan with a state of as many reals; missing where they are not installed",
        ),
    )


def _copy_bytes_per_sec(settings: ScanSettings, device: torch.device) -> float:
    """Of as many bytes as the largest measurement moves, timed like the kernels; read and written both counted."""
    reals = max(rows * length for rows, length in settings.shapes) * 2 * settings.modes
    source = torch.ones(3 * reals, dtype=torch.bfloat16, device=device)
    target = torch.empty_like(source)
    side = _side("copy", lambda: target.copy_(source), settings)
    rounds = interleave([side], repeats=settings.repeats, warm_up=settings.warm_up)
    return 2 * _bytes(source) / rounds["copy"].median


def _inputs(settings: ScanSettings, shape: tuple[int, int], rotating: bool, device: torch.device) -> _Inputs:
    rows, length = shape
    generator = torch.Generator(device).manual_seed(0)
    groups = settings.modes // settings.modes_per_group

    def draw(*sizes: int) -> Tensor:
        return torch.randn(*sizes, generator=generator, device=device)

    wide = (rows, length, 2 * settings.modes)
    dt = torch.rand(rows, length, groups, generator=generator, device=device)
    omega = math.pi * torch.arange(settings.modes_per_group, device=device, dtype=torch.float32).repeat(groups)
    return _Inputs(
        v=draw(*wide).bfloat16(),
        beta=draw(*wide).bfloat16(),
        dt=(dt * 4.6 - 6.9).exp(),  # 1e-3 to 0.1
        real=-draw(settings.modes).exp(),
        omega=omega if rotating else None,
        d_states=draw(*wide).bfloat16(),
        d_final=draw(rows, 2 * settings.modes),
    )


def _kernels(inputs: _Inputs, tiles: "Tiles") -> dict[str, Callable[[], object]]:
    x = inputs
    entering = launch_forward(x.v, x.beta, x.dt, x.real, x.omega, None, None, tiles)[2]
    return {
        "forward": lambda: launch_forward(x.v, x.beta, x.dt, x.real, x.omega, None, None, tiles),
        "backward": lambda: launch_backward(
            x.v, x.beta, x.dt, x.real, x.omega, None, entering, x.d_states, x.d_final, tiles
        ),
    }


def _torch(inputs: _Inputs) -> dict[str, Callable[[], object]]:
    leaves = [x.requires_grad_() for x in (inputs.v, inputs.beta, inputs.dt, inputs.real)]

    def run() -> object:
        states, final = torch_selective_scan(leaves[0], leaves[1], leaves[2], leaves[3], inputs.omega)
        return torch.autograd.grad((states, final), leaves, (inputs.d_states, inputs.d_final))

    return {"torch": run}


def _peers(settings: ScanSettings, shape: tuple[int, int], device: torch.device) -> dict[str, Callable[[], object]]:
    """Scans of others with a state of 2M reals, where they are installed."""
    rows, length = shape
    reals = 2 * settings.modes
    found: dict[str, Callable[[], object]] = {}

    def leaf(*sizes: int) -> Tensor:
        return torch.rand(*sizes, device=device).bfloat16().requires_grad_()

    if importlib.util.find_spec("mamba_ssm") is not None:
        scan = importlib.import_module("mamba_ssm.ops.selective_scan_interface").selective_scan_fn
        width, state = reals // 16, 16
        u, delta = leaf(rows, width, length), leaf(rows, width, length)
        b, c = leaf(rows, state, length), leaf(rows, state, length)
        a = (-torch.rand(width, state, device=device)).requires_grad_()
        found["mamba_ssm"] = lambda: torch.autograd.grad(scan(u, delta, a, b, c).sum(), (u, delta, a, b, c))
    if importlib.util.find_spec("fla") is not None:
        hgrn = importlib.import_module("fla.ops.hgrn").chunk_hgrn
        x, gate = leaf(rows, length, reals), leaf(rows, length, reals)
        found["fla"] = lambda: torch.autograd.grad(hgrn(x, -gate)[0].sum(), (x, gate))
    return found


def _measured(settings: ScanSettings, sides: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    slow = replace(settings, launches=1)
    clocked = [_side(name, run, settings if name in ("forward", "backward") else slow) for name, run in sides.items()]
    rounds = interleave(clocked, repeats=settings.repeats, warm_up=settings.warm_up)
    return {f"{name}_sec": rounds[name].median for name in sides}


def _side(name: str, run: Callable[[], object], settings: ScanSettings) -> Side:
    """Time on the device alone: events around launches that are queued faster than they end."""

    def side(_: int) -> dict[str, float]:
        begin = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]  # torch leaves events untyped
        end = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        begin.record()
        for _ in range(settings.launches):
            run()
        end.record()
        end.synchronize()
        return {name: begin.elapsed_time(end) / 1e3 / settings.launches}

    return side


def _bytes(x: Tensor) -> int:
    return x.numel() * x.element_size()


def _name(tile: "Tile") -> str:
    flags = ("+ahead" if tile.ahead else "") + ("+again" if tile.again else "") + ("+chain" if tile.chain else "")
    return f"{tile.modes}·{tile.chunks}·{tile.steps}·{tile.warps}{flags}"


if FUSED:
    _CANDIDATES = (
        Tiles(Tile(32, 8, 8, 4, ahead=True), Tile(32, 8, 8, 4)),
        Tiles(Tile(16, 32, 8, 8, ahead=True), Tile(16, 32, 8, 8, ahead=True, again=True)),
        Tiles(Tile(32, 8, 8, 4, chain=True), Tile(32, 8, 8, 4, again=True, chain=True)),
        Tiles(Tile(64, 8, 8, 8, chain=True), Tile(64, 8, 8, 8, again=True, chain=True)),
        Tiles(Tile(16, 32, 8, 8, chain=True), Tile(32, 16, 8, 8, again=True, chain=True)),
    )
