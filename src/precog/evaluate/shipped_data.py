"""The small samples of SQuAD, HotpotQA and Natural Questions that come with the package: data/SOURCES.md.

They let every experiment run where no data set lies at hand, and are far too few to measure a model by.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path

from precog.errors import InputError

__all__ = ["SHIPPED", "shipped_data"]

SHIPPED = ("squad", "hotpot", "natural_questions")


@contextmanager
def shipped_data(name: str) -> Iterator[Path]:
    """The file of one of the samples in `SHIPPED`, for as long as the context lasts.

    Raises:
        InputError: there is no such sample, or the installation lacks it.
    """
    if name not in SHIPPED:
        raise InputError("no such sample of a data set", given=name, expected=", ".join(SHIPPED))
    with resources.as_file(resources.files("precog.evaluate") / "data" / f"{name}.jsonl.gz") as path:
        if not path.exists():
            raise InputError("a sample of a data set is missing", given=path, hint="install precog-ssm again")
        yield path
