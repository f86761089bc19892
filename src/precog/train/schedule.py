"""The learning rate over a run, as a factor on its peak."""

import math

from precog.train.settings import TrainSettings


def learning_rate_factor(settings: TrainSettings, step: int, progress: float) -> float:
    """Linear warm-up over steps, then the schedule down to ``final_lr_fraction``.

    ``cosine`` falls all the way (paper appendix E); ``wsd`` stays at the peak and falls linearly over the last
    ``decay_fraction`` of the run.

    Args:
        settings: of the run.
        step: optimiser steps done.
        progress: 0 at the beginning of the run, 1 at its end.
    """
    warm = min(1.0, (step + 1) / max(1, settings.warmup_steps))
    floor = settings.final_lr_fraction
    progress = min(1.0, progress)
    if settings.schedule == "wsd":
        height = min(1.0, (1 - progress) / settings.decay_fraction)
    else:
        height = 0.5 * (1 + math.cos(math.pi * progress))
    return warm * (floor + (1 - floor) * height)
