"""Rows of a memory that were changed behind its back are errors, never answers."""

import contextlib

import memories
import pytest
from damage import change

from precog.errors import CorpusError, DamagedCorpusError, DamagedStateError
from precog.store.memory import Emergent, MemoryStore, StoredPrototypes

HOME = ("spatial", "home")


@pytest.fixture
def path(tmp_path):
    with memories.create(tmp_path / "memory") as store:
        memories.fill(store, range(6))
        with store.batch() as batch:
            batch.put_semantic(memories.semantic_of(HOME, 4))
            batch.put_prototypes(StoredPrototypes('{"keys": 1}', ((1, 2),)))
            batch.put_emergent(Emergent("music", "social", (2, 3)))
            batch.supersede(2, 5, 1.8e9)
    return tmp_path / "memory"


def complaints(path):
    with MemoryStore.open(path) as store:
        return list(store.complaints())


def test_a_sound_memory_has_nothing_to_complain_of(path):
    assert complaints(path) == []


@pytest.mark.parametrize(
    "changed",
    [
        "uid = x'00'",
        "text = 'something else'",
        "text = x'ff00'",
        "text = 5",
        "header = ''",
        "key_text = ''",
        "details = '{x'",
        "details = '[]'",
        "details = '{}'",
        "time_iso = '2023-05-10'",
        "time_iso = 'yesterday'",
        "time_iso = '2023-05-10T13:56:00'",
        "time_iso = NULL",
        "time_utc = time_utc + 1",
        "time_utc = NULL",
        "speaker = 'Caroline'",
        "speaker = NULL",
        "place = 7",
        "reference = ''",
        "domain = 'factual'",
        "subcluster = 'x'",
        "probability = 0.5",
        "importance = 'x'",
        "importance = 1",
        "num_tokens = num_tokens + 1",
        "num_accesses = 5",
        "accessed_at = 1e308 * 10",
        "accessed_at = accessed_at + 1",
        "superseded_by = NULL",
        "superseded_by = 4",
        "superseded_at = 1",
        "created_at = 1",
        "seal = 'x'",
        "id = 70",
    ],
)
def test_a_changed_deposit_is_named_wherever_it_is_read(path, changed):
    change(path, f"UPDATE deposits SET {changed} WHERE id = 2")
    number = 70 if changed == "id = 70" else 2
    assert any(f"deposit {number} " in line for line in complaints(path))
    with MemoryStore.open(path, write=True) as store:
        for read in (lambda: store.deposit(number), lambda: list(store.deposits()), lambda: touch(store, number)):
            with pytest.raises(DamagedCorpusError, match=rf"deposit {number} .*precog memory forget") as caught:
                read()
            assert "\n" not in str(caught.value)
        found = list(store.checked_deposits())
        assert sum(isinstance(deposit, DamagedCorpusError) for deposit in found) == 1
        assert len(found) == 6


def touch(store, deposit_id):
    with store.batch() as batch:
        batch.touch([deposit_id], 1.8e9)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE keys SET vectors = zeroblob(length(vectors)) WHERE deposit_id = 2",
        "UPDATE keys SET vectors = 'text' WHERE deposit_id = 2",
        "UPDATE keys SET num_windows = num_windows + 1 WHERE deposit_id = 2",
        "UPDATE keys SET num_windows = -1 WHERE deposit_id = 2",
        "UPDATE keys SET (num_windows, vectors, seal) ="
        " (SELECT num_windows, vectors, seal FROM keys WHERE deposit_id = 4) WHERE deposit_id = 2",
        "DELETE FROM keys WHERE deposit_id = 2",
    ],
)
def test_changed_keys_are_named_wherever_they_are_read(path, statement):
    change(path, statement)
    assert any("the keys of deposit 2 " in line for line in complaints(path))
    with MemoryStore.open(path) as store:
        for read in (
            lambda: store.keys_of([("social", "family")]),
            lambda: list(store.iter_keys()),
            lambda: list(store.iter_keys([2])),
        ):
            with pytest.raises(DamagedCorpusError, match=r"keys of deposit \d .*precog memory reindex"):
                read()


@pytest.mark.parametrize(
    "changed",
    [
        "content_hash = x'00'",
        "content_hash = (SELECT content_hash FROM states WHERE deposit_id = 4 AND position = 3)",
        "position = 3",
        "deposit_id = 1, position = 5",
        "seal = x''",
    ],
)
def test_the_state_of_another_deposit_is_never_an_answer(path, changed):
    change(path, f"UPDATE states SET {changed} WHERE deposit_id = 2 AND position = 2")
    assert any("state" in line and "checksum" in line for line in complaints(path))
    with MemoryStore.open(path) as store:
        for number, position in ((1, 5), (2, 3), (2, 2)):
            with contextlib.suppress(DamagedCorpusError):
                assert store.read_state(number, position) is None


def test_a_place_that_holds_another_state_is_damage(path):
    change(path, "UPDATE states SET slot = 60 WHERE id = 1", "UPDATE states SET slot = 0 WHERE id = 2")
    with MemoryStore.open(path) as store, pytest.raises(DamagedStateError, match="holds another"):
        store.read_state(1)


@pytest.mark.parametrize(
    "changed",
    [
        "alpha = 0.2",
        "num_deposits = 4",
        "last_deposit_id = 1",
        "num_tokens = 61",
        "recurrent = zeroblob(length(recurrent))",
        "recurrent = x'00'",
        "decay_time = 'text'",
        "alpha = 'x'",
        "seal = x'00'",
    ],
)
def test_a_changed_semantic_state_is_damage(path, changed):
    change(path, f"UPDATE semantic SET {changed}")
    assert any("semantic state of spatial/home" in line for line in complaints(path))
    with MemoryStore.open(path, write=True) as store:
        with pytest.raises(DamagedCorpusError, match="semantic state of spatial/home"):
            store.semantic(*HOME)
        with store.batch() as batch:
            batch.put_semantic(memories.semantic_of(HOME, 4))
        assert list(store.complaints()) == []


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE prototypes SET text = '{}'",
        "UPDATE prototypes SET members = '[[1]]'",
        "UPDATE prototypes SET members = 5",
        "UPDATE emergent SET members = '[2]'",
        "UPDATE emergent SET members = '[\"2\"]'",
        "UPDATE emergent SET promoted = 1",
        "UPDATE emergent SET name = 'musik'",
    ],
)
def test_changed_prototypes_and_groupings_are_damage(path, statement):
    change(path, statement)
    assert any("prototypes" in line or "grouping mus" in line for line in complaints(path))
    with MemoryStore.open(path) as store:
        read = store.prototypes if "prototypes" in statement else store.emergent
        with pytest.raises(DamagedCorpusError, match=r"prototypes|grouping mus"):
            read()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE groups SET num_deposits = num_deposits + 1 WHERE subcluster = 'family'",
        "UPDATE groups SET num_tokens = 0",
        "DELETE FROM groups",
        "INSERT INTO groups VALUES ('a', 'b', 1, 1)",
        "UPDATE deposits SET num_states = 0 WHERE id = 3",
    ],
)
def test_counters_that_are_wrong_are_noticed(path, statement):
    change(path, statement)
    assert any("counted wrongly" in line for line in complaints(path))
    with MemoryStore.open(path) as store:
        with pytest.raises(DamagedCorpusError, match=r"counted wrongly.*reindex"):
            store.check_counters()
        assert [entry.num_states for entry in store.deposits()] == [2] * 6


@pytest.mark.parametrize(
    ("key", "value"),
    [("generation", "junk"), ("key_dim", "0"), ("fingerprint", "00"), ("memory_id", ""), ("settings", "[]")],
)
def test_changed_settings_are_damage(path, key, value):
    change(path, f"UPDATE meta SET value = '{value}' WHERE key = '{key}'")
    with pytest.raises(DamagedCorpusError) as caught:
        MemoryStore.open(path, write=True)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("damage", ["missing", "garbage", "truncated", "of a corpus", "newer"])
@pytest.mark.parametrize("write", [False, True])
def test_a_damaged_catalogue_is_one_clear_line(path, damage, write):
    file = path / "000001/catalogue.sqlite"
    data = bytearray(file.read_bytes())
    if damage == "of a corpus":
        data[68:72] = b"PREC"
    elif damage == "newer":
        data[60:64] = (99).to_bytes(4, "big")
    changed = {"garbage": b"\x5a" * len(data), "truncated": data[: len(data) // 2]}.get(damage, data)
    file.unlink() if damage == "missing" else file.write_bytes(changed)
    with pytest.raises(CorpusError) as caught:
        MemoryStore.open(path, write=write, wait_sec=0.0)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, DamagedCorpusError) == (damage != "newer")
    assert ("the memory has a newer format" in str(caught.value)) == (damage == "newer")


def test_a_flipped_bit_anywhere_in_the_catalogue_is_noticed_or_changes_no_answer(path):
    def said(store):
        yield from store.deposits(ids=range(1, 7))
        yield from (store.states_of(number) for number in range(1, 7))
        yield from (store.read_state(number).data for number in range(1, 7))
        found = store.semantic(*HOME)
        yield found.recurrent.tobytes() if found else None
        yield (store.prototypes(), store.emergent())

    with MemoryStore.open(path) as store:
        expected = list(said(store))
    file = path / "000001/catalogue.sqlite"
    whole, silent = file.read_bytes(), 0
    for position in range(0, len(whole), 1499):
        data = bytearray(whole)
        data[position] ^= 1 << position % 8
        file.write_bytes(data)
        with contextlib.suppress(CorpusError, AttributeError), MemoryStore.open(path) as store:
            for deposit in store.deposits(ids=range(1, 7)):
                assert deposit.info == memories.info_of(deposit.id - 1)
            found = list(said(store))
            silent += found == expected
            assert found == expected or list(store.complaints())
    assert silent > 0
    file.write_bytes(whole)


def test_what_is_more_than_one_thing_is_told_so(path):
    change(path, "UPDATE prototypes SET text = 'x'", "UPDATE keys SET vectors = x'00' WHERE deposit_id = 2")
    change(path, "UPDATE deposits SET text = 'x' WHERE id = 3")
    told = "\n".join(complaints(path))
    assert "the prototypes are not what was written" in told
    assert "the keys of deposit 2 are not what was written" in told
    assert "deposit 3 is not what was written" in told


def test_a_damaged_deposit_is_counted_rightly_once_it_is_deleted(path):
    change(
        path, "UPDATE deposits SET domain = 'x' WHERE id = 2", "UPDATE groups SET subcluster = 'y' WHERE domain = 'x'"
    )
    with MemoryStore.open(path, write=True) as store:
        assert (store.damaged_ids(), store.damaged_ids([1, 3])) == ([2], [])
        assert any("x/" in line for line in store.miscounted_groups())
        with store.batch() as batch:
            batch.delete_deposits([2])
        assert store.miscounted_groups() == []
        store.check_counters()


def test_text_that_is_no_utf_8_stops_one_row_alone(path):
    change(path, "UPDATE deposits SET text = CAST(x'ff6162' AS TEXT), place = CAST(x'fe' AS TEXT) WHERE id = 2")
    with MemoryStore.open(path) as store:
        assert [deposit.id for deposit in store.deposits(only_sound=True)] == [1, 3, 4, 5, 6]
        assert store.damaged_ids() == [2]
        assert store.raw_parts(2)[0] == b"\xffab"
        with pytest.raises(DamagedCorpusError, match=r"deposit 2 .*precog memory forget"):
            store.deposit(2)
