"""Theorem 1 of the paper in numbers: what is exact, how rounding grows, and where the identity fails."""

from precog.evaluate.theorem.experiment import QUICK, Theorem, TheoremSettings

__all__ = ["QUICK", "Theorem", "TheoremSettings"]
