import signal

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_memory import check_consistent, chunks, everything, open_memory, said

import precog.memory.deposit as deposit_room
from precog.backbones.tenns.backbone import TennsBackbone
from precog.errors import UsageError
from precog.memory.consolidate import last_state, refold
from precog.memory.deposit import deposit
from precog.memory.place import memory_folder
from precog.memory.recall import Recaller
from precog.memory.settings import MemorySettings

FACTS = [
    "My sister Clara moved to Lisbon in March.",
    "I felt sad after the meeting with the team.",
    "The boiler pressure dropped to 0.8 bar.",
    "We will meet at the station on Friday at nine.",
    "The capital of Portugal is Lisbon, on the river Tejo.",
]


def test_what_was_said_comes_back_first(tmp_path, backbone: TennsBackbone):
    with open_memory(tmp_path / "m", backbone) as memory:
        done = deposit(memory, chunks(memory, said(*FACTS)))
        assert done.ids == (1, 2, 3, 4, 5)
        found = Recaller(memory.store, memory.encoder).recall("the boiler pressure", 2)
        assert found.evidence[0].deposit.info.text == FACTS[2]
        assert found.fraction_searched == 1.0


def test_the_same_is_deposited_once(tmp_path, backbone: TennsBackbone):
    with open_memory(tmp_path / "m", backbone) as memory:
        first = deposit(memory, chunks(memory, said(*FACTS)))
        before = {group.group: group.recurrent.tobytes() for group in memory.store.semantic_states()}
        again = deposit(memory, chunks(memory, said(*FACTS)))
        assert again.ids == first.ids
        assert again.num_duplicates == len(FACTS)
        assert {group.group: group.recurrent.tobytes() for group in memory.store.semantic_states()} == before


@pytest.mark.parametrize("alpha", [0.1, 0.5, 1.0])
def test_semantic_states_are_the_moving_average(tmp_path, backbone: TennsBackbone, alpha: float):
    with open_memory(tmp_path / "m", backbone, alpha=alpha) as memory:
        deposit(memory, chunks(memory, said(*FACTS)))
        groups = {entry.info.group for entry in memory.store.deposits()}
        assert {semantic.group for semantic in memory.store.semantic_states()} == groups
        for group in groups:
            average = None
            for entry in memory.store.deposits(domain=group[0], subcluster=group[1]):
                state = last_state(memory.store, entry, backbone, memory.reader).recurrent.numpy().ravel()
                average = state if average is None else np.float32(1 - alpha) * average + np.float32(alpha) * state
            semantic = memory.store.semantic(*group)
            assert semantic is not None
            assert semantic.recurrent.tobytes() == average.astype(np.float32).tobytes()


def test_others_form_no_semantic_state(tmp_path, backbone: TennsBackbone):
    with open_memory(tmp_path / "m", backbone, threshold=1.0) as memory:
        deposit(memory, chunks(memory, said(*FACTS)))
        assert {entry.info.subcluster for entry in memory.store.deposits()} == {"others"}
        assert not list(memory.store.semantic_states())


@pytest.mark.parametrize("codec", ["fp16", "fp32", "int8"])
def test_expired_states_are_read_again_bit_for_bit(tmp_path, backbone: TennsBackbone, codec: str):
    with open_memory(tmp_path / "m", backbone, codec=codec, dial_a="2", dial_b="/8") as memory:
        deposit(memory, chunks(memory, said(*FACTS)))
        kept = [last_state(memory.store, entry, backbone, memory.reader) for entry in memory.store.deposits()]
        with memory.store.batch() as batch:
            for entry in memory.store.deposits():
                assert batch.drop_states(entry.id) > 0
        for entry, state in zip(memory.store.deposits(), kept, strict=True):
            assert memory.store.read_state(entry.id) is None
            again = last_state(memory.store, entry, backbone, memory.reader)
            assert again.recurrent.numpy().tobytes() == state.recurrent.numpy().tobytes()
            assert again.decay_time.numpy().tobytes() == state.decay_time.numpy().tobytes()
        for semantic in memory.store.semantic_states():
            left = memory.store.deposits(domain=semantic.domain, subcluster=semantic.subcluster)
            anew = refold(memory.store, left, semantic.group, semantic.alpha, backbone, memory.reader)
            assert anew is not None
            assert anew.recurrent.tobytes() == semantic.recurrent.tobytes()


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records=st.integers(1, 8), seed=st.integers(0, 2**31))
def test_the_budget_is_kept(tmp_path_factory, backbone: TennsBackbone, records: int, seed: int):
    folder = tmp_path_factory.mktemp("budget") / "m"
    with open_memory(folder, backbone) as memory:
        budget = records * memory.store.layout.record_bytes
    with open_memory(folder.parent / "n", backbone, budget_bytes=budget) as memory:
        order = np.random.default_rng(seed).permutation(len(FACTS))
        expired = 0
        for n in order.tolist():
            expired += len(deposit(memory, chunks(memory, said(FACTS[n])[:1])).expired.deposit_ids)
            assert memory.store.state_bytes <= budget
        assert memory.store.size().num_deposits == len(FACTS)
        assert expired == max(0, len(FACTS) - records)


def test_a_long_turn_is_deposited_in_parts(tmp_path, backbone: TennsBackbone):
    with open_memory(tmp_path / "m", backbone, chunk_tokens=96) as memory:
        done = deposit(memory, chunks(memory, said(" ".join(FACTS * 4))))
        assert len(done.ids) > 3
        assert all(entry.info.num_tokens <= 96 for entry in memory.store.deposits())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("last", [1, 3, len(FACTS)])
def test_what_is_complete_when_a_signal_comes_is_kept(
    tmp_path, backbone: TennsBackbone, monkeypatch: pytest.MonkeyPatch, number: int, last: int
):
    read, told = deposit_room.states_along, 0

    def states_then_signal(*given):
        nonlocal told
        told += 1
        if told == last:
            signal.raise_signal(number)
        return read(*given)

    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # as on the command line
    try:
        with open_memory(tmp_path / "m", backbone) as memory:
            monkeypatch.setattr(deposit_room, "states_along", states_then_signal)
            with pytest.raises(KeyboardInterrupt):
                deposit(memory, chunks(memory, said(*FACTS)))
            monkeypatch.setattr(deposit_room, "states_along", read)
            assert [entry.info.text for entry in memory.store.deposits()] == FACTS[:last]
            check_consistent(memory)
            again = deposit(memory, chunks(memory, said(*FACTS)))
            assert again.num_duplicates == last
            with open_memory(tmp_path / "n", backbone) as left_alone:
                deposit(left_alone, chunks(left_alone, said(*FACTS)))
                assert everything(memory) == everything(left_alone)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_probing_searches_a_part(tmp_path, backbone: TennsBackbone):
    with open_memory(tmp_path / "m", backbone) as memory:
        deposit(memory, chunks(memory, said(*FACTS)))
        recaller = Recaller(memory.store, memory.encoder)
        groups = len(memory.store.subclusters())
        assert groups > 1
        one = recaller.recall(FACTS[0], 5, probes=1)
        assert len(one.groups) == 1
        assert 0 < one.fraction_searched < 1
        assert {entry.deposit.info.group for entry in one.evidence} == set(one.groups)
        assert recaller.recall(FACTS[0], 5, probes=groups).fraction_searched == 1.0


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(turns=st.lists(st.tuples(st.sampled_from(["ana", "ben"]), st.sampled_from(FACTS)), min_size=1, max_size=8))
def test_nothing_crosses_between_users(tmp_path_factory, backbone: TennsBackbone, turns: list[tuple[str, str]]):
    home = tmp_path_factory.mktemp("users")
    for user, text in turns:
        folder = memory_folder(home, user)
        folder.parent.mkdir(exist_ok=True)
        with open_memory(folder, backbone) as memory:
            deposit(memory, chunks(memory, said(f"{user}: {text}", speaker=user)))
    for user in {user for user, _ in turns}:
        with open_memory(memory_folder(home, user), backbone) as memory:
            recaller = Recaller(memory.store, memory.encoder)
            mine = {f"{user}: {text}" for who, text in turns if who == user}
            for _, text in turns:
                assert {entry.deposit.info.text for entry in recaller.recall(text, 10).evidence} <= mine
            members = sum(semantic.num_deposits for semantic in memory.store.semantic_states())
            assert members == len(mine) == memory.store.size().num_deposits


@pytest.mark.parametrize("wrong", [{"alpha": 0.0}, {"alpha": 1.5}, {"dial_a": "0"}, {"budget_bytes": -1}])
def test_settings_out_of_range_are_refused(wrong: dict[str, object]):
    with pytest.raises(UsageError):
        MemorySettings("", "", "", **wrong)  # type: ignore[arg-type]
