"""Run by test_memory_crashes.py in a process of its own: dies at one point of writing after another and resumes.

Arguments: a folder, the first point, and a stride. Prints one line of JSON.
"""

import json
import os
import shutil
import sys
from pathlib import Path

import memories
from crash_script import Reaper

from precog.store import Needles, search_folder
from precog.store.memory import Emergent, MemoryStore, StoredPrototypes
from precog.store.memory.catalogue import MemoryCatalogue

FORGOTTEN, FORGET_STEP = 1, 6
SAID = Needles(memories.said_by(FORGOTTEN))


def deposit(seeds):
    def step(batch):
        numbers = [memories.add(batch, seed)[0] for seed in seeds]
        batch.put_semantic(memories.semantic_of(memories.info_of(seeds[-1]).group, numbers[-1], seeds[-1]))
        batch.touch(numbers[:1], 1.8e9)

    return step


def forget(batch):
    batch.note_forgetting(["flowerpot"])
    batch.delete_deposits([FORGOTTEN + 1])
    batch.put_prototypes(StoredPrototypes("{}", ((1, 3),)))


STEPS = [
    deposit([0, 1]),
    deposit([2]),
    lambda batch: batch.drop_states(1, keep=[4]),
    deposit([3, 4, 5]),
    lambda batch: batch.supersede(1, 2, 1.8e9),
    lambda batch: (batch.put_prototypes(StoredPrototypes("{}", ((2,),))), batch.put_emergent(_grouping())),
    forget,
    lambda batch: batch.move_deposits([3, 6], "social", "music", 0.5),
    deposit([6, 7]),
    lambda batch: batch.delete_deposits([4]),
]


def _grouping():
    return Emergent("keys", "social", (2, 3))


def write_everything(path, after_step=lambda store: None):
    """Ten commit units, resumable: the generation counts those that stand."""
    has_begun = (path / "precog.json").exists()
    with MemoryStore.open(path, write=True) if has_begun else memories.create(path) as store:
        for step in STEPS[store.generation :]:
            with store.batch() as batch:
                step(batch)
            if step is forget:
                store.scrub()
                store.settle_forgetting("flowerpot")
            after_step(store)
        store.scrub()


def content_of(path):
    with MemoryStore.open(path) as store:
        return store.checksum(), {n: hash(d) for n, d in memories.segment_bytes(path).items()}


def problem_after(path, prefixes):
    """What is wrong with a memory whose writer has just died, if anything."""
    if not (path / "precog.json").exists():
        return None
    with MemoryStore.open(path) as store:
        generation = store.generation
        if store.checksum() != prefixes[generation]:
            return f"not what {generation} commit units left"
    MemoryStore.open(path, write=True).close()
    with MemoryStore.open(path) as store:
        if list(store.complaints()) or store.checksum() != prefixes[generation]:
            return "recovery has changed it"
    if generation > FORGET_STEP and (found := search_folder(path, SAID)).hits:
        return f"what was forgotten is in {found.hit_files}"
    if 0 < generation <= FORGET_STEP and not search_folder(path, SAID).hits:
        return "what was to be searched for was never there"
    return None


def main():
    os.fdatasync = os.fsync = lambda descriptor: None  # a killed process, unlike a dead machine, loses no cached page
    base, first, stride = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    with memories.create(base / "empty") as store:
        prefixes = [store.checksum()]
    write_everything(base / "whole", lambda store: prefixes.append(store.checksum()))
    expected = content_of(base / "whole")
    point, failures = first, []
    while True:
        path = base / f"crash{point}"
        child = os.fork()
        if child == 0:
            with Reaper(point, MemoryCatalogue):
                write_everything(path)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) == 0:
            break
        problem = problem_after(path, prefixes)
        write_everything(path)
        if problem or content_of(path) != expected:
            failures.append((point, problem))
        shutil.rmtree(path)
        point += stride
    print(json.dumps({"points": point, "failures": failures}))


if __name__ == "__main__":
    main()
