"""Sizes of measurements: which of them is out of range, by the name that a person gave it by."""

from collections.abc import Mapping

from precog.errors import UsageError


def check_sizes(bench: str, sizes: Mapping[str, int], least: int = 1) -> None:
    """Whether sizes are large enough.

    Args:
        bench: name of the measurement.
        sizes: by option, or by name where no option sets them; the smallest of several, and 0 for none.
        least: none is smaller.

    Raises:
        UsageError: one is too small.
    """
    for name, size in sizes.items():
        if size < least:
            raise UsageError(f"bench {bench}: {name} is out of range", given=size, expected=f"at least {least}")
