"""Which deposits are meant: what a condition may be."""

import pytest

from precog.errors import UsageError
from precog.memory.selection import Selection


@pytest.mark.parametrize("name", ["query", "speaker"])
@pytest.mark.parametrize("nothing", ["", "  "])
@pytest.mark.parametrize("rest", [{}, {"everything": True}, {"ids": (1,)}])
def test_an_empty_condition_is_refused_whatever_else_is_said(name: str, nothing: str, rest: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=f"--{name}"):
        Selection(**{name: nothing, **rest})


def test_all_is_said_alone() -> None:
    with pytest.raises(UsageError, match="what is to be forgotten"):
        Selection(everything=True, speaker="Ana")
    with pytest.raises(UsageError, match="what is to be forgotten"):
        Selection()
