"""Groups that emerge in a memory, promoted and drawn."""

from typing import Literal

import numpy as np
import pytest
from made_keys import CountingEncoder
from tiny_memory import check_consistent, chunks, groups, open_memory, said, semantic

from precog.backbones.tenns.backbone import TennsBackbone
from precog.errors import InputError
from precog.memory.deposit import deposit
from precog.memory.domains import OTHERS, read_seeds
from precog.memory.emerge import candidates, promote
from precog.memory.history import FitSettings
from precog.memory.opened import OpenMemory
from precog.memory.panels import panels_of
from precog.memory.projection import note_on, project
from precog.memory.prototypes import from_seeds
from precog.memory.refit import fit_memory

ORCHARD = [f"Quince orchard medlar quince orchard medlar row {n}." for n in range(24)]
SCATTERED = [f"Thing{n * 31} of{n * 17} kind{n * 13} from{n * 7} nowhere{n * 3}." for n in range(20)]


@pytest.fixture
def memory(tmp_path, backbone: TennsBackbone):
    with open_memory(tmp_path / "m", backbone, threshold=0.5) as opened:
        deposit(opened, chunks(opened, said(*ORCHARD, *SCATTERED)))
        yield opened


def held(memory: OpenMemory, name: str) -> set[str]:
    return {text for text, (_, subcluster, _) in groups(memory).items() if subcluster == name}


def test_a_group_emerges_and_nothing_changes_by_finding_it(memory: OpenMemory) -> None:
    before = memory.store.checksum()
    [found] = candidates(memory.store, memory.prototypes)
    assert {"quince", "orchard", "medlar"} >= set(found.name.split()) != set()
    texts = {entry.info.text for entry in memory.store.deposits(ids=list(found.member_ids))}
    assert len(texts & set(ORCHARD)) >= 20
    assert candidates(memory.store, memory.prototypes, found.domain)[0].member_ids == found.member_ids
    assert candidates(memory.store, memory.prototypes, least_members=40) == []
    with pytest.raises(InputError, match="no such domain"):
        candidates(memory.store, memory.prototypes, "weather")
    assert memory.store.checksum() == before


def test_promoted_it_holds_its_members_and_new_ones(memory: OpenMemory) -> None:
    [found] = candidates(memory.store, memory.prototypes)
    assert held(memory, found.name) == set()
    done = promote(memory, found.name)
    assert done.num_deposits == len(held(memory, found.name)) >= 20
    assert (found.domain, found.name) in semantic(memory)
    check_consistent(memory)
    deposit(memory, chunks(memory, said("Quince orchard medlar quince orchard medlar row 99.")))
    assert len(held(memory, found.name)) == done.num_deposits + 1
    assert candidates(memory.store, memory.prototypes) == []
    with pytest.raises(InputError, match="no group of that name emerges"):
        promote(memory, found.name)


def test_a_new_fit_does_not_keep_what_was_promoted(memory: OpenMemory) -> None:
    [found] = candidates(memory.store, memory.prototypes)
    promote(memory, found.name)
    assert [step.name for step in memory.prototypes.history.promotions] == [found.name]
    fit_memory(memory, FitSettings(per_domain=1))
    assert memory.prototypes.history.promotions == ()
    check_consistent(memory)


def test_the_map_has_every_deposit_once_and_outlines_what_emerges(memory: OpenMemory) -> None:
    [found] = candidates(memory.store, memory.prototypes)
    panels = panels_of(memory.store, memory.prototypes, projection="pca")
    assert sum(len(panel.points) for panel in panels) == len(ORCHARD) + len(SCATTERED)
    assert {panel.title for panel in panels} == {domain for domain, _, _ in groups(memory).values()}
    assert {panel.title: list(panel.emergent) for panel in panels if panel.emergent} == {found.domain: [found.name]}
    for panel in panels:
        deposits = list(memory.store.deposits(domain=panel.title))
        wanted = [None if entry.info.subcluster == OTHERS else entry.info.subcluster for entry in deposits]
        assert list(panel.labels) == wanted
        for rows in panel.emergent.values():
            assert [deposits[row].id for row in rows] == list(found.member_ids)
    [one] = panels_of(memory.store, memory.prototypes, found.domain)
    assert one.title == found.domain


def test_a_map_of_little_says_so(tmp_path, backbone: TennsBackbone) -> None:
    with open_memory(tmp_path / "m", backbone) as little:
        deposit(little, chunks(little, said("Plums.")))
        [one] = panels_of(little.store, little.prototypes)
        assert one.note == "too few to lay out: places mean nothing"
        assert (note_on(3, "tsne"), note_on(3, "pca")) == ("too few for t-SNE: laid out by PCA", "")
        assert note_on(10, "tsne") == ""


def test_there_is_no_map_of_nothing(tmp_path, backbone: TennsBackbone) -> None:
    with open_memory(tmp_path / "m", backbone) as empty:
        prototypes = from_seeds(read_seeds(), CountingEncoder())
        with pytest.raises(InputError, match="nothing to draw"):
            panels_of(empty.store, prototypes)
        with pytest.raises(InputError, match="nothing to draw; given: 0 deposits of social"):
            panels_of(empty.store, prototypes, "social")


@pytest.mark.parametrize("method", ["pca", "tsne"])
@pytest.mark.parametrize("num_keys", [3, 12])
def test_keys_that_are_all_the_same_are_one_point(method: Literal["pca", "tsne"], num_keys: int) -> None:
    keys = np.zeros((num_keys, 8), np.float32)
    keys[:, 0] = 1.0
    np.testing.assert_array_equal(project(keys, method), np.zeros((num_keys, 2)))
