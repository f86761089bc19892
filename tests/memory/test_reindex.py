import contextlib
import os
import sqlite3
from dataclasses import replace

import pytest
from tiny_memory import check_consistent, chunks, everything, forget_texts, open_memory, said

from precog.backbones.tenns.backbone import TennsBackbone
from precog.errors import DamagedCorpusError, ForeignStateError
from precog.memory import opened
from precog.memory import reindex as reindexing
from precog.memory.deposit import deposit
from precog.memory.history import FitSettings
from precog.memory.recall import Recaller
from precog.memory.refit import fit_memory
from precog.records import ModelChoice
from precog.store.memory import MemoryStore
from precog.text.tokenizer import load_mistral_tokenizer

TEXTS = ["The red boat left the harbour.", "Clara moved to Lisbon.", "The boiler broke down on Monday."]


@pytest.fixture(scope="module")
def other() -> TennsBackbone:
    return TennsBackbone.random("tiny", load_mistral_tokenizer())


def rows(memory: opened.OpenMemory) -> list[tuple[object, ...]]:
    return [(entry.id, entry.info.text, entry.info.group, entry.superseded_by) for entry in memory.store.deposits()]


class Chosen(ModelChoice):
    """A model that is here already."""

    loaded: TennsBackbone

    def open(self, made_by: str, encode_mode: str, template: str = "", made_in: str = "") -> TennsBackbone:
        return self.loaded


def choice(backbone: TennsBackbone) -> ModelChoice:
    made = Chosen()
    object.__setattr__(made, "loaded", backbone)
    return made


@pytest.fixture
def _same_encoder(monkeypatch: pytest.MonkeyPatch):
    from made_keys import CountingEncoder

    monkeypatch.setattr(reindexing, "load_encoder", lambda spec: CountingEncoder())


@pytest.mark.usefixtures("_same_encoder")
def test_another_model_reads_the_texts_again(tmp_path, backbone: TennsBackbone, other: TennsBackbone):
    with open_memory(tmp_path / "a", backbone) as memory:
        deposit(memory, chunks(memory, said(*TEXTS)))
        with memory.store.batch() as batch:
            batch.supersede(1, 3, at=1.0)
            batch.drop_states(2)
        before = [
            (entry.id, entry.info.text, entry.info.group, entry.superseded_by) for entry in memory.store.deposits()
        ]
    with MemoryStore.open(tmp_path / "a", write=True) as store, pytest.raises(ForeignStateError):
        opened.check_model(store, opened.settings_of(store), other)
    report = reindexing.reindex(tmp_path / "a", choice(other))
    assert (report.num_deposits, report.num_states) == (3, 2)
    with open_memory(tmp_path / "a", other) as memory, open_memory(tmp_path / "b", other) as direct:
        deposit(direct, chunks(direct, said(*TEXTS)))
        after = [
            (entry.id, entry.info.text, entry.info.group, entry.superseded_by) for entry in memory.store.deposits()
        ]
        assert after == before
        for semantic in direct.store.semantic_states():
            here = memory.store.semantic(*semantic.group)
            assert here is not None
            assert here.recurrent.tobytes() == semantic.recurrent.tobytes()
        found = Recaller(memory.store, memory.encoder).recall("Lisbon", 1)
        assert found.evidence[0].deposit.id == 2


@pytest.mark.usefixtures("_same_encoder")
def test_an_interrupted_run_goes_on(tmp_path, backbone: TennsBackbone, other: TennsBackbone, monkeypatch):
    with open_memory(tmp_path / "a", backbone) as memory:
        deposit(memory, chunks(memory, said(*TEXTS)))
    monkeypatch.setattr("precog.memory.deposit.UNIT_DEPOSITS", 1)

    def stop(done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reindexing.reindex(tmp_path / "a", choice(other), on_progress=stop)
    with MemoryStore.open(tmp_path / "a") as store:
        assert store.fingerprint.hex() == backbone.fingerprint
    seen: list[int] = []
    reindexing.reindex(tmp_path / "a", choice(other), on_progress=lambda done, total: seen.append(done))
    assert seen == [3]
    with MemoryStore.open(tmp_path / "a") as store:
        assert store.fingerprint.hex() == other.fingerprint
        assert [entry.info.text for entry in store.deposits()] == TEXTS


@pytest.mark.usefixtures("_same_encoder")
@pytest.mark.parametrize("change", ["supersede", "fit", "touch", "tell"])
def test_a_memory_that_changed_since_is_read_anew(
    tmp_path, backbone: TennsBackbone, other: TennsBackbone, monkeypatch, change: str
):
    texts = [f"{text} {number} times." for number in range(3) for text in TEXTS]
    with open_memory(tmp_path / "a", backbone) as memory:
        deposit(memory, chunks(memory, said(*texts)))
    monkeypatch.setattr("precog.memory.deposit.UNIT_DEPOSITS", 4)

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reindexing.reindex(tmp_path / "a", choice(other), on_progress=stop)
    with open_memory(tmp_path / "a", backbone) as memory:
        if change == "fit":
            fit_memory(memory, FitSettings(per_domain=1, least_members=2))
        elif change == "tell":
            deposit(memory, chunks(memory, said("A new boat came.", speaker="Ben")))
        else:
            with memory.store.batch() as batch:
                batch.supersede(1, 2, at=7.0) if change == "supersede" else batch.touch([1], 9e9)
        before = [replace(entry, info=replace(entry.info, num_tokens=0)) for entry in memory.store.deposits()]
        prototypes = memory.prototypes.to_json()
    seen: list[int] = []
    reindexing.reindex(tmp_path / "a", choice(other), on_progress=lambda done, total: seen.append(done))
    assert seen[0] == 4
    with open_memory(tmp_path / "a", other) as memory:
        assert [replace(entry, info=replace(entry.info, num_tokens=0)) for entry in memory.store.deposits()] == before
        assert memory.prototypes.to_json() == prototypes
        check_consistent(memory)


@pytest.mark.usefixtures("_same_encoder")
def test_what_was_fitted_stays_and_is_made_again_when_something_is_forgotten(
    tmp_path, backbone: TennsBackbone, other: TennsBackbone
):
    texts = [f"{text} {number} times." for number in range(3) for text in TEXTS]
    how = FitSettings(per_domain=1, least_members=2)
    with open_memory(tmp_path / "a", backbone) as memory, open_memory(tmp_path / "b", other) as never:
        deposit(memory, chunks(memory, said(*texts)))
        fit_memory(memory, how)
        fitted = memory.prototypes.to_json()
        deposit(never, [chunk for chunk in chunks(never, said(*texts)) if chunk.utterance.text != texts[4]])
        fit_memory(never, how)
        wanted = everything(never)
    reindexing.reindex(tmp_path / "a", choice(other))
    with open_memory(tmp_path / "a", other) as memory:
        assert memory.prototypes.to_json() == fitted
        check_consistent(memory)
        forget_texts(memory, [texts[4]])
        assert everything(memory) == wanted


@pytest.mark.usefixtures("_same_encoder")
@pytest.mark.parametrize("is_fitted", [False, True])
def test_what_is_damaged_is_left_out_or_made_anew(is_fitted: bool, tmp_path, backbone: TennsBackbone):
    folder = tmp_path / "m"
    texts = [f"The red boat number {n} left the harbour of Lisbon." for n in range(11)]
    with open_memory(folder, backbone) as memory:
        deposit(memory, chunks(memory, said(*texts)))
        if is_fitted:
            fit_memory(memory, FitSettings(per_domain=2))
        with memory.store.batch() as batch:
            batch.supersede(2, 1, at=1.0)
        prototypes = memory.prototypes
        before = rows(memory)
    with contextlib.closing(sqlite3.connect(folder / "000001/catalogue.sqlite")) as connection:
        connection.execute("UPDATE deposits SET text = 'x' WHERE id = 1")
        connection.execute("UPDATE keys SET vectors = x'00' WHERE deposit_id = 4")
        connection.execute("UPDATE semantic SET num_tokens = 1")
        if not is_fitted:
            connection.execute("UPDATE prototypes SET text = text || ' '")
        connection.commit()
    report = reindexing.reindex(folder, choice(backbone))
    assert (report.num_deposits, report.damage.lost) == (10, (1,))
    assert any("prototypes were damaged" in line for line in report.damage.lines) != is_fitted
    with open_memory(folder, backbone) as memory:
        # what it has superseded holds again, as if it had been forgotten
        assert rows(memory) == [(number, text, group, None) for number, text, group, _ in before[1:]]
        assert list(memory.store.complaints()) == []
        assert memory.prototypes.keys.tobytes() == prototypes.keys.tobytes()
        assert not any(1 in members for members in memory.prototypes.members)
        check_consistent(memory)


@pytest.mark.usefixtures("_same_encoder")
@pytest.mark.parametrize("damage", ["count", "cut short", "missing"])
def test_states_that_are_damaged_are_made_anew(damage: str, tmp_path, backbone: TennsBackbone):
    folder = tmp_path / "m"
    with open_memory(folder, backbone) as memory:
        deposit(memory, chunks(memory, said(*TEXTS)))
        before = rows(memory)
    file = folder / "000001/segments/000000.seg"
    if damage == "count":
        with contextlib.closing(sqlite3.connect(folder / "000001/catalogue.sqlite")) as connection:
            connection.execute("UPDATE segments SET num_records = 1")
            connection.commit()
    elif damage == "cut short":
        os.truncate(file, 5000)
    else:
        file.unlink()
    with pytest.raises(DamagedCorpusError, match="memory reindex"):
        MemoryStore.open(folder, write=True)
    reindexing.reindex(folder, choice(backbone))
    with open_memory(folder, backbone) as memory:
        assert rows(memory) == before
        assert [memory.store.read_state(number) is not None for number, *_ in before] == [True] * len(before)
        assert list(memory.store.complaints()) == []
