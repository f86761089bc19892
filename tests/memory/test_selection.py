"""Which deposits are meant: what a condition may be."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from jaxtyping import Float32
from made_keys import CountingEncoder
from tiny_memory import MORNING, chunks, open_memory, said

from precog.backbones.tenns.backbone import TennsBackbone
from precog.errors import InputError, UsageError
from precog.memory.deposit import deposit
from precog.memory.opened import OpenMemory
from precog.memory.recall import Recaller
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


def test_times_are_in_order() -> None:
    noon = MORNING.replace(hour=12)
    for later in (MORNING, noon):
        with pytest.raises(UsageError, match="--after is not before --before"):
            Selection(after=later, before=MORNING)
    Selection(after=MORNING, before=noon)


FACTS = ["My sister Clara works as a nurse.", "Robert fixed the boiler.", "\u202eabc stands here.", "I own a red car."]


@pytest.fixture
def memory(tmp_path: Path, backbone: TennsBackbone) -> Iterator[OpenMemory]:
    with open_memory(tmp_path / "ana", backbone) as opened:
        deposit(opened, chunks(opened, said(*FACTS)))
        yield opened


class Far(CountingEncoder):
    """Sees no two texts as near: words alone tell."""

    def encode_query(self, text: str) -> Float32[np.ndarray, " E"]:
        key = super().encode_query(text)
        return np.asarray(0.1 * key, np.float32)


def meant(memory: OpenMemory, encoder: CountingEncoder, query: str) -> list[int]:
    return [entry.id for entry in Selection(query=query).find(memory.store, Recaller(memory.store, encoder))]


@pytest.mark.parametrize(
    ("query", "number"),
    [("sister Clara", 1), ("what Robert did to the boiler", 2), ("car", 4), ("boiler", 2)],
)
def test_shared_words_tell_what_is_meant(memory: OpenMemory, query: str, number: int) -> None:
    assert meant(memory, Far(), query) == [number]


@pytest.mark.parametrize("query", ["sister's husband Robert the plumber", "zzzzqqqq", "?", "what Ana said about work"])
def test_one_shared_word_or_none_forgets_nothing(memory: OpenMemory, query: str) -> None:
    with pytest.raises(InputError, match="nothing that is remembered says that"):
        meant(memory, Far(), query)


def test_signs_never_mean_anything_however_near(memory: OpenMemory) -> None:
    with pytest.raises(InputError, match="nothing that is remembered"):
        meant(memory, CountingEncoder(), "?!")


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        ({"speaker": "ana"}, "given: --speaker ana; expected: a speaker that there is: Ana$"),
        ({"after": MORNING.replace(year=2030)}, "given: --after 2030-05-04T09:00:00\\+00:00; see"),
        ({"ids": (1, 2), "speaker": "Bo"}, "given: --id 1, 2, --speaker Bo; expected"),
    ],
)
def test_what_fits_nothing_is_refused(memory: OpenMemory, conditions: dict[str, object], message: str) -> None:
    selection = Selection(**conditions)
    with pytest.raises(InputError, match=message):
        selection.find(memory.store, Recaller(memory.store, CountingEncoder()))


def test_all_of_nothing_is_nothing(tmp_path: Path, backbone: TennsBackbone) -> None:
    with open_memory(tmp_path / "bo", backbone) as empty:
        assert Selection(everything=True).find(empty.store, Recaller(empty.store, CountingEncoder())) == []
