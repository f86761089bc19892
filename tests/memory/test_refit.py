"""Fitting a memory's sub-clusters, and forgetting what a fit has read: equal to a memory that never held it."""

import json

import pytest
from tiny_memory import chunks, open_memory, said

from precog.backbones.tenns.backbone import TennsBackbone
from precog.errors import InputError, UsageError
from precog.memory import refit
from precog.memory.consolidate import refold
from precog.memory.deposit import deposit
from precog.memory.domains import OTHERS, read_seeds
from precog.memory.fit import FitSettings
from precog.memory.forget import forget
from precog.memory.keyed import Keyed
from precog.memory.opened import OpenMemory, prototypes_of
from precog.memory.prototypes import Prototypes, mean_key
from precog.memory.refit import FIT, fit_memory
from precog.memory.routing import route

TEXTS = [
    *(f"We sailed boat {n} out of the harbour and the wind was strong." for n in range(8)),
    *(f"My sister baked cake {n} with plums for the birthday." for n in range(8)),
    *(f"The engine of car {n} needs oil, said the mechanic." for n in range(8)),
]
LATER = ["The wind blew boat 99 back to the harbour.", "Plums again, in cake 77 of my sister."]
SETTINGS = [
    FitSettings(per_domain=2, least_members=2),
    FitSettings(least_members=3),
    FitSettings("hdbscan", least_members=4),
]


def filled(folder, backbone: TennsBackbone, settings: FitSettings, without: set[str]) -> OpenMemory:
    memory = open_memory(folder, backbone)
    utterances = said(*TEXTS, *LATER)
    is_kept = [entry for entry in utterances if entry.text not in without]
    deposit(memory, chunks(memory, [entry for entry in is_kept if entry.text in TEXTS]))
    fit_memory(memory, settings)
    deposit(memory, chunks(memory, [entry for entry in is_kept if entry.text in LATER]))
    return memory


def groups(memory: OpenMemory) -> dict[str, tuple[str, str, float]]:
    return {entry.info.text: (*entry.info.group, entry.info.probability) for entry in memory.store.deposits()}


def semantic(memory: OpenMemory) -> dict[tuple[str, str], tuple[bytes, bytes, int, int]]:
    return {
        entry.group: (entry.recurrent.tobytes(), entry.decay_time.tobytes(), entry.num_deposits, entry.num_tokens)
        for entry in memory.store.semantic_states()
    }


def fitted(prototypes: Prototypes) -> list[tuple[object, bytes, int]]:
    rows = zip(prototypes.subclusters, prototypes.keys, prototypes.members, strict=True)
    return [(entry, key.tobytes(), len(members)) for entry, key, members in rows]


def is_consistent(memory: OpenMemory) -> None:
    """Every deposit is where the prototypes route it, every semantic state what folding gives."""
    assert fitted(prototypes_of(memory.store)) == fitted(memory.prototypes)
    keys = {entry.deposit_id: mean_key(entry.keys) for entry in memory.store.iter_keys()}
    for entry in memory.store.deposits():
        threshold, temperature = memory.settings.threshold, memory.settings.temperature
        routed = route(keys[entry.id], memory.prototypes, temperature=temperature, threshold=threshold)
        assert (*entry.info.group, entry.info.probability) == (routed.domain, routed.subcluster, routed.probability)
    wanted = {size.domain + size.subcluster for size in memory.store.subclusters() if size.subcluster != OTHERS}
    assert {domain + name for domain, name in semantic(memory)} == wanted
    for group, found in semantic(memory).items():
        members = memory.store.deposits(domain=group[0], subcluster=group[1])
        again = refold(memory.store, members, group, memory.settings.alpha, memory.backbone, memory.reader)
        assert again is not None
        assert again.recurrent.tobytes() == found[0]


@pytest.mark.parametrize("settings", SETTINGS)
def test_every_deposit_goes_where_the_fit_puts_it(tmp_path, backbone: TennsBackbone, settings: FitSettings) -> None:
    with open_memory(tmp_path / "m", backbone) as memory:
        deposit(memory, chunks(memory, said(*TEXTS)))
        before = groups(memory)
        report = fit_memory(memory, settings)
        after = groups(memory)
        assert report.num_fitted == sum(bool(members) for members in memory.prototypes.members) > 0
        assert report.num_moved == sum(before[text][:2] != after[text][:2] for text in TEXTS) > 0
        assert sum(report.sizes.values()) == len(TEXTS)
        is_consistent(memory)
        assert json.loads(json.dumps(report.to_json()))["fitted"] == report.num_fitted
        assert fit_memory(memory, settings).num_moved == 0  # the same again changes nothing
        assert groups(memory) == after


@pytest.mark.parametrize(
    ("settings", "gone"),
    [
        (SETTINGS[0], {TEXTS[3]}),
        (SETTINGS[0], {LATER[1]}),
        (SETTINGS[0], set(TEXTS[8:16])),
        (SETTINGS[1], {TEXTS[0], TEXTS[10], LATER[0]}),
        (SETTINGS[2], {TEXTS[3]}),
    ],
)
def test_forgetting_is_equal_to_never_having_seen_it(
    tmp_path, backbone: TennsBackbone, settings: FitSettings, gone: set[str]
) -> None:
    with (
        filled(tmp_path / "a", backbone, settings, set()) as memory,
        filled(tmp_path / "b", backbone, settings, gone) as never,
    ):
        found = [entry for entry in memory.store.deposits() if entry.info.text in gone]
        assert len(found) == len(gone)
        report = forget(memory, found, proof=True)
        assert report.hits == 0
        assert ("prototypes" in report.dropped) == (gone != {LATER[1]})
        assert groups(memory) == groups(never)
        assert semantic(memory) == semantic(never)
        assert fitted(memory.prototypes) == fitted(never.prototypes)
        is_consistent(memory)
        assert not {entry.id for entry in found} & {m for members in memory.prototypes.members for m in members}


def test_it_is_equal_after_all_states_have_expired(tmp_path, backbone: TennsBackbone) -> None:
    gone = {TEXTS[3], TEXTS[20]}
    with (
        filled(tmp_path / "a", backbone, SETTINGS[0], set()) as memory,
        filled(tmp_path / "b", backbone, SETTINGS[0], gone) as never,
    ):
        with memory.store.batch() as batch:
            for entry in memory.store.deposits():
                batch.drop_states(entry.id)
        forget(memory, [entry for entry in memory.store.deposits() if entry.info.text in gone], proof=False)
        assert (groups(memory), semantic(memory)) == (groups(never), semantic(never))


def test_when_nothing_of_the_fit_is_left_seeds_route_again(tmp_path, backbone: TennsBackbone) -> None:
    with filled(tmp_path / "m", backbone, SETTINGS[0], set()) as memory:
        forget(memory, [entry for entry in memory.store.deposits() if entry.info.text in TEXTS], proof=False)
        assert memory.prototypes.subclusters == read_seeds()
        assert memory.store.emergent() == []
        assert set(groups(memory)) == set(LATER)
        is_consistent(memory)


def test_without_scikit_learn_forgetting_goes_on(
    tmp_path, backbone: TennsBackbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(deposits: Keyed, base: Prototypes, settings: FitSettings) -> Prototypes:
        raise UsageError("clustering needs a package that is not installed")

    with filled(tmp_path / "m", backbone, SETTINGS[0], set()) as memory:
        monkeypatch.setattr(refit, "fit", missing)
        report = forget(memory, list(memory.store.deposits(ids=[4])), proof=True)
        assert (report.ids, report.hits) == ((4,), 0)
        assert "the fit of sub-clusters: seeds are used again" in report.dropped
        assert memory.prototypes.subclusters == read_seeds()
        is_consistent(memory)


def test_fitted_to_a_transcript_nothing_of_it_is_deposited(tmp_path, backbone: TennsBackbone) -> None:
    with open_memory(tmp_path / "m", backbone) as memory:
        deposit(memory, chunks(memory, said(*LATER)))
        fit_memory(memory, SETTINGS[0], chunks(memory, said(*TEXTS)))
        assert set(groups(memory)) == set(LATER)
        assert not any(memory.prototypes.members)
        is_consistent(memory)
        fitted_names = memory.prototypes.subclusters
        assert fitted_names != read_seeds()
        forget(memory, list(memory.store.deposits(ids=[1])), proof=False)
        assert memory.prototypes.subclusters == fitted_names  # it had no part in them


def test_what_a_transcript_shares_with_the_memory_takes_the_fit_along(tmp_path, backbone: TennsBackbone) -> None:
    with open_memory(tmp_path / "m", backbone) as memory:
        deposit(memory, chunks(memory, said(*TEXTS[:9])))
        fit_memory(memory, SETTINGS[0], chunks(memory, said(*TEXTS)))
        assert any(memory.prototypes.members)
        forget(memory, list(memory.store.deposits(ids=[1])), proof=True)
        assert memory.prototypes.subclusters == read_seeds()
        is_consistent(memory)


def test_nothing_to_fit_to_changes_nothing(tmp_path, backbone: TennsBackbone) -> None:
    with open_memory(tmp_path / "m", backbone) as memory:
        before = memory.store.checksum()
        with pytest.raises(InputError, match="nothing to fit"):
            fit_memory(memory, FitSettings())
        with pytest.raises(InputError, match="nothing to fit"):
            fit_memory(memory, FitSettings(), [])
        assert memory.store.checksum() == before
        assert [entry.name for entry in memory.store.emergent()] != [FIT]
