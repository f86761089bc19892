"""A memory and what happens to it: kills, two writers, readers that hold on, disks that refuse; and what is erased."""

import contextlib
import errno
import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import memories
import numpy as np
import pytest

from precog.errors import BusyError, CorpusError, DamagedStateError, StorageError
from precog.store import Needles, RecordLayout, search_folder
from precog.store.memory import Emergent, MemoryStore, StoredPrototypes
from precog.store.segment import segment_path

HERE = Path(__file__).parent


@pytest.fixture
def path(tmp_path):
    with memories.create(tmp_path / "memory") as store:
        memories.fill(store, range(6))
    return tmp_path / "memory"


def run_script(name, *arguments):
    command = [sys.executable, str(HERE / name), *map(str, arguments)]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def hits(path, *seeds):
    """How many of the byte strings that these deposits alone account for are in some file of the folder."""
    found = [search_folder(path, Needles(memories.said_by(seed))) for seed in seeds]
    assert all(report.searched_for >= 6 for report in found)
    return sum(report.hits for report in found)


@pytest.mark.parametrize("first", [1, 2, 3])
def test_a_writer_killed_at_any_point_resumes_to_the_same_bytes_and_leaves_no_trace(tmp_path, first):
    process = run_script("memory_crash_script.py", tmp_path, first, 3)
    output, _ = process.communicate(timeout=120)
    report = json.loads(output.splitlines()[-1])
    assert report["failures"] == []
    assert report["points"] > 60


@pytest.mark.parametrize("is_new", [False, True])
def test_processes_that_deposit_at_once_wait_for_each_other_and_all_deposits_arrive(path, tmp_path, is_new):
    where = tmp_path / "new" if is_new else path
    writers = [run_script("memory_deposit_script.py", where, first, 8, 30.0) for first in (100, 200, 300)]
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    assert [writer.communicate(timeout=60)[0] for writer in writers] == ["done\n"] * 3
    with MemoryStore.open(where) as store:
        texts = {deposit.info.text for deposit in store.deposits()}
        seeds = {seed for first in (100, 200, 300) for seed in range(first, first + 8)}
        assert texts == {memories.text_of(seed) for seed in (seeds if is_new else seeds | set(range(6)))}
        assert list(store.complaints()) == []
        assert all(store.read_state(deposit.id) is not None for deposit in store.deposits())


def test_a_second_writer_that_does_not_wait_is_told_in_one_line(path):
    writer = run_script("memory_deposit_script.py", path, 100, 1, 0.1)
    assert writer.stdout.readline() == "ready\n"
    with MemoryStore.open(path, write=True) as store:
        output, _ = writer.communicate("go\n", timeout=60)
        memories.fill(store, [50])
    assert output.count("\n") == 1
    assert f"another process is writing to this memory; given: {path}, process {os.getpid()}" in output
    with MemoryStore.open(path) as store:
        assert store.size().num_deposits == 7


def test_readers_read_on_while_one_writes(path):
    with MemoryStore.open(path, write=True) as store, MemoryStore.open(path) as reader:
        assert reader.read_state(2).num_tokens == 5
        with store.batch() as batch:
            batch.delete_deposits([1])
            memories.add(batch, 30)
            assert len(list(reader.deposits())) == 6
        assert [d.id for d in reader.deposits()] == [2, 3, 4, 5, 6, 7]
        store.compact()
        for number, seed in ((2, 1), (7, 30)):
            parts = memories.parts_of(seed, len(memories.tokens_of(seed)))
            np.testing.assert_array_equal(reader.read_state(number).state, parts["state"])
        with pytest.raises(CorpusError, match="no longer in the memory"):
            reader.read_state(1)


def test_a_state_that_moves_or_goes_between_look_up_and_read_is_no_damage(path, monkeypatch):
    with MemoryStore.open(path, write=True) as store, MemoryStore.open(path) as reader:
        look_up = reader._catalogue.place_of
        for number, act, expected in (
            (6, store.compact, memories.parts_of(5, 9)["state"].tobytes()),
            (5, lambda: expire(store, 5), None),
        ):
            places = [look_up(number, None)]
            act()
            with monkeypatch.context() as patch:
                patch.setattr(
                    reader._catalogue,
                    "place_of",
                    lambda *asked, left=places: left.pop() if left else look_up(*asked),
                )
                record = reader.read_state(number)
            assert places == []
            assert (None if record is None else record.state.tobytes()) == expected


def expire(store, deposit_id):
    with store.batch() as batch:
        batch.drop_states(deposit_id)


def test_nothing_of_what_was_forgotten_is_in_any_byte(path):
    assert hits(path, 1) == len(Needles(memories.said_by(1)))
    with MemoryStore.open(path, write=True) as store:
        with store.batch() as batch:
            batch.put_emergent(Emergent("flowerpots of house", "social", (2,)))
            batch.put_prototypes(StoredPrototypes(json.dumps({"said": memories.text_of(1)}), ((2,),)))
            batch.put_semantic(memories.semantic_of(("social", "family"), 2, seed=1))
        state = memories.semantic_of(("social", "family"), 2, seed=1).recurrent.tobytes()[:64]
        assert search_folder(path, Needles([state, b"flowerpots of house"])).hits == 2
        with store.batch() as batch:
            batch.move_deposits([2], "social", "others", 0.1)
            batch.touch([2], 1.8e9)
            batch.supersede(1, 2, 1.8e9)
        with store.batch() as batch:
            batch.note_forgetting(["the flowerpot"])
            batch.delete_deposits([2])
        assert store.is_forgetting("the flowerpot")
        store.scrub()
        assert hits(path, 1) == 0
        assert search_folder(path, Needles([state, b"flowerpots of house", b"the flowerpot"])).hits == 0
        store.settle_forgetting("the flowerpot")
        assert not store.is_forgetting("the flowerpot")
    assert hits(path, 1) == 0
    assert hits(path, 0) == len(Needles(memories.said_by(0)))


def test_forgetting_that_was_interrupted_is_finished_by_the_next_writer(path, monkeypatch):
    with MemoryStore.open(path, write=True) as store:
        with monkeypatch.context() as patch:
            patch.setattr(MemoryStore, "_erase_tombstones", lambda self: None)
            with store.batch() as batch:
                batch.delete_deposits([2])
        assert hits(path, 1) > 0
    MemoryStore.open(path, write=True).close()
    assert hits(path, 1) == 0


def test_a_reader_that_holds_on_puts_scrubbing_off_until_the_next_writer(path, monkeypatch):
    monkeypatch.setattr("precog.store.database._BUSY_TIMEOUT_SEC", 0.1)
    with contextlib.closing(sqlite3.connect(path / "000001/catalogue.sqlite", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM deposits").fetchone()
        with MemoryStore.open(path, write=True) as store:
            with store.batch() as batch:
                batch.delete_deposits([2])
            with pytest.raises(BusyError, match=r"this memory, then run the same command again|try again") as caught:
                store.scrub()
            assert "\n" not in str(caught.value)
        MemoryStore.open(path, write=True).close()
        assert hits(path, 1) > 0
        reader.execute("COMMIT")
        MemoryStore.open(path, write=True).close()
        assert hits(path, 1) == 0  # although the reader still keeps the log from being deleted


def test_damage_does_not_keep_a_deposit_from_being_forgotten(path):
    with MemoryStore.open(path, write=True) as store, store.batch() as batch:
        for group in memories.GROUPS:
            batch.put_semantic(memories.semantic_of(group, 1))
        batch.put_prototypes(StoredPrototypes("{}", ((3,),)))
        batch.put_emergent(Emergent("a", "social", (3,)))
        batch.supersede(1, 2, 1.8e9)
    with contextlib.closing(sqlite3.connect(path / "000001/catalogue.sqlite")) as connection:
        connection.execute("UPDATE deposits SET domain = 5 WHERE id = 2")
        connection.execute("UPDATE deposits SET importance = 9 WHERE id = 1")
        connection.execute("UPDATE prototypes SET members = '{'")
        connection.execute("UPDATE emergent SET members = '[1]'")
        connection.commit()
    with MemoryStore.open(path, write=True) as store:
        with store.batch() as batch:
            dropped = batch.delete_deposits([2])
        store.scrub()
        assert dropped.groups == tuple(sorted(memories.GROUPS))
        assert (dropped.prototypes, dropped.emergent) == (True, ("a",))
        assert list(store.semantic_states()) == []
        assert [line for line in store.complaints() if "deposit 1" not in line] == []
    assert hits(path, 1) == 0


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("call", ["pwrite", "fdatasync"])
def test_a_disk_that_refuses_undoes_the_unit_and_nothing_else(path, monkeypatch, code, call):
    real = getattr(os, call)
    with MemoryStore.open(path, write=True) as store:
        before, files = store.checksum(), memories.segment_bytes(path)
        for allowed in range(5 if call == "pwrite" else 1):
            left = [allowed]

            def refuse(*arguments, left=left):
                left[0] -= 1
                if left[0] < 0:
                    raise OSError(code, os.strerror(code))
                return real(*arguments)

            with monkeypatch.context() as patch:
                patch.setattr(os, call, refuse)
                with pytest.raises(StorageError, match="nothing acknowledged was lost") as caught:
                    memories.fill(store, range(30, 33))
            assert "\n" not in str(caught.value)
            assert (store.checksum(), memories.segment_bytes(path)) == (before, files)
        memories.fill(store, range(30, 33))
        assert store.size().num_deposits == 9


def test_folders_and_files_are_for_their_owner_only(tmp_path):
    previous = os.umask(0)
    try:
        with memories.create(tmp_path / "memory") as store:
            memories.fill(store, range(3))
            paths = list((tmp_path / "memory").rglob("*"))
            modes = {p: p.stat().st_mode & 0o777 for p in (tmp_path / "memory", *paths)}
    finally:
        os.umask(previous)
    assert {p.name for p in paths} >= {"precog.json", "lock", "catalogue.sqlite", "000000.seg"}
    assert modes == {p: 0o700 if p.is_dir() else 0o600 for p in modes}


def test_compaction_gives_bytes_back_and_changes_nothing_else(path):
    with MemoryStore.open(path, write=True) as store:
        with store.batch() as batch:
            batch.delete_deposits([2, 4])
            batch.drop_states(1)
        before, names = store.checksum(), set(memories.segment_bytes(path))
        assert store.compact() >= 6 * memories.LAYOUT.record_bytes
        assert store.checksum() == before
        assert not names & set(memories.segment_bytes(path))
        assert store.compact() == 0
        memories.fill(store, range(10, 14))
        assert list(store.complaints()) == []


def test_a_replacement_keeps_ids_and_histories_and_is_seen_at_once(path):
    layout = RecordLayout(16, 0, memories.MAX_TOKENS)
    wanted = {"settings": {"model": "better"}, "layout": layout, "fingerprint": b"n" * 32, "key_dim": 2}
    with MemoryStore.open(path, write=True) as store:
        with store.batch() as batch:
            batch.delete_deposits([2, 6])
            batch.supersede(1, 3, 1.8e9)
            batch.touch([3], 1.9e9)
        old = [(d.id, d.info, d.num_accesses, d.accessed_at, d.superseded_by) for d in store.deposits()]

        def build(deposits):
            replacement = store.start_replacement(**wanted)
            for deposit in deposits:
                with replacement.batch() as batch:
                    number, is_new = batch.copy_deposit(deposit, np.ones((1, 2), np.float32))
                    if is_new:
                        tokens = memories.tokens_of(0)[:3]
                        batch.add_state(number, 3, tokens, state=bytes(16))
            return replacement

        build(list(store.deposits())[:2]).close()
        assert store.deposit(1).info.group == memories.GROUPS[0]
        replacement = build(store.deposits())
        with MemoryStore.open(path) as reader:
            store.publish_replacement(replacement)
            assert not reader.is_current
            with pytest.raises(CorpusError, match="the memory has been replaced"):
                reader.read_state(1)
    assert [p.name for p in path.iterdir() if p.is_dir()] == ["000002"]
    with MemoryStore.open(path, write=True) as store:
        assert [(d.id, d.info, d.num_accesses, d.accessed_at, d.superseded_by) for d in store.deposits()] == old
        assert (store.settings, store.key_dim, store.layout) == ({"model": "better"}, 2, layout)
        assert list(store.complaints()) == []
        with pytest.raises(CorpusError, match="already"), store.batch() as batch:
            batch.copy_deposit(store.deposit(1).__class__(1, memories.info_of(77)), np.ones((1, 2), np.float32))
        with store.batch() as batch:
            assert batch.add_deposit(memories.info_of(50), np.ones((1, 2), np.float32)) == (7, True)


def test_a_damaged_state_is_named_and_the_others_are_read(path):
    file = segment_path(path / "000001/segments", 0)
    data = bytearray(file.read_bytes())
    data[4096 + memories.LAYOUT.record_bytes + 300] ^= 1
    file.write_bytes(data)
    with MemoryStore.open(path, write=True) as store:
        with pytest.raises(DamagedStateError, match=r"segment 000000, record 1.*precog memory reindex") as caught:
            store.read_state(1)
        assert "\n" not in str(caught.value)
        assert store.read_state(1, 2).num_tokens == 2
        damaged = [place for place, found in store.iter_records() if isinstance(found, DamagedStateError)]
        assert [str(place) for place in damaged] == ["segment 000000, record 1"]
        with pytest.raises(DamagedStateError):
            store.compact()
        with store.batch() as batch:
            batch.drop_states(1)
        assert store.read_state(1) is None
        assert store.compact() > 0


def test_a_segment_that_is_gone_is_named_and_the_texts_are_rescued(path):
    segment_path(path / "000001/segments", 1).unlink()
    with pytest.raises(CorpusError, match=r"segment 000001 is missing.*precog memory reindex"):
        MemoryStore.open(path, write=True)
    with MemoryStore.open(path, write=True, allow_damaged=True) as store:
        assert [d.info.text for d in store.deposits()] == [memories.text_of(s) for s in range(6)]
        with pytest.raises(DamagedStateError, match="does not open"):
            store.read_state(4)
