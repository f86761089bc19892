"""Rows that are gone from a memory: what is left of them is told, forgotten and searched for."""

import pytest
from test_damage import TEXTS, change, chosen, fill, reopened
from tiny_memory import check_consistent, chunks, everything, open_memory, said, semantic

from precog.errors import DamagedCorpusError
from precog.memory.damage import damage_of, lost_of
from precog.memory.deposit import deposit
from precog.memory.forget import forget
from precog.memory.recall import Recaller
from precog.memory.refit import use_seeds
from precog.memory.selection import Selection
from precog.store import Needles, search_folder
from precog.store.memory import MemoryStore


@pytest.fixture
def folder(tmp_path, backbone):
    return fill(tmp_path / "m", backbone, TEXTS)


def states_and_keys(folder, number):
    with MemoryStore.open(folder) as store:
        states = [store.read_state(number, position).state[:64].tobytes() for position in store.states_of(number)]
        return [*states, *(entry.keys.tobytes()[:64] for entry in store.iter_keys([number]))]


def everyone(memory):
    selection = Selection(everything=True)
    return selection.find(memory.store, Recaller(memory.store, memory.encoder)), selection.damaged(memory.store)


def test_a_lost_deposit_is_told_and_goes_by_its_id_with_all_that_is_left_of_it(folder, backbone, tmp_path):
    needles = states_and_keys(folder, 3)
    change(folder, "DELETE FROM deposits WHERE id = 3")
    with reopened(folder, backbone) as memory:
        recalled = Recaller(memory.store, memory.encoder).recall("plum cake", 9)
        assert recalled.damage.deposits == damage_of(memory.store).deposits == lost_of(memory.store).deposits == (3,)
        assert any("deposit 3 is gone" in line for line in memory.store.complaints())
        assert search_folder(folder, Needles(needles)).hits == len(needles)
        found, damaged = chosen(memory, 3)
        assert (found, damaged) == ([], [3])
        report = forget(memory, found, damaged=damaged, proof=True)
        assert (report.ids, report.hits, report.is_complete, report.damage.lines) == ((3,), 0, True, ())
        assert report.searched_for >= len(needles)
        assert search_folder(folder, Needles(needles)).hits == 0
        assert list(memory.store.complaints()) == []
        check_consistent(memory)
        left = everything(memory)
    with open_memory(tmp_path / "never", backbone) as memory:
        deposit(memory, [chunk for n, chunk in enumerate(chunks(memory, said(*TEXTS))) if n != 2])
        assert everything(memory) == left


@pytest.mark.parametrize("table", ["states", "keys", "semantic"])
def test_all_takes_what_is_left_of_lost_deposits_and_searches_for_it(folder, backbone, table: str):
    others = {"states": "keys", "keys": "states", "semantic": "keys"}[table]
    change(folder, "DELETE FROM deposits", f"DELETE FROM {others}", *(["DELETE FROM states"] * (table == "semantic")))
    with reopened(folder, backbone) as memory:
        found, damaged = everyone(memory)
        assert found == []
        assert set(damaged) <= {1, 2, 3, 4, 5}
        assert damage_of(memory.store).deposits == tuple(damaged) != ()
        report = forget(memory, found, damaged=damaged, proof=True)
        assert (report.hits, report.is_complete) == (0, True)
        assert report.searched_for > 0
        assert everyone(memory) == ([], [])
        assert semantic(memory) == {}
        assert memory.store.state_bytes == 0
        assert list(memory.store.complaints()) == []


def test_a_deposit_that_is_gone_with_states_and_keys_is_told_by_what_it_was_folded_into(folder, backbone):
    with MemoryStore.open(folder) as store:
        group = next(store.deposits(ids=[1])).info.group
    change(
        folder,
        *(
            f"DELETE FROM {table} WHERE {column} = 1"
            for table, column in (("states", "deposit_id"), ("keys", "deposit_id"), ("deposits", "id"))
        ),
    )
    with reopened(folder, backbone) as memory:
        lines = " ".join(damage_of(memory.store).lines)
        assert " ▸ ".join(group) in lines or "deposit 1" in lines
        assert "backup" in lines


def test_a_semantic_state_that_is_gone_is_told_and_folded_anew_by_the_next_deposit(folder, backbone):
    with reopened(folder, backbone) as memory:
        assert lost_of(memory.store).lines == ()
        (group, *others) = sorted(semantic(memory))
        text = next(memory.store.deposits(domain=group[0], subcluster=group[1])).info.text
    change(folder, f"DELETE FROM semantic WHERE domain = '{group[0]}' AND subcluster = '{group[1]}'")
    with reopened(folder, backbone) as memory:
        (line,) = lost_of(memory.store).lines
        assert " ▸ ".join(group) in line
        assert "memory reindex" in line
        assert sorted(semantic(memory)) == others
        deposit(memory, chunks(memory, said(text, speaker="Ben")))
        assert lost_of(memory.store).lines == ()
        check_consistent(memory)


def test_prototypes_that_are_gone_are_told_and_nothing_is_routed_until_they_are_chosen(folder, backbone):
    with reopened(folder, backbone) as memory:
        right = everything(memory)
    change(folder, "DELETE FROM prototypes")
    with MemoryStore.open(folder) as store:
        (line,) = damage_of(store).lines
        assert "prototypes are gone" in line
        assert "memory fit --seeds" in line
    with pytest.raises(DamagedCorpusError, match="memory fit --seeds"):
        reopened(folder, backbone)
    with reopened(folder, backbone, keeps_prototypes=False) as memory:
        use_seeds(memory)
        assert everything(memory) == right
        assert damage_of(memory.store).lines == ()


def test_what_a_lost_deposit_has_superseded_holds_again(folder, backbone):
    with reopened(folder, backbone) as memory, memory.store.batch() as batch:
        batch.supersede(1, 2, at=5.0)
    change(
        folder,
        *(
            f"DELETE FROM {table} WHERE {column} = 2"
            for table, column in (("states", "deposit_id"), ("keys", "deposit_id"), ("deposits", "id"))
        ),
    )
    with reopened(folder, backbone) as memory:
        assert damage_of(memory.store).deposits == (2,)
        assert forget(memory, [], damaged=[2], proof=True).restored == (1,)
        assert memory.store.deposit(1).superseded_by is None
        assert damage_of(memory.store).lines == ()


WHERE = ["deposits SET superseded_by", "semantic SET last_deposit_id", "semantic SET num_deposits"]


@pytest.mark.parametrize("value", ["x'ff'", "'two'", "1.5", "-3", "4611686018427387904"])
@pytest.mark.parametrize("where", WHERE)
def test_a_row_that_names_what_never_was_is_damaged_alone(folder, backbone, where: str, value: str):
    change(folder, f"UPDATE {where} = {value} WHERE rowid = 1")
    with reopened(folder, backbone) as memory:
        assert damage_of(memory.store).deposits == ((1,) if "superseded_by" in where else ())
        assert Recaller(memory.store, memory.encoder).recall("When is the violin lesson?", 1).evidence
        assert any("checksum" in line or "damaged" in line for line in memory.store.complaints())
