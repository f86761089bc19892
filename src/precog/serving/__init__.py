"""One model for many askers: their passes go through it together, and each is told its own part."""

from precog.serving.counts import SchedulerCounts
from precog.serving.scheduler import Scheduler

__all__ = ["Scheduler", "SchedulerCounts"]
