"""What an operation costs on this machine, and which of several ways to the same answer is the quickest."""

from precog.plan.planner import WAYS, Need, Plan, choose
from precog.plan.speed import ReadSpeed, Speed

__all__ = ["WAYS", "Need", "Plan", "ReadSpeed", "Speed", "choose"]
