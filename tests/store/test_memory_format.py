"""The format of a memory, version 1, for ever: a kept memory, and the snippet of docs/format.md."""

import contextlib
import re
import shutil
import sqlite3
from pathlib import Path

import memories
import numpy as np
import pytest

from precog.store.memory import Emergent, MemoryStore, StoredPrototypes
from precog.store.memory.tables import MEMORY

GOLDEN = Path(__file__).parent / "golden" / "memory-v1"
DOCUMENT = Path(__file__).parents[2] / "docs" / "format.md"
CHECKSUM = "dae43512a30c206a1375796aaf837e3be7bbd0b03134478eea31e3d5d342fdf9"
ODD = {"text": "lone \ud800 and é", "speaker": "\udcff", "domain": "a\udcff", "details": {"ü": 1.5}}


def write_everything(path):
    """A bit of everything that a memory can hold."""
    with memories.create(path) as store:
        memories.fill(store, range(5))
        with store.batch() as batch:
            memories.add(batch, 5, time=None, place=None, **ODD)
            batch.put_semantic(memories.semantic_of(("spatial", "home"), 4))
            batch.put_prototypes(StoredPrototypes('{"keys": 1}', ((1, 3), ())))
            batch.put_emergent(Emergent("music", "social", (2, 3), True, {"seed": "violin"}))
            batch.supersede(1, 4, 1.8e9)
            batch.touch([4], 1.8e9)
        with store.batch() as batch:
            batch.drop_states(3, keep=[6])
            batch.delete_deposits([5])


@pytest.fixture
def golden(tmp_path):
    return Path(shutil.copytree(GOLDEN, tmp_path / "memory"))


@pytest.mark.parametrize("write", [False, True])
def test_a_memory_of_version_1_opens(golden, write):
    with MemoryStore.open(golden, write=write) as store:
        assert store.checksum() == CHECKSUM
        assert (store.layout, store.fingerprint) == (memories.LAYOUT, memories.FINGERPRINT)
        assert [d.info for d in store.deposits(ids=range(1, 5))] == [memories.info_of(seed) for seed in range(4)]
        assert list(store.complaints()) == []
        assert [store.states_of(number) for number in (1, 3, 5)] == [[2, 4], [6], []]
        np.testing.assert_array_equal(store.read_state(3).state, memories.parts_of(2, 6)["state"])


def test_todays_writer_writes_the_bytes_of_version_1(golden, tmp_path):
    assert len(MEMORY.migrations) == 1, "a new version needs a golden memory of its own beside this one"
    write_everything(tmp_path / "today")
    with MemoryStore.open(tmp_path / "today") as store:
        assert store.checksum() == CHECKSUM
    assert memories.segment_bytes(tmp_path / "today") == memories.segment_bytes(golden)
    assert (golden / "precog.json").read_bytes() == (tmp_path / "today/precog.json").read_bytes()


def test_the_documented_snippet_checks_a_memory_without_precog(golden):
    *_, snippet = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert len([line for line in snippet.splitlines() if line.strip()]) <= 40
    namespace = {}
    exec(snippet, namespace)
    path = golden / "000001/catalogue.sqlite"
    assert namespace["wrong_rows"](path) == []
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE deposits SET place = 'Bergen' WHERE id = 2")
        connection.execute("UPDATE keys SET num_windows = 9 WHERE deposit_id = 4")
        connection.execute("UPDATE states SET position = 1 WHERE id = 1")
        connection.execute("UPDATE semantic SET alpha = 0.2")
        connection.execute("UPDATE prototypes SET members = '[]'")
        connection.execute("UPDATE emergent SET promoted = 0")
        connection.commit()
    assert namespace["wrong_rows"](path) == [
        ("deposits", 2),
        ("keys", 4),
        ("states", 1),
        ("semantic", "spatial"),
        ("prototypes", 1),
        ("emergent", "music"),
    ]
