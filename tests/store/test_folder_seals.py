"""What corpora and memories share: settings are sealed, segment files never cut below what is acknowledged."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import corpora
import memories
import pytest
from damage import change

from precog.errors import DamagedCorpusError
from precog.store import CorpusStore
from precog.store.memory import MemoryStore

SETTINGS = ("settings", "layout", "fingerprint", "key_dim", "max_segment_bytes", "id")


@dataclass(frozen=True)
class Kind:
    """A kind of folder, and how one is filled."""

    name: str
    store: type[CorpusStore] | type[MemoryStore]
    create: Callable[[Path], CorpusStore | MemoryStore]
    fill: Callable[..., object]
    add: Callable[..., object]


def add_document(store: CorpusStore, seed: int) -> None:
    with store.batch() as batch:
        corpora.add_document(batch, f"more{seed}.txt", [1000 + seed])


CORPUS = Kind("corpus", CorpusStore, corpora.create, lambda store: corpora.fill(store, 3), add_document)
MEMORY = Kind(
    "memory",
    MemoryStore,
    memories.create,
    lambda store: memories.fill(store, range(6)),
    lambda store, seed: memories.fill(store, [seed]),
)


@pytest.fixture(params=[CORPUS, MEMORY], ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    return request.param


@pytest.fixture
def path(tmp_path: Path, kind: Kind) -> Path:
    with kind.create(tmp_path / kind.name) as store:
        kind.fill(store)
    return tmp_path / kind.name


@pytest.mark.parametrize("key", SETTINGS)
@pytest.mark.parametrize("write", [False, True])
def test_a_flipped_digit_in_a_setting_is_damage(path: Path, kind: Kind, key: str, write: bool) -> None:
    key = f"{kind.name}_id" if key == "id" else key
    change(path, f"UPDATE meta SET value = replace(replace(value, '1', '3'), '4', '5') WHERE key = '{key}'")
    change(path, f"UPDATE meta SET value = replace(value, '0', '2') WHERE key = '{key}'")
    with pytest.raises(DamagedCorpusError, match=f"the settings of the {kind.name} are not what was written"):
        kind.store.open(path, write=write)


def test_settings_that_were_written_before_there_was_a_seal_are_sealed_by_the_next_writer(
    path: Path, kind: Kind
) -> None:
    change(path, "DELETE FROM meta WHERE key = 'seal'")
    for write in (False, True):
        kind.store.open(path, write=write).close()
    change(path, "UPDATE meta SET value = '9' WHERE key = 'key_dim'")
    with pytest.raises(DamagedCorpusError, match=f"the settings of the {kind.name} are not what was written"):
        kind.store.open(path)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE segments SET num_records = num_records - 1",
        "UPDATE segments SET num_records = 0",
        "UPDATE segments SET num_records = -1",
        "DELETE FROM segments",
        "DELETE FROM segments WHERE number = 0",
    ],
)
def test_a_segment_is_never_cut_below_a_state_that_is_acknowledged(path: Path, kind: Kind, statement: str) -> None:
    before = memories.segment_bytes(path)
    change(path, statement)
    with pytest.raises(DamagedCorpusError, match=r"the count of segment 00000\d is not what was written.*reindex"):
        kind.store.open(path, write=True)
    assert memories.segment_bytes(path) == before
    kind.store.open(path, write=True, allow_damaged=True).close()
    assert memories.segment_bytes(path) == before


def test_a_number_of_a_segment_that_is_there_is_not_used_again(path: Path, kind: Kind) -> None:
    change(path, "UPDATE meta SET value = '0' WHERE key = 'next_segment'")
    before = memories.segment_bytes(path)
    with kind.store.open(path, write=True) as store:
        for seed in range(40, 52):
            kind.add(store, seed)
    after = memories.segment_bytes(path)
    assert all(after[name].startswith(data) for name, data in before.items())
    assert len(after) > len(before)
