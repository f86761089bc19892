"""A user's memory as those above see it: deposits, the dial, what is derived, moving, superseding, searching."""

import datetime
from dataclasses import replace

import memories
import numpy as np
import pytest

from precog.errors import CorpusError, EncoderError, StateError
from precog.store import CorpusStore
from precog.store.memory import Emergent, GroupSize, MemoryStore, StoredPrototypes


@pytest.fixture
def store(tmp_path):
    with memories.create(tmp_path / "memory") as made:
        yield made


def ids(deposits):
    return [deposit.id for deposit in deposits]


def test_what_was_deposited_is_what_is_read(store):
    numbers = memories.fill(store, range(12))
    assert numbers == list(range(1, 13))
    with MemoryStore.open(store.path) as reader:
        assert reader.settings == {"alpha": 0.1, "encoder": "words"}
        assert (reader.layout, reader.fingerprint, reader.key_dim) == (memories.LAYOUT, memories.FINGERPRINT, 4)
        for seed, deposit in enumerate(reader.deposits()):
            assert deposit.info == memories.info_of(seed)
            assert (deposit.num_accesses, deposit.accessed_at) == (0, deposit.info.created_at)
            assert (deposit.superseded_by, deposit.superseded_at, deposit.num_states) == (None, None, 2)
            assert reader.deposit(deposit.id) == deposit
            assert reader.find_uid(deposit.info.uid) == deposit.id
            count = deposit.info.num_tokens
            assert reader.states_of(deposit.id) == [count // 2, count]
            for position in (count // 2, count, None):
                at = position or count
                record, parts = reader.read_state(deposit.id, position), memories.parts_of(seed, at)
                np.testing.assert_array_equal(record.state, parts["state"])
                np.testing.assert_array_equal(record.tau, parts["tau"])
                np.testing.assert_array_equal(record.token_ids, memories.tokens_of(seed)[:at])
                assert len(record.suffix_array) == (count if at == count else 0)
            assert reader.read_state(deposit.id, 1) is None
        for seed, entry in enumerate(reader.iter_keys()):
            assert entry.deposit_id == seed + 1
            np.testing.assert_array_equal(entry.keys, memories.keys_of(seed))
        assert [entry.deposit_id for entry in reader.iter_keys([5, 2, 99])] == [2, 5]
        reader.prefetch([1, 5, 99])
        assert reader.deposit(99) is None
        assert reader.find_uid(bytes(32)) is None


def test_what_was_said_before_is_a_duplicate(store):
    memories.fill(store, range(3))
    before, files = store.checksum(), memories.segment_bytes(store.path)
    with store.batch() as batch:
        assert memories.add(batch, 1, text="whatever the same uid says now") == (2, False)
    assert (store.checksum(), memories.segment_bytes(store.path)) == (before, files)
    with store.batch() as batch:
        assert memories.add(batch, 7) == (4, True)
        assert memories.add(batch, 7) == (4, False)
        batch.delete_deposits([4])
    with store.batch() as batch:
        assert memories.add(batch, 7) == (5, True)  # ids are never used twice


@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        ({}, range(12)),
        ({"ids": [12, 3, 3, 99]}, [2, 11]),
        ({"ids": []}, []),
        ({"domain": "social"}, [1, 2, 4, 5, 7, 8, 10, 11]),
        ({"domain": "social", "subcluster": "family"}, [1, 4, 7, 10]),
        ({"speaker": "Caroline"}, [0, 2, 4, 6, 8, 10]),
        ({"speaker": "caroline"}, []),
        ({"after_utc": memories.START.timestamp() + 9 * memories.DAY_SEC}, [9, 10, 11]),
        ({"before_utc": memories.START.timestamp() + 2 * memories.DAY_SEC}, [0, 1]),
        ({"superseded": True}, [6]),
        ({"superseded": False, "domain": "spatial"}, [0, 3, 9]),
        ({"ids": range(1, 9), "speaker": "Melanie", "domain": "spatial"}, [3]),
    ],
)
def test_deposits_are_found_by_what_is_known_of_them(store, where, wanted):
    memories.fill(store, range(12))
    memories.fill(store, [12], time=None, speaker=None, domain="factual", subcluster="others")
    with store.batch() as batch:
        batch.supersede(7, 10, 1.8e9)
    expected = [seed + 1 for seed in wanted] + ([13] if where in ({}, {"superseded": None}) else [])
    assert ids(store.deposits(**where)) == expected


def test_many_deposits_come_in_pages(store):
    memories.fill(store, range(1200), positions=())
    assert ids(store.deposits()) == list(range(1, 1201))
    assert ids(store.deposits(ids=range(1200, 0, -1))) == list(range(1, 1201))
    assert ids(store.deposits(ids=range(2000), superseded=False, domain="spatial")) == list(range(1, 1201, 3))
    assert len(list(store.iter_keys())) == len(list(store.iter_keys(range(2000)))) == 1200
    with store.batch() as batch:
        assert batch.delete_deposits(range(1, 1201)).groups == tuple(sorted(memories.GROUPS))
    assert list(store.deposits()) == store.subclusters() == list(store.iter_keys()) == []


def test_a_search_reads_the_probed_sub_clusters_only(store):
    memories.fill(store, range(9))
    with store.batch() as batch:
        batch.supersede(1, 4, 1.8e9)
    asked = []
    store._catalogue._connection.set_trace_callback(asked.append)
    found, keys = store.keys_of([("spatial", "home"), ("social", "others"), ("spatial", "home"), ("social", "nothing")])
    store._catalogue._connection.set_trace_callback(None)
    seeds = [0, 3, 6, 2, 5, 8]
    np.testing.assert_array_equal(found, [s + 1 for s in seeds for _ in memories.keys_of(s)])
    np.testing.assert_array_equal(keys, np.concatenate([memories.keys_of(s) for s in seeds]))
    assert (found.dtype, keys.dtype, len(asked)) == (np.int64, np.float32, 3)
    found, _ = store.keys_of([("spatial", "home")], superseded=False)
    assert set(found.tolist()) == {4, 7}
    found, keys = store.keys_of([])
    assert (found.shape, keys.shape) == ((0,), (0, 4))
    plan = store._catalogue._all(
        "EXPLAIN QUERY PLAN SELECT d.id, k.vectors FROM deposits d LEFT JOIN keys k ON k.deposit_id = d.id"
        " WHERE d.domain = 'a' AND d.subcluster = 'b' ORDER BY d.id"
    )
    assert [row[3] for row in plan] == [
        "SEARCH d USING COVERING INDEX deposits_by_group (domain=? AND subcluster=?)",
        "SEARCH k USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN",
    ]


def test_states_expire_and_texts_do_not(store):
    memories.fill(store, range(4), positions=(1, 2, 3, 4))
    record_bytes = memories.LAYOUT.record_bytes
    assert store.state_bytes == 16 * record_bytes
    gone = memories.parts_of(2, 1)["state"].tobytes()
    assert any(gone in data for data in memories.segment_bytes(store.path).values())
    with store.batch() as batch:
        assert batch.drop_states(3, keep=[2, 4, 77]) == 2 * record_bytes
        assert batch.drop_states(3, keep=[2, 4]) == 0
        assert batch.drop_states(1) == 4 * record_bytes
    assert not any(gone in data for data in memories.segment_bytes(store.path).values())
    assert [store.states_of(number) for number in (1, 2, 3)] == [[], [1, 2, 3, 4], [2, 4]]
    assert store.read_state(1) is None
    assert store.read_state(3, 1) is None
    np.testing.assert_array_equal(store.read_state(3, 4).state, memories.parts_of(2, 4)["state"])
    assert store.deposit(1).info == memories.info_of(0)
    assert store.state_bytes == store.size().state_bytes == 10 * record_bytes
    with pytest.raises(CorpusError, match="no longer in the memory"):
        store.read_state(99)
    with pytest.raises(CorpusError, match="no such deposit"), store.batch() as batch:
        batch.drop_states(99)


def test_a_state_fits_its_deposit_or_is_refused(store):
    memories.fill(store, [0], positions=())
    tokens = memories.tokens_of(0)
    for position, ids_read in ((3, tokens[:2]), (0, []), (len(tokens) + 1, np.append(tokens, 5))):
        with pytest.raises(StateError, match="does not fit its deposit"), store.batch() as batch:
            batch.add_state(1, position, ids_read, **memories.parts_of(0, 1))
    with pytest.raises(StateError, match="another size"), store.batch() as batch:
        batch.add_state(1, 2, tokens[:2], state=b"x")
    with pytest.raises(CorpusError, match="no such deposit"), store.batch() as batch:
        batch.add_state(9, 1, tokens[:1], **memories.parts_of(0, 1))
    for keys in (np.ones((1, 3), np.float32), np.ones((0, 4), np.float32)):
        with pytest.raises(EncoderError), store.batch() as batch:
            batch.add_deposit(memories.info_of(5), keys)
    assert memories.segment_bytes(store.path) == {}
    with store.batch() as batch:
        for _ in range(2):
            batch.add_state(1, 2, tokens[:2], **memories.parts_of(0, 2))
    assert store.size().num_states == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"uid": b"short"}, "32 bytes"),
        ({"time": datetime.datetime(2023, 5, 8)}, "needs a zone"),
        ({"probability": float("nan")}, "cannot be kept"),
        ({"importance": float("inf")}, "cannot be kept"),
        ({"num_tokens": 0}, "at least one token"),
    ],
)
def test_a_deposit_that_cannot_be_kept_is_refused(store, change, message):
    with pytest.raises(CorpusError, match=message) as caught:
        memories.fill(store, [1], positions=(), **change)
    assert "\n" not in str(caught.value)
    assert list(store.deposits()) == []


@pytest.mark.parametrize("text", ["plain", "\ud83d lone \udcff surrogates", "nul \0 inside", "", "日本語 🎉"])
def test_texts_and_names_need_not_be_valid_unicode(store, text):
    names = dict.fromkeys(("text", "header", "key_text", "speaker", "place", "reference", "domain", "subcluster"), text)
    memories.fill(store, [1], details={"a": text}, **names)
    (deposit,) = store.deposits(speaker=text, domain=text, subcluster=text)
    assert deposit.info == memories.info_of(1, details={"a": text}, **names)
    assert store.subclusters() == [GroupSize(text, text, 1, 5)]
    with store.batch() as batch:
        batch.put_semantic(memories.semantic_of((text, text), 1))
        batch.put_emergent(Emergent(text, text, (1,)))
        batch.put_prototypes(StoredPrototypes(text, ((1,),)))
    assert store.semantic(text, text).group == (text, text)
    assert store.emergent() == [Emergent(text, text, (1,))]
    assert store.prototypes().text == text
    assert list(store.complaints()) == []
    assert len(store.checksum()) == 64


def test_what_is_derived_is_kept_to_the_bit(store):
    memories.fill(store, range(6))
    semantic = memories.semantic_of(("spatial", "home"), 4)
    grouping = Emergent("music", "social", (2, 3), True, {"seed": "violin"})
    with store.batch() as batch:
        batch.put_semantic(memories.semantic_of(("spatial", "home"), 1, seed=5))
        batch.put_semantic(semantic)
        batch.put_semantic(memories.semantic_of(("social", "family"), 2))
        batch.put_prototypes(StoredPrototypes("{}", ()))
        batch.put_prototypes(StoredPrototypes('{"a": 1}', ((1, 2), (), (5,))))
        batch.put_emergent(Emergent("music", "social", (2,)))
        batch.put_emergent(grouping)
        batch.put_emergent(Emergent("boats", "spatial", (1,)))
    with MemoryStore.open(store.path) as reader:
        found = reader.semantic("spatial", "home")
        assert (found.alpha, found.num_deposits, found.last_deposit_id, found.num_tokens) == (0.1, 3, 4, 60)
        assert found.recurrent.tobytes() == semantic.recurrent.tobytes()
        assert found.decay_time.tobytes() == semantic.decay_time.tobytes()
        assert reader.semantic("spatial", "nowhere") is None
        assert [s.group for s in reader.semantic_states()] == [("social", "family"), ("spatial", "home")]
        assert reader.prototypes() == StoredPrototypes('{"a": 1}', ((1, 2), (), (5,)))
        assert reader.emergent() == [Emergent("boats", "spatial", (1,)), grouping]
        assert reader.size().semantic_bytes == 2 * 4 * 56
    with store.batch() as batch:
        batch.delete_semantic("spatial", "home")
        batch.delete_emergent("boats")
        batch.delete_prototypes()
    assert (store.semantic("spatial", "home"), store.prototypes(), store.emergent()) == (None, None, [grouping])
    for put in (
        lambda batch: batch.put_semantic(memories.semantic_of(("a", "b"), 99)),
        lambda batch: batch.put_emergent(Emergent("x", "social", (1, 99))),
        lambda batch: batch.put_prototypes(StoredPrototypes("{}", ((99,),))),
    ):
        with pytest.raises(CorpusError, match="no such deposit"), store.batch() as batch:
            put(batch)
    bad = memories.semantic_of(("a", "b"), 1)
    bad.recurrent[7] = np.nan
    with pytest.raises(StateError, match="not finite: a/b"), store.batch() as batch:
        batch.put_semantic(bad)


def test_what_was_derived_from_a_deleted_deposit_goes_with_it(store):
    memories.fill(store, range(6))

    def derive(batch):
        for group, last in ((("spatial", "home"), 4), (("social", "family"), 5)):
            batch.put_semantic(memories.semantic_of(group, last))
        batch.put_prototypes(StoredPrototypes("{}", ((1,), (2, 5))))
        batch.put_emergent(Emergent("one", "social", (3,)))
        batch.put_emergent(Emergent("two", "social", (3, 6)))

    with store.batch() as batch:
        derive(batch)
        dropped = batch.delete_deposits([6])
    assert (dropped.groups, dropped.prototypes, dropped.emergent) == ((("social", "others"),), False, ("two",))
    assert dropped.state_bytes == 2 * memories.LAYOUT.record_bytes
    assert [e.members for e in store.emergent()] == [(3,), (3,)]
    with store.batch() as batch:
        dropped = batch.delete_deposits([3, 1])
    assert (dropped.groups, dropped.prototypes) == ((("social", "others"), ("spatial", "home")), True)
    assert dropped.emergent == ("one", "two")
    assert (store.emergent(), store.prototypes(), store.semantic("spatial", "home")) == ([], None, None)
    assert store.semantic("social", "family") is not None
    with pytest.raises(CorpusError, match=r"no such deposit.*given: 3"), store.batch() as batch:
        batch.delete_deposits([2, 3])
    assert ids(store.deposits()) == [2, 4, 5]


def test_moved_deposits_are_counted_and_searched_where_they_are(store):
    memories.fill(store, range(6))
    with store.batch() as batch:
        for group in memories.GROUPS:
            batch.put_semantic(memories.semantic_of(group, 1))
        dropped = batch.move_deposits([3, 6], "social", "music", 0.9)
        assert dropped.groups == (("social", "music"), ("social", "others"))
        assert batch.move_deposits([3], "social", "music", 0.8).groups == ()
    assert store.semantic("social", "others") is None
    assert store.semantic("spatial", "home") is not None
    tokens = [sum(len(memories.tokens_of(s)) for s in seeds) for seeds in ((1, 4), (2, 5), (0, 3))]
    assert store.subclusters() == [
        GroupSize("social", "family", 2, tokens[0]),
        GroupSize("social", "music", 2, tokens[1]),
        GroupSize("spatial", "home", 2, tokens[2]),
    ]
    assert set(store.keys_of([("social", "music")])[0].tolist()) == {3, 6}
    assert [d.info.probability for d in store.deposits(subcluster="music")] == [0.8, 0.9]
    assert list(store.complaints()) == []
    with pytest.raises(CorpusError, match="no such deposit"), store.batch() as batch:
        batch.move_deposits([1, 99], "social", "music", 0.9)
    assert store.deposit(1).info.subcluster == "home"


@pytest.mark.parametrize(
    ("gone", "left", "restored"),
    [
        ([2], {1: (3, 5.0), 3: (4, 7.0)}, ()),
        ([2, 3], {1: (4, 5.0)}, ()),
        ([3, 4], {1: (2, 5.0)}, (2,)),
        ([2, 3, 4], {}, (1,)),
        ([1], {2: (3, 6.0), 3: (4, 7.0)}, ()),
        ([4], {1: (2, 5.0), 2: (3, 6.0)}, (3,)),
    ],
)
def test_what_is_superseded_stays_so_as_long_as_anything_newer_is_left(store, gone, left, restored):
    memories.fill(store, range(4))
    with store.batch() as batch:
        for old in (1, 2, 3):
            batch.supersede(old, old + 1, 4.0 + old)
    with store.batch() as batch:
        assert batch.delete_deposits(gone).restored == restored
    assert {d.id: (d.superseded_by, d.superseded_at) for d in store.deposits(superseded=True)} == left
    assert list(store.complaints()) == []


def test_what_is_superseded_holds_again_when_the_newer_is_forgotten(store):
    memories.fill(store, range(4))
    with store.batch() as batch:
        batch.supersede(1, 2, 5.0)
        batch.supersede(2, 3, 6.0)
        for old, new in ((3, 1), (2, 2), (3, 2)):
            with pytest.raises(CorpusError, match="cannot supersede"):
                batch.supersede(old, new, 7.0)
        with pytest.raises(CorpusError, match="no such deposit"):
            batch.supersede(1, 99, 7.0)
    assert [(d.superseded_by, d.superseded_at) for d in store.deposits(superseded=True)] == [(2, 5.0), (3, 6.0)]
    assert store.size().num_superseded == 2
    with store.batch() as batch:
        assert batch.delete_deposits([3]).restored == (2,)
    with store.batch() as batch:
        assert batch.delete_deposits([2]).restored == (1,)
    assert ids(store.deposits(superseded=False)) == [1, 4]
    assert list(store.complaints()) == []


@pytest.mark.parametrize(
    "number",
    [1 << 63, 99999999999999999999999, -(1 << 63) - 1, 10**400, -(10**400)],
    ids=["64 bits", "77 bits", "negative", "no real either", "no negative real either"],
)
def test_a_number_that_no_row_can_hold_is_no_deposit(store, number: int):
    memories.fill(store, range(2))
    assert store.deposit(number) is None
    assert ids(store.deposits(ids=[1, number])) == [1]
    assert ids(store.deposits(from_id=number)) == ([] if number > 0 else [1, 2])
    assert store.states_of(number) == []
    assert list(store.iter_keys([number])) == []
    assert store.id_before(number, 1) == (2 if number > 0 else 0)
    with pytest.raises(CorpusError, match="no longer"):
        store.read_state(number)
    assert store.read_state(1, number) is None
    before = store.checksum()
    with store.batch() as batch:
        for act in (
            lambda: batch.supersede(1, number, 5.0),
            lambda: batch.supersede(number, 1, 5.0),
            lambda: batch.delete_deposits([1, number]),
            lambda: batch.drop_states(number),
            lambda: batch.move_deposits([number], "social", "music", 0.9),
        ):
            with pytest.raises(CorpusError, match="no such deposit"):
                act()
        batch.touch([number], 1.9e9)
    info = replace(memories.info_of(9), num_tokens=abs(number) + 1)
    with pytest.raises(CorpusError, match="too large to be kept"), store.batch() as batch:
        batch.add_deposit(info, np.ones((1, store.key_dim), np.float32))
    assert store.checksum() == before


def test_recall_is_counted_and_the_coldest_come_first(store):
    memories.fill(store, range(5))
    with store.batch() as batch:
        batch.touch([1, 4, 99], 1.8e9)
        batch.touch([1], 1.75e9)
        batch.touch([2], 1.79e9)
        batch.drop_states(3)
        batch.drop_states(5, keep=[12])
        batch.supersede(4, 5, 1.8e9)
    assert [(d.num_accesses, d.accessed_at) for d in store.deposits(ids=[1, 2, 4])] == [
        (2, 1.8e9),
        (1, 1.79e9),
        (1, 1.8e9),
    ]
    found = list(store.coldest())
    assert [kept.deposit_id for kept in found] == [2, 1, 4]
    assert [kept.num_bytes for kept in found] == [2 * memories.LAYOUT.record_bytes] * 3
    assert [kept.is_superseded for kept in found] == [False, False, True]
    first, info = found[0], memories.info_of(1)
    assert (first.importance, first.time_utc, first.domain, first.subcluster) == (0.25, info.time_utc, *info.group)
    assert (first.num_accesses, first.num_states) == (1, 2)


def test_coldest_streams_through_ties(store):
    memories.fill(store, range(700), positions=(1,), created_at=1.0)
    assert [kept.deposit_id for kept in store.coldest()] == list(range(1, 701))


def test_an_exception_undoes_the_whole_unit(store):
    memories.fill(store, range(4))
    before, files, generation = store.checksum(), memories.segment_bytes(store.path), store.generation

    def interrupted():
        with store.batch() as batch:
            memories.add(batch, 9)
            batch.put_semantic(memories.semantic_of(("spatial", "home"), 1))
            batch.move_deposits([1], "a", "b", 0.5)
            batch.drop_states(2)
            batch.delete_deposits([3])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert (store.checksum(), memories.segment_bytes(store.path), store.generation) == (before, files, generation)
    assert memories.fill(store, [9]) == [5]


def test_a_reader_cannot_write(store):
    with MemoryStore.open(store.path) as reader:
        for act in (reader.scrub, reader.compact, lambda: reader.batch().__enter__()):
            with pytest.raises(CorpusError, match="the memory is open to read only"):
                act()


def test_a_memory_is_no_corpus_and_a_corpus_no_memory(store, tmp_path):
    options = {"settings": {}, "layout": memories.LAYOUT, "fingerprint": memories.FINGERPRINT, "key_dim": 4}
    CorpusStore.create(tmp_path / "corpus", **options).close()
    for write in (False, True):
        with pytest.raises(CorpusError, match="this folder is a memory, not a corpus"):
            CorpusStore.open(store.path, write=write)
        with pytest.raises(CorpusError, match="this folder is a corpus, not a memory"):
            MemoryStore.open(tmp_path / "corpus", write=write)
    with pytest.raises(CorpusError, match="there is a memory here already"):
        CorpusStore.create(store.path, **options)
    with pytest.raises(CorpusError, match="there is a corpus here already"):
        MemoryStore.create(tmp_path / "corpus", **options)
    with pytest.raises(CorpusError, match="there is a memory here already"):
        memories.create(store.path)
    with pytest.raises(CorpusError, match="this folder is a corpus, not a memory"):
        MemoryStore.open_or_create(tmp_path / "corpus", **memories.OPTIONS)
    with pytest.raises(CorpusError, match=r"there is no memory here.*precog memory remember"):
        MemoryStore.open(tmp_path / "nowhere")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/me.jpg").write_bytes(b"jpeg")
    with pytest.raises(CorpusError, match="this folder is not a memory"):
        MemoryStore.open(tmp_path / "photos")
    with pytest.raises(CorpusError, match="not empty and not a memory"):
        MemoryStore.open_or_create(tmp_path / "photos", **memories.OPTIONS)
    assert [p.name for p in (tmp_path / "photos").iterdir()] == ["me.jpg"]


def test_sizes_are_those_of_what_is_kept(store):
    memories.fill(store, range(7))
    with store.batch() as batch:
        batch.put_semantic(memories.semantic_of(("spatial", "home"), 1))
    size = store.size()
    assert (size.num_deposits, size.num_subclusters, size.num_states, size.num_semantic) == (7, 3, 14, 1)
    assert size.num_tokens == sum(len(memories.tokens_of(s)) for s in range(7))
    assert size.key_bytes == sum(memories.keys_of(s).nbytes for s in range(7))
    assert size.text_bytes == sum(len(memories.text_of(s).encode()) for s in range(7))
    assert size.disk_bytes >= size.state_bytes
