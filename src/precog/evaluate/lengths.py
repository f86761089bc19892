"""The bins of passage lengths that the paper's Table 8 has, in the model's own tokens."""

from bisect import bisect_right

__all__ = ["BINS", "EDGES", "bin_of", "bounds_of"]

EDGES = (100, 300, 600, 1200, 2400)
BINS = ("<100", "[100,300)", "[300,600)", "[600,1200)", "[1200,2400)", ">=2400")


def bin_of(num_tokens: int) -> str:
    """The bin of a passage of so many tokens."""
    return BINS[bisect_right(EDGES, num_tokens)]


def bounds_of(name: str, most: int) -> tuple[int, int]:
    """Lowest number of tokens in a bin, and the lowest above it; ``most`` for the last, which has no end of its own."""
    place = BINS.index(name)
    return (0, *EDGES)[place], (*EDGES, most)[place]
