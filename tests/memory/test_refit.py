"""Fitting a memory's sub-clusters: where its deposits go then, and what cannot be fitted."""

import json

import pytest
from tiny_memory import check_consistent, chunks, everything, groups, open_memory, said

from precog.backbones.tenns.backbone import TennsBackbone
from precog.errors import InputError
from precog.memory.deposit import deposit
from precog.memory.domains import read_seeds
from precog.memory.history import FitSettings
from precog.memory.made_with import prototypes_of
from precog.memory.recall import Recaller
from precog.memory.refit import fit_memory
from precog.memory.routing import FITTED_TEMPERATURE, TEMPERATURE

TEXTS = [
    *(f"We sailed boat {n} out of the harbour and the wind was strong." for n in range(8)),
    *(f"My sister baked cake {n} with plums for the birthday." for n in range(8)),
    *(f"The engine of car {n} needs oil, said the mechanic." for n in range(8)),
]
SETTINGS = [
    FitSettings(per_domain=2, least_members=2),
    FitSettings(least_members=3),
    FitSettings("hdbscan", least_members=4),
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_every_deposit_goes_where_the_fit_puts_it(tmp_path, backbone: TennsBackbone, settings: FitSettings) -> None:
    with open_memory(tmp_path / "m", backbone) as memory:
        deposit(memory, chunks(memory, said(*TEXTS)))
        before = groups(memory)
        report = fit_memory(memory, settings)
        after = groups(memory)
        assert report.num_fitted == sum(not entry.seeds for entry in memory.prototypes.subclusters) > 0
        assert not any(memory.prototypes.members)  # they would make every start of a session read more
        assert report.num_moved == sum(before[text][:2] != after[text][:2] for text in TEXTS) > 0
        assert sum(report.sizes.values()) == len(TEXTS)
        check_consistent(memory)
        assert json.loads(json.dumps(report.to_json()))["fitted"] == report.num_fitted
        fitted = everything(memory)
        assert fit_memory(memory, settings).num_moved == 0  # the same again changes nothing
        assert everything(memory) == fitted


def test_how_it_was_fitted_and_how_it_routes_by_then_is_kept(tmp_path, backbone: TennsBackbone) -> None:
    with open_memory(tmp_path / "m", backbone, threshold=0.9) as memory:
        deposit(memory, chunks(memory, said(*TEXTS)))
        assert memory.settings.temperature_of(memory.prototypes) == TEMPERATURE
        fit_memory(memory, SETTINGS[0])
        kept = prototypes_of(memory.store)
        assert kept.history.fit is not None
        assert (kept.history.fit.settings, kept.history.fit.last_id) == (SETTINGS[0], len(TEXTS))
        assert memory.settings.temperature_of(kept) == FITTED_TEMPERATURE != TEMPERATURE
        [newer] = deposit(memory, chunks(memory, said("We sailed boat 99 into the wind."))).ids
        check_consistent(memory)  # it was routed at the same temperature
        assert kept.history.fit.last_id < newer


def test_who_searches_sees_the_groups_of_a_fit_made_since(tmp_path, backbone: TennsBackbone) -> None:
    with open_memory(tmp_path / "m", backbone) as memory:
        deposit(memory, chunks(memory, said(*TEXTS)))
        recaller = Recaller(memory.store, memory.encoder)
        fit_memory(memory, SETTINGS[0])
        found = recaller.recall("engine oil mechanic", 3, probes=1)
        assert found.groups[0] in {(entry.domain, entry.name) for entry in memory.prototypes.subclusters}
        assert len(found.evidence) == 3


def test_states_follow_the_dial_of_the_groups_they_come_to(tmp_path, backbone: TennsBackbone) -> None:
    with open_memory(tmp_path / "m", backbone, dial_a="4", dial_b="2") as memory:
        deposit(memory, chunks(memory, said(*TEXTS)))
        with memory.store.batch() as batch:
            batch.drop_states(2)
        before = {entry.id: memory.store.states_of(entry.id) for entry in memory.store.deposits()}
        fit_memory(memory, SETTINGS[0])
        after = {entry.id: memory.store.states_of(entry.id) for entry in memory.store.deposits()}
        assert before != after
        assert before[2] == after[2] == []  # what has expired stays so
        check_consistent(memory)


def test_more_states_than_before_keep_the_budget(tmp_path, backbone: TennsBackbone) -> None:
    with open_memory(tmp_path / "m", backbone, dial_a="4", dial_b="1") as memory:
        deposit(memory, chunks(memory, said(*TEXTS)))
        kept_bytes = memory.store.state_bytes
    with open_memory(tmp_path / "n", backbone, dial_a="4", dial_b="1", budget_bytes=kept_bytes) as memory:
        deposit(memory, chunks(memory, said(*TEXTS)))
        assert memory.store.state_bytes == kept_bytes
        fit_memory(memory, SETTINGS[0])
        assert {entry.kind for entry in memory.prototypes.subclusters if not entry.seeds} == {"A"}
        assert 0 < memory.store.state_bytes <= kept_bytes
        check_consistent(memory)


def test_fitted_to_a_transcript_nothing_of_it_is_deposited(tmp_path, backbone: TennsBackbone) -> None:
    later = "The wind blew boat 99 back to the harbour."
    with open_memory(tmp_path / "m", backbone) as memory:
        deposit(memory, chunks(memory, said(later)))
        report = fit_memory(memory, SETTINGS[0], chunks(memory, said(*TEXTS)))
        assert report.num_fitted > 0
        assert set(groups(memory)) == {later}
        assert not any(memory.prototypes.members)
        assert memory.prototypes.subclusters != read_seeds()
        check_consistent(memory)


@pytest.mark.parametrize(
    ("texts", "settings", "line"),
    [
        ([], FitSettings(), "there is nothing to fit sub-clusters to; given: 0 deposits"),
        (TEXTS[:2], FitSettings(per_domain=3), "there are fewer texts than sub-clusters are wanted of each domain"),
        (TEXTS[:3], FitSettings(), "there is too little to fit a sub-cluster to; given: 3 texts; expected: 5 of one"),
        (TEXTS[:7], FitSettings("hdbscan", least_members=8), "expected: 8 of one domain that lie close together"),
    ],
)
def test_what_is_too_little_changes_nothing(
    tmp_path, backbone: TennsBackbone, texts: list[str], settings: FitSettings, line: str
) -> None:
    with open_memory(tmp_path / "m", backbone) as memory:
        deposit(memory, chunks(memory, said(*texts)))
        before = memory.store.checksum()
        with pytest.raises(InputError) as error:
            fit_memory(memory, settings)
        assert line in str(error.value)
        if texts:
            with pytest.raises(InputError) as error:
                fit_memory(memory, settings, chunks(memory, said(*texts)))
            assert line in str(error.value)
        else:
            with pytest.raises(InputError, match="a transcript without turns"):
                fit_memory(memory, settings, [])
        assert memory.store.checksum() == before
