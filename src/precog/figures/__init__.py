"""Pictures from plain arrays: numbers in, one PNG or SVG file out; the only room that knows matplotlib."""

from precog.figures.canvas import check_target
from precog.figures.horizon import horizon
from precog.figures.loss import loss_curve

__all__ = ["check_target", "horizon", "loss_curve"]
