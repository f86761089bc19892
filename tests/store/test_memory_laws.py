"""Laws of a memory: any run of operations leaves what a plain model of it says, and the start of a session costs
the same however much is remembered.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import memories
import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from precog.store import Needles, search_folder
from precog.store.memory import MemoryStore, StoredPrototypes

SEEDS = st.integers(0, 11)


class Undone(Exception):
    """Ends a commit unit that is to leave nothing behind."""


class MemoryMachine(RuleBasedStateMachine):
    """A memory beside a dictionary that says what should be in it."""

    @initialize()
    def begin(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "memory"
        self.store = memories.create(self.path)
        self.model = {}
        self.next_id = 1
        self.forgotten = set()

    def teardown(self):
        if hasattr(self, "store"):
            self.store.close()
            self.folder.cleanup()

    def some(self, pick):
        return sorted(self.model)[pick % len(self.model)]

    @rule(seed=SEEDS, is_undone=st.booleans())
    def deposit(self, seed, is_undone):
        known = [number for number, entry in self.model.items() if entry["seed"] == seed]
        expected = (known[0], False) if known else (self.next_id, True)
        try:
            with self.store.batch() as batch:
                assert memories.add(batch, seed) == expected
                if is_undone:
                    raise Undone
        except Undone:
            return
        count = len(memories.tokens_of(seed))
        if known:
            kept = self.model[known[0]]["positions"] | {count // 2, count}
            self.model[known[0]]["positions"] = kept
            return
        info = memories.info_of(seed)
        self.model[self.next_id] = {
            "seed": seed, "positions": {count // 2, count}, "group": info.group, "accesses": 0, "by": None
        }  # fmt: skip
        self.forgotten.discard(seed)
        self.next_id += 1

    @precondition(lambda self: self.model)
    @rule(pick=st.integers(0, 99), keep_last=st.booleans())
    def expire(self, pick, keep_last):
        number = self.some(pick)
        kept = {max(self.model[number]["positions"])} if keep_last and self.model[number]["positions"] else set()
        gone = self.model[number]["positions"] - kept
        with self.store.batch() as batch:
            assert batch.drop_states(number, sorted(kept)) == len(gone) * memories.LAYOUT.record_bytes
        self.model[number]["positions"] = kept

    @precondition(lambda self: self.model)
    @rule(pick=st.integers(0, 99), group=st.sampled_from(memories.GROUPS))
    def move(self, pick, group):
        number = self.some(pick)
        with self.store.batch() as batch:
            batch.move_deposits([number], *group, 0.5)
        self.model[number]["group"] = group

    @precondition(lambda self: self.model)
    @rule(pick=st.integers(0, 99))
    def recall(self, pick):
        number = self.some(pick)
        with self.store.batch() as batch:
            batch.touch([number], 1.9e9)
        self.model[number]["accesses"] += 1

    @precondition(lambda self: len(self.model) > 1)
    @rule(pick=st.integers(0, 99))
    def supersede(self, pick):
        old, new = sorted((self.some(pick), self.some(pick + 1)))
        with self.store.batch() as batch:
            batch.supersede(old, new, 1.9e9)
        self.model[old]["by"] = new

    @precondition(lambda self: self.model)
    @rule(picks=st.sets(st.integers(0, 99), min_size=1, max_size=3))
    def forget(self, picks):
        gone = {self.some(pick) for pick in picks}
        with self.store.batch() as batch:
            batch.delete_deposits(gone)
        lost = {number: self.model.pop(number) for number in gone}
        self.forgotten |= {entry["seed"] for entry in lost.values()}
        for entry in self.model.values():
            while entry["by"] in lost:
                entry["by"] = lost[entry["by"]]["by"]
        self.store.scrub()
        strings = [said for seed in self.forgotten for said in memories.said_by(seed)]
        assert search_folder(self.path, Needles(strings)).hits == 0

    @rule(how=st.sampled_from(["reopen", "compact"]))
    def tidy(self, how):
        if how == "compact":
            self.store.compact()
            return
        self.store.close()
        self.store = MemoryStore.open(self.path, write=True)

    @invariant()
    def is_what_the_model_says(self):
        if not hasattr(self, "store"):
            return
        found = list(self.store.deposits())
        assert [deposit.id for deposit in found] == sorted(self.model)
        for deposit in found:
            entry = self.model[deposit.id]
            assert deposit.info.text == memories.text_of(entry["seed"])
            assert (deposit.num_accesses, deposit.superseded_by) == (entry["accesses"], entry["by"])
            assert self.store.states_of(deposit.id) == sorted(entry["positions"])
            for position in entry["positions"]:
                state = self.store.read_state(deposit.id, position).state
                np.testing.assert_array_equal(state, memories.parts_of(entry["seed"], position)["state"])
        for group in memories.GROUPS:
            members = {number for number, entry in self.model.items() if entry["group"] == group}
            assert set(self.store.keys_of([group])[0].tolist()) == members
        sizes = {(size.domain, size.subcluster): size.num_deposits for size in self.store.subclusters()}
        groups = [entry["group"] for entry in self.model.values()]
        assert sizes == {group: groups.count(group) for group in groups}
        assert list(self.store.complaints()) == []


TestMemory = MemoryMachine.TestCase
TestMemory.settings = settings(max_examples=12, stateful_step_count=15, deadline=None)


def cost_of(store, act):
    """SQLite's own steps, statements, and bytes of what it returned, for one call."""
    connection = store._catalogue._connection
    steps, statements = [0], []

    def step():
        steps[0] += 1

    connection.set_progress_handler(step, 1)
    connection.set_trace_callback(statements.append)
    try:
        found = act()
    finally:
        connection.set_progress_handler(None, 0)
        connection.set_trace_callback(None)
    return steps[0], len(statements), found


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    folder = tmp_path_factory.mktemp("laws") / "memory"
    memories.create(folder).close()
    return folder


def remember(store, seeds):
    """Deposits of these seeds, a state for every 500th, and everything that a session starts from."""
    keys = memories.keys_of(0)
    with store.batch() as batch:
        for seed in seeds:
            number, _ = batch.add_deposit(memories.info_of(seed % 900, uid=seed.to_bytes(32, "big")), keys)
            if seed % 500 == 0:
                batch.add_state(number, 2, memories.tokens_of(0)[:2], **memories.parts_of(0, 2))
        for group in memories.GROUPS:
            batch.put_semantic(memories.semantic_of(group, number))
        batch.put_prototypes(StoredPrototypes('{"keys": "the same"}'))


def remember_elsewhere(path, first, total):
    """The same in a process that checks no types, six times as fast."""
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from test_memory_laws import MemoryStore, remember
with MemoryStore.open(Path({str(path)!r}), write=True) as store:
    remember(store, range({first}, {total}))
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_a_session_starts_at_the_same_cost_however_much_is_remembered(path):
    def start(store):
        return store.semantic("spatial", "home"), store.subclusters(), store.prototypes()

    costs = {}
    for first, total in ((0, 60), (60, 600), (600, 20_000)):
        remember_elsewhere(path, first, total)
        with MemoryStore.open(path) as reader:
            semantic = cost_of(reader, lambda store=reader: store.semantic("spatial", "home"))
            started = cost_of(reader, lambda store=reader: start(store))
            probed = cost_of(reader, lambda store=reader, number=total // 2: store.deposit(number))
            assert semantic[2].recurrent.nbytes == 200
            assert sum(size.num_deposits for size in started[2][1]) == total
            costs[total] = (semantic[:2], started[:2], probed[:2])
    assert costs[60] == costs[600] == costs[20_000]
    (steps, statements), (all_steps, all_statements), _ = costs[60]
    assert (statements, all_statements) == (1, 3)
    assert 0 < steps < all_steps < 150


def test_a_search_costs_what_the_probed_sub_clusters_hold(tmp_path):
    with memories.create(tmp_path / "memory") as store:
        remember(store, range(1500))
        with store.batch() as batch:
            for seed in range(40):
                changes = {"uid": (10**6 + seed).to_bytes(32, "big"), "domain": "emotional", "subcluster": "joy"}
                batch.add_deposit(memories.info_of(seed, **changes), memories.keys_of(0))
        steps, statements, (found, _) = cost_of(store, lambda: store.keys_of([("emotional", "joy")]))
        assert (len(found), statements) == (40, 1)
        assert steps < 40 * 30
        steps, _, coldest = cost_of(store, lambda: list(store.coldest()))
        assert len(coldest) == 3
        assert steps < 300
