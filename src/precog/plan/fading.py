"""What is left of a token, of a deposit and of a norm: how fast things fade (sections 4.3 and 5.3, appendix B)."""

import math


def deposits_that_weigh(decay: float, least: float = 2.0**-24) -> int:
    """Deposits of a moving average whose weight, against that of the newest, is above ``least`` (ERRATA 14).

    The deposit that is n older than the newest weighs (1 − α)^n of it.
    """
    return math.ceil(math.log(least) / math.log1p(-decay))


def horizon_tokens(dt: float, rate: float, threshold: float) -> float:
    """Tokens until a coordinate with a steady step keeps ``threshold`` of what it held: exp(−Δ·rate)^τ = threshold."""
    return -math.log(threshold) / (dt * rate)


def norm_of_mean(count: int, similarity: float) -> float:
    """Norm of the mean of states of norm 1 whose cosines are ``similarity``: sqrt(Σw² + ρ(1 − Σw²)) (ERRATA 15)."""
    squares = 1 / count
    return math.sqrt(squares + similarity * (1 - squares))
