import numpy as np
import pytest
from tiny_memory import chunks, open_memory, said

from precog.backbones.tenns.backbone import TennsBackbone
from precog.errors import StorageError
from precog.memory.deposit import deposit
from precog.memory.forget import forget
from precog.memory.recall import Recaller, refresh_index
from precog.memory.selection import Selection
from precog.memory.utterance import Utterance

PAIRS = [(colour, place) for colour in ("red", "green", "blue", "grey") for place in ("station", "harbour", "library")]
TEXTS = [
    f"Visitor {n} left the number {n * 7919 % 10007} and a {colour} umbrella at the {place}."
    for n, (colour, place) in enumerate(PAIRS)
]


def fill(folder, backbone, texts, **settings):
    memory = open_memory(folder, backbone, **settings)
    utterances = [entry for entry in said(*TEXTS) if entry.text in texts]
    deposit(memory, chunks(memory, utterances))
    refresh_index(memory.store, memory.settings.encoder_fingerprint)
    return memory


def semantic_bytes(memory) -> dict[tuple[str, str], tuple[bytes, bytes, int]]:
    return {
        entry.group: (entry.recurrent.tobytes(), entry.decay_time.tobytes(), entry.num_deposits)
        for entry in memory.store.semantic_states()
    }


@pytest.mark.parametrize("is_expired", [False, True])
def test_what_is_left_is_bit_equal_to_a_memory_that_never_saw_it(tmp_path, backbone: TennsBackbone, is_expired: bool):
    gone = TEXTS[3]
    with fill(tmp_path / "a", backbone, TEXTS) as memory, fill(tmp_path / "b", backbone, set(TEXTS) - {gone}) as never:
        if is_expired:
            with memory.store.batch() as batch:
                for entry in memory.store.deposits():
                    batch.drop_states(entry.id)
        found = [entry for entry in memory.store.deposits() if entry.info.text == gone]
        report = forget(memory, found, proof=True)
        assert report.hits == 0
        assert report.searched_for > 5
        assert semantic_bytes(memory) == semantic_bytes(never)
        assert gone.encode() not in b"".join(p.read_bytes() for p in (tmp_path / "a").rglob("*") if p.is_file())
        recaller = Recaller(memory.store, memory.encoder)
        assert gone not in {entry.deposit.info.text for entry in recaller.recall(gone, 20).evidence}


def test_what_holds_again_is_told_and_found(tmp_path, backbone: TennsBackbone):
    with fill(tmp_path / "a", backbone, TEXTS) as memory:
        with memory.store.batch() as batch:
            batch.supersede(1, 2, at=5.0)
            batch.supersede(2, 3, at=6.0)
        assert forget(memory, list(memory.store.deposits(ids=[2])), proof=False).to_json()["restored"] == []
        assert memory.store.deposit(1).superseded_by == 3
        assert forget(memory, list(memory.store.deposits(ids=[3])), proof=False).to_json()["restored"] == [1]
        found = Recaller(memory.store, memory.encoder).recall(TEXTS[0], 20).evidence
        assert 1 in {entry.deposit.id for entry in found}


def test_the_search_finds_what_is_left_behind(tmp_path, backbone: TennsBackbone):
    with fill(tmp_path / "a", backbone, TEXTS) as memory:
        record = memory.store.read_state(2)
        (tmp_path / "a" / "left.tmp").write_bytes(b"x" * 100 + record.state.tobytes()[640:768])
        (tmp_path / "a" / "note.txt").write_text(TEXTS[1])
        report = forget(memory, list(memory.store.deposits(ids=[2])), proof=True)
        assert report.hits >= 2
        assert {path.rpartition("/")[2] for path in report.hit_files} == {"left.tmp", "note.txt"}


MANY = [
    f"Guest {n} of the {colour} room paid {n * 7919 % 10007} crowns, {n * 31 % 97} of them in coins."
    for n, colour in enumerate(["red", "green", "blue", "grey", "white"] * 20)
]


def test_every_window_of_every_state_is_searched_for_however_many_deposits(tmp_path, backbone: TennsBackbone):
    with open_memory(tmp_path / "a", backbone, dial_a="3", dial_b="3") as memory:
        deposit(memory, chunks(memory, said(*MANY)))
        store, gone = memory.store, list(memory.store.deposits())[5:85]
        keys = {entry.deposit_id: entry.keys for entry in store.iter_keys()}
        middle = gone[40]
        first, *_, last = store.states_of(middle.id)
        assert first < last
        state = store.read_state(middle.id, first).state.tobytes()
        copies = {  # of one deposit of eighty: the last window, one in the middle, a key, a few words
            "last.bin": state[-64:],
            "middle.bin": store.read_state(middle.id).state.tobytes()[640:704],
            "key.bin": keys[middle.id][0].tobytes(),
            "words.txt": middle.info.text[-48:].encode(),
        }
        assert forget(memory, gone[:40], proof=True).hits == 0
        for name, data in copies.items():
            (tmp_path / "a" / name).write_bytes(b"odd" + data + b"!")
        seen: list[tuple[int, int]] = []
        report = forget(memory, gone[40:], proof=True, on_bytes=lambda done, total: seen.append((done, total)))
        assert report.hits >= len(copies)
        assert {path.rpartition("/")[2] for path in report.hit_files} == set(copies)
        assert seen[-1] == (report.bytes_searched, report.bytes_searched)


def test_a_state_that_another_deposit_shares_is_told_apart(tmp_path, backbone: TennsBackbone):
    """Two that begin alike have the same state on the dial after a few tokens, and hardly a word in common."""
    with open_memory(tmp_path / "m", backbone, dial_a="/4", dial_b="/4", alpha=1.0) as memory:
        texts = ["Please go to the harbour and ask for the keys.", "Please go to the library with the grey umbrella."]
        deposit(memory, chunks(memory, [Utterance(text, None, None) for text in texts]))
        one, two = memory.store.read_state(1, 4), memory.store.read_state(2, 4)
        assert one is not None
        assert two is not None
        assert one.state.tobytes() == two.state.tobytes()
        report = forget(memory, list(memory.store.deposits(ids=[1])), proof=True)
        assert report.hits == 0
        assert report.searched_for > 100


def test_everything_of_a_speaker_before_a_time(tmp_path, backbone: TennsBackbone):
    with open_memory(tmp_path / "m", backbone) as memory:
        deposit(memory, chunks(memory, [*said(*TEXTS[:3]), *said(*TEXTS[3:6], speaker="Ben")]))
        recaller = Recaller(memory.store, memory.encoder)
        second = memory.store.deposit(2).info.time
        chosen = Selection(speaker="Ana", before=second).find(memory.store, recaller)
        assert [entry.id for entry in chosen] == [1]
        report = forget(memory, Selection(speaker="Ben").find(memory.store, recaller), proof=True)
        assert report.ids == (4, 5, 6)
        assert report.hits == 0
        assert {entry.info.speaker for entry in memory.store.deposits()} == {"Ana"}


def test_all_of_it(tmp_path, backbone: TennsBackbone):
    with fill(tmp_path / "a", backbone, TEXTS) as memory:
        recaller = Recaller(memory.store, memory.encoder)
        report = forget(memory, Selection(everything=True).find(memory.store, recaller), proof=True)
        assert len(report.ids) == len(TEXTS)
        assert report.hits == 0
        assert memory.store.size().num_deposits == memory.store.size().num_semantic == 0
        assert not report.rebuilt


def test_what_another_deposit_says_too_is_told_apart(tmp_path, backbone: TennsBackbone):
    with open_memory(tmp_path / "m", backbone) as memory:
        deposit(memory, chunks(memory, said(TEXTS[0], "Something else.", TEXTS[0])))
        assert memory.store.size().num_deposits == 3
        report = forget(memory, list(memory.store.deposits(ids=[1])), proof=True)
        assert report.hits == 0
        assert "deposit 3 says some of the same" in report.outside
        assert np.isclose(memory.store.size().num_deposits, 2)


def test_an_index_that_cannot_be_removed_is_named_after_all_is_forgotten(tmp_path, backbone, monkeypatch):
    def refuse() -> None:
        raise StorageError("the disk refuses")

    with fill(tmp_path / "a", backbone, TEXTS) as memory:
        monkeypatch.setattr(memory.store, "drop_index", refuse)
        report = forget(memory, list(memory.store.deposits(ids=[2])), proof=False)
        assert report.ids == (2,)
        assert {name.rpartition("/")[2] for name in report.index_left} == {"dense.index", "lexical.index"}
        assert memory.store.deposit(2) is None
