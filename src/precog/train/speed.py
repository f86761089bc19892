"""How fast a run is: tokens and arithmetic per second, against what the device can do.

Model FLOPs are 6 · parameters without embeddings · tokens (forward 2, backward 4; Kaplan et al. 2020, Chowdhery et
al. 2022); MFU is that over the dense BF16 peak in the manufacturer's data sheet, so that padding, logits and whatever
is computed twice all count as losses.
"""

import time

import torch

from precog.backbones.tenns.model import TennsModel

PEAK_BF16_FLOPS_PER_SEC: tuple[tuple[str, float], ...] = (
    ("B200", 2250e12),
    ("H200", 989e12),
    ("H100 PCIe", 756e12),
    ("H100 NVL", 835e12),
    ("H100", 989e12),
    ("GH200", 989e12),
    ("A100", 312e12),
    ("A800", 312e12),
    ("L40S", 362e12),
    ("L4", 121e12),
    ("A10G", 70e12),
    ("A10", 125e12),
    ("A6000", 155e12),
    ("4090", 165e12),
    ("3090", 71e12),
)
"""Dense BF16 arithmetic with FP32 accumulation by a part of the device's name; the first that fits."""


def peak_flops_per_sec(device: torch.device) -> float | None:
    """Dense BF16 peak of a device; None for processors and cards that are not in the table."""
    if device.type != "cuda":
        return None
    name = torch.cuda.get_device_name(device)
    return next((peak for part, peak in PEAK_BF16_FLOPS_PER_SEC if part in name), None)


def body_parameters(model: TennsModel) -> int:
    """Parameters without embedding and output head; call it before weights are sharded."""
    tables = model.embedding.weight.numel() + (0 if model.head is None else model.head.weight.numel())
    return model.num_parameters() - tables


class Speed:
    """Counts tokens between two lines of metrics; ``peak_flops_per_sec`` is that of all processes together.

    Args:
        parameters: without embeddings.
        device: of this process.
        world: number of processes, each with such a device.
    """

    def __init__(self, parameters: int, device: torch.device, world: int) -> None:
        self._flops_per_token = 6 * parameters
        self._device = device
        peak = peak_flops_per_sec(device)
        self.peak_flops_per_sec = None if peak is None else peak * world
        self.restart()

    def restart(self) -> None:
        """Forget what was counted; the clock starts now."""
        self._began = time.monotonic()
        self._valid = self._padded = 0

    def add(self, valid: int, padded: int) -> None:
        """Count a step's tokens of all processes, without padding and with it."""
        self._valid += valid
        self._padded += padded

    def read(self) -> dict[str, int | float]:
        """Rates since the restart, and the most memory that was in use on this device."""
        seconds = max(time.monotonic() - self._began, 1e-9)
        flops_per_sec = self._flops_per_token * self._valid / seconds
        values: dict[str, int | float] = {
            "tokens_per_sec": round(self._valid / seconds),
            "padded_tokens_per_sec": round(self._padded / seconds),
            "flops_per_sec": float(f"{flops_per_sec:.4g}"),
        }
        if self.peak_flops_per_sec is not None:
            values["mfu"] = round(flops_per_sec / self.peak_flops_per_sec, 4)
        if self._device.type == "cuda":
            values["peak_memory_bytes"] = torch.cuda.max_memory_allocated(self._device)
        return values
