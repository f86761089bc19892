"""A memory that is damaged in one place goes on serving the rest, and what can be made anew from the texts is."""

import contextlib
import os
import sqlite3
from pathlib import Path

import pytest
from tiny_memory import check_consistent, chunks, everything, open_memory, said, semantic

from precog.backbones.tenns.backbone import TennsBackbone
from precog.errors import DamagedCorpusError
from precog.memory.archive import export, read_archive
from precog.memory.damage import damage_of
from precog.memory.deposit import deposit
from precog.memory.forget import forget
from precog.memory.opened import OpenMemory
from precog.memory.recall import Recaller, refresh_index
from precog.memory.refit import use_seeds
from precog.memory.selection import Selection
from precog.store.memory import MemoryStore

TEXTS = [
    "Max chased a squirrel through the park and came home muddy.",
    "The violin lesson moved to Thursday because of the concert.",
    "Grandmother's recipe for plum cake needs two hours in the oven.",
    "I paid the rent for the flat in Bergen on the first of May.",
    "The grey umbrella was left standing beside the old harbour wall.",
]


@pytest.fixture
def folder(tmp_path: Path, backbone: TennsBackbone) -> Path:
    return fill(tmp_path / "m", backbone, TEXTS)


def fill(folder: Path, backbone: TennsBackbone, texts: list[str]) -> Path:
    with open_memory(folder, backbone) as memory:
        deposit(memory, chunks(memory, said(*texts)))
        refresh_index(memory.store, memory.settings.encoder_fingerprint)
    return folder


def change(folder: Path, *statements: str) -> None:
    with contextlib.closing(sqlite3.connect(folder / "000001/catalogue.sqlite")) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def reopened(folder: Path, backbone: TennsBackbone, **options: bool) -> OpenMemory:
    """Open to write, whatever is damaged, as the commands open it."""
    from made_keys import CountingEncoder

    from precog.memory.made_with import settings_of

    store = MemoryStore.open(folder, write=True, allow_damaged=True)
    try:
        return OpenMemory(store, settings_of(store), backbone, CountingEncoder(), **options)
    except BaseException:
        store.close()
        raise


def chosen(memory: OpenMemory, number: int) -> tuple[list, list[int]]:
    selection = Selection(ids=(number,))
    return selection.find(memory.store, Recaller(memory.store, memory.encoder)), selection.damaged(memory.store)


@pytest.mark.parametrize(
    "changed", ["text = 'M' || substr(text, 2) || '!'", "text = CAST(x'4dff' AS TEXT)", "domain = 'x'"]
)
def test_a_damaged_deposit_is_left_out_and_forgotten_like_any_other(folder, backbone, tmp_path, changed: str):
    change(folder, f"UPDATE deposits SET {changed} WHERE id = 1", "UPDATE deposits SET num_states = 0 WHERE id = 1")
    with reopened(folder, backbone) as memory:
        recalled = Recaller(memory.store, memory.encoder).recall("Where did Max chase a squirrel?", 9)
        assert {entry.deposit.id for entry in recalled.evidence} == {2, 3, 4, 5}
        assert recalled.damage.deposits == damage_of(memory.store).deposits == (1,)
        found, damaged = chosen(memory, 1)
        assert (found, damaged) == ([], [1])
        report = forget(memory, found, damaged=damaged, proof=True)
        assert (report.ids, report.hits, report.is_complete) == ((1,), 0, True)
        assert report.searched_for > 10
        assert list(memory.store.complaints()) == []
        check_consistent(memory)
        left = everything(memory)
    with open_memory(fill(tmp_path / "never", backbone, []), backbone) as memory:
        deposit(memory, chunks(memory, said(*TEXTS))[1:])
        assert everything(memory) == left


def test_what_another_says_is_found_beside_a_damaged_deposit_in_an_index_made_anew(folder, backbone):
    change(
        folder, "UPDATE deposits SET text = 'x' WHERE id = 1", "UPDATE keys SET vectors = x'00' WHERE deposit_id = 2"
    )
    for name in ("dense.index", "lexical.index"):
        (folder / "000001" / name).unlink()
    with reopened(folder, backbone) as memory:
        recalled = Recaller(memory.store, memory.encoder).recall("When is the violin lesson?", 9)
        assert (recalled.damage.deposits, recalled.damage.keys) == ((1,), (2,))
        assert {entry.deposit.id for entry in recalled.evidence} == {2, 3, 4, 5}
        assert "memory reindex" in " ".join(recalled.damage.lines)


def test_saying_again_what_a_damaged_deposit_said_is_not_taken_for_remembered(folder, backbone):
    change(folder, "UPDATE deposits SET text = 'x' WHERE id = 1")
    with reopened(folder, backbone) as memory:
        with pytest.raises(DamagedCorpusError, match=r"deposit 1 .*memory forget"):
            deposit(memory, chunks(memory, said(TEXTS[0])))
        forget(memory, [], damaged=[1], proof=False)
        assert deposit(memory, chunks(memory, said(TEXTS[0]))).ids == (6,)


def test_an_archive_without_a_damaged_deposit_can_be_read(folder, backbone, tmp_path):
    with reopened(folder, backbone) as memory, memory.store.batch() as batch:
        batch.supersede(2, 1, 1.8e9)
    change(folder, "UPDATE deposits SET text = 'x' WHERE id = 1")
    with MemoryStore.open(folder) as store:
        count, damage = export(store, tmp_path / "a.jsonl")
    assert (count, damage.deposits) == (4, (1,))
    assert [(entry.id, entry.superseded_by) for entry in read_archive(tmp_path / "a.jsonl")] == [
        (number, None) for number in (2, 3, 4, 5)
    ]


def test_damaged_prototypes_of_a_small_memory_are_those_of_the_seeds_again(folder, backbone):
    with reopened(folder, backbone) as memory:
        right = everything(memory)
    change(folder, "UPDATE prototypes SET text = text || ' '")
    with pytest.raises(DamagedCorpusError, match="memory fit --seeds"):
        reopened(folder, backbone)
    with reopened(folder, backbone, keeps_prototypes=False) as memory:
        report = use_seeds(memory)
        assert (report.num_fitted, report.num_moved) == (0, 0)
    with reopened(folder, backbone) as memory:
        check_consistent(memory)
        assert everything(memory) == right


def spoil(folder: Path, damage: str) -> None:
    file = folder / "000001/segments/000000.seg"
    data = bytearray(file.read_bytes())
    if damage == "missing":
        file.unlink()
    elif damage == "no folder":
        file.unlink()
        file.parent.rmdir()
    elif damage == "short":
        os.truncate(file, len(data) - len(data) // 3)
    elif damage in ("header", "a bit of the header"):
        data[:64] = bytes(64) if damage == "header" else bytes([data[0] ^ 1, *data[1:64]])
        file.write_bytes(data)
    else:
        data[-len(data) // 3] ^= 1
        file.write_bytes(data)


@pytest.mark.parametrize("damage", ["missing", "no folder", "short", "header", "a bit of the header", "bit"])
def test_texts_stand_in_for_states_that_are_gone(folder, backbone, tmp_path, damage: str):
    spoil(folder, damage)
    with reopened(folder, backbone) as memory:
        assert bool(memory.damage) == (damage in ("missing", "no folder", "short", "header"))
        report = forget(memory, *[chosen(memory, 4)[0]], proof=True)
        assert (report.ids, report.index_left) == ((4,), ())
        # what cannot be told from a file of others is not overwritten, and said to be left
        assert bool(report.hits) == bool(report.unerased) == (damage == "header") != report.is_complete
        deposit(memory, chunks(memory, said("The spare key hangs behind the clock.")))
        check_semantic = semantic(memory)
        new = memory.store.read_state(6)
        assert new is not None
    with open_memory(fill(tmp_path / "whole", backbone, []), backbone) as memory:
        deposit(memory, [chunk for n, chunk in enumerate(chunks(memory, said(*TEXTS))) if n != 3])
        deposit(memory, chunks(memory, said("The spare key hangs behind the clock.")))
        assert semantic(memory) == check_semantic
    with reopened(folder, backbone) as memory:  # what was written since can be read by whoever comes next
        assert memory.store.read_state(6).state.tobytes() == new.state.tobytes()


def test_a_damaged_semantic_state_is_folded_anew_by_the_next_deposit(folder, backbone, tmp_path):
    change(folder, "UPDATE semantic SET recurrent = zeroblob(length(recurrent))")
    with reopened(folder, backbone) as memory:
        deposit(memory, chunks(memory, said(*TEXTS, *reversed(TEXTS)))[5:])
        found = {group: value for group, value in semantic_of(memory).items() if value is not None}
        assert found
    with open_memory(fill(tmp_path / "whole", backbone, TEXTS), backbone) as memory:
        deposit(memory, chunks(memory, said(*TEXTS, *reversed(TEXTS)))[5:])
        assert found.items() <= semantic_of(memory).items()


def semantic_of(memory: OpenMemory) -> dict[tuple[str, str], bytes | None]:
    found: dict[tuple[str, str], bytes | None] = {}
    for size in memory.store.subclusters():
        with contextlib.suppress(DamagedCorpusError):
            entry = memory.store.semantic(size.domain, size.subcluster)
            found[size.domain, size.subcluster] = entry and entry.recurrent.tobytes()
    return found
