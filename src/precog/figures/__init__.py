"""Pictures from plain arrays: numbers in, one PNG or SVG file out; the only room that knows matplotlib."""

from precog.figures.canvas import check_target
from precog.figures.horizon import horizon
from precog.figures.loss import loss_curve
from precog.figures.memory_map import MapPanel, memory_map

__all__ = ["MapPanel", "check_target", "horizon", "loss_curve", "memory_map"]
