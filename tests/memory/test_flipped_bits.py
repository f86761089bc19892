"""One flipped bit anywhere in the files of a memory: the right answer, a named omission or one clear line."""

import random
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from made_keys import CountingEncoder
from tiny_memory import chunks, open_memory, said

from precog.backbones.tenns.backbone import TennsBackbone
from precog.errors import PrecogError
from precog.memory.consolidate import kept_record
from precog.memory.damage import damage_of
from precog.memory.deposit import deposit
from precog.memory.forget import forget
from precog.memory.made_with import settings_of
from precog.memory.opened import OpenMemory
from precog.memory.recall import Recaller, refresh_index
from precog.memory.selection import Selection
from precog.store.memory import MemoryStore

TEXTS = [
    "Max chased a squirrel through the park and came home muddy.",
    "The violin lesson moved to Thursday because of the concert.",
    "Grandmother's recipe for plum cake needs two hours in the oven.",
    "I paid the rent for the flat in Bergen on the first of May.",
    "The grey umbrella was left standing beside the old harbour wall.",
    "My sister is allergic to peanuts and carries an injector.",
]
QUESTION = "Where did Max chase the squirrel?"
FLIPS = {"catalogue.sqlite": 150, "000000.seg": 20, "dense.index": 15, "lexical.index": 15}


@pytest.fixture
def folder(tmp_path: Path, backbone: TennsBackbone) -> Path:
    with open_memory(tmp_path / "m", backbone) as memory:
        deposit(memory, chunks(memory, said(*TEXTS)))
        with memory.store.batch() as batch:
            batch.supersede(2, 5, 1.8e9)
        refresh_index(memory.store, memory.settings.encoder_fingerprint)
    return tmp_path / "m"


def answers(folder: Path) -> dict[str, object]:
    """What reading a memory gives, and what it names as damaged."""
    with MemoryStore.open(folder) as store:
        settings_of(store)
        recalled = Recaller(store, CountingEncoder()).recall(QUESTION, len(TEXTS))
        damaged_states: set[int] = set()
        listed = list(store.deposits(only_sound=True))
        states = {entry.id: kept_record(store, entry, damaged_states.add) for entry in listed}
        return {
            "damage": recalled.damage + damage_of(store),
            "recalled": [(entry.deposit.id, entry.deposit.info.text, entry.score) for entry in recalled.evidence],
            "groups": recalled.groups,
            "listed": {entry.id: (entry.info, entry.superseded_by, entry.superseded_at) for entry in listed},
            "states": {number: record and record.state.tobytes() for number, record in states.items()},
            "damaged_states": damaged_states,
        }


def check(found: dict[str, object], right: dict[str, object]) -> None:
    damage = found["damage"]
    for number, state in found["states"].items():
        assert state == right["states"][number] or number in found["damaged_states"]
    assert found["listed"].items() <= right["listed"].items()
    missing = set(right["listed"]) - set(found["listed"])
    assert not missing or damage
    assert {entry[:2] for entry in found["recalled"]} <= {entry[:2] for entry in right["recalled"]}
    if not damage:
        assert (found["recalled"], found["groups"]) == (right["recalled"], right["groups"])


def flips(folder: Path) -> Iterator[Path]:
    """Flips one bit at a time, and puts it right again."""
    draw = random.Random(4)
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        whole = path.read_bytes()
        for position in draw.choices(range(len(whole)), k=FLIPS.get(path.name, min(8, len(whole)))) if whole else ():
            data = bytearray(whole)
            data[position] ^= 1 << draw.randrange(8)
            path.write_bytes(data)
            yield path
        path.write_bytes(whole)


def test_forgetting_with_a_flipped_bit_forgets_that_alone_or_is_refused(
    folder: Path, backbone: TennsBackbone, tmp_path: Path
) -> None:
    right, num_forgotten = answers(folder), 0
    for _ in islice(flips(folder), 0, None, 8):
        copy = tmp_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder, copy)
        try:
            with MemoryStore.open(copy, write=True, allow_damaged=True) as store:
                memory = OpenMemory(store, settings_of(store), backbone, CountingEncoder())
                chosen = Selection(ids=(3,))
                gone = chosen.find(store, Recaller(store, memory.encoder))
                report = forget(memory, gone, damaged=chosen.damaged(store), proof=True)
            found = answers(copy)
        except PrecogError:
            continue
        assert (report.ids, report.hits) == ((3,), 0)
        assert 3 not in found["listed"]
        found["listed"][3], found["states"][3] = right["listed"][3], right["states"][3]
        found["recalled"] = found["recalled"] if found["damage"] else right["recalled"]
        check({**found, "groups": right["groups"]}, right)
        num_forgotten += 1
    assert num_forgotten > 10


def test_a_flipped_bit_is_harmless_or_named(folder: Path) -> None:
    right = answers(folder)
    assert not right["damage"]
    outcomes = {"right": 0, "named": 0}
    refusals: list[str] = []
    for _ in flips(folder):
        try:
            found = answers(folder)
        except PrecogError as error:
            refusals.append(str(error))
            continue
        check(found, right)
        outcomes["named" if found["damage"] or found["damaged_states"] else "right"] += 1
    assert min(outcomes.values()) > 0
    assert refusals
    assert not any("\n" in line for line in refusals)
