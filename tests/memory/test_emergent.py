"""What emerges among the others is dense, large enough and about one thing; promoting it makes a sub-cluster."""

import datetime

import numpy as np
import pytest
from made_keys import DIM, bunches, random_prototypes, unit

from precog.errors import InputError
from precog.memory.emergent import dense_groups, find_emergent, numbered_by_size, promote
from precog.memory.keyed import Keyed
from precog.memory.prototypes import Prototypes, mean_key
from precog.memory.routing import route

BASE = random_prototypes(0, (2, 2, 2, 2, 2))


def scattered(count: int, first_id: int = 1000, seed: int = 9) -> Keyed:
    keys = unit(np.random.default_rng(seed).normal(size=(count, DIM)))
    return Keyed(
        tuple(range(first_id, first_id + count)),
        keys,
        tuple(f"noise{row} alone" for row in range(count)),
        (None,) * count,
    )


def joined(*parts: Keyed) -> Keyed:
    return Keyed(
        tuple(i for part in parts for i in part.ids),
        np.concatenate([part.keys for part in parts]),
        tuple(t for part in parts for t in part.texts),
        tuple(d for part in parts for d in part.days),
    )


def test_dense_groups_are_found_in_scatter() -> None:
    dense, owner = bunches((40, 25))
    others = joined(dense, scattered(60))
    found = find_emergent(others, "spatial")
    ids = np.array(dense.ids)
    assert len(found) == 2
    for number, candidate in enumerate(found):
        own = set(ids[owner == number].tolist())
        assert own <= set(candidate.member_ids)
        assert len(set(candidate.member_ids) - own) <= 3  # scattered keys that happen to lie beside it
        assert f"word{'ab'[number]}" in candidate.name.split()
        assert candidate.domain == "spatial"
        assert candidate.cohesion > 0.7
        members = others.take([others.ids.index(member) for member in candidate.member_ids])
        np.testing.assert_array_equal(candidate.key, mean_key(members.keys))
        assert set(candidate.to_json()) == {"domain", "name", "kind", "members", "cohesion"}


def test_the_order_of_the_rows_changes_nothing() -> None:
    others = joined(bunches((40, 25))[0], scattered(60))
    first = [(c.to_json(), c.key.tobytes()) for c in find_emergent(others, "social")]
    shuffled = others.take(np.random.default_rng(1).permutation(len(others.ids)))
    assert [(c.to_json(), c.key.tobytes()) for c in find_emergent(shuffled, "social")] == first


def test_a_small_bunch_and_mere_scatter_are_no_group() -> None:
    assert find_emergent(joined(bunches((19,))[0], scattered(80)), "social") == []
    assert find_emergent(scattered(150), "social") == []
    assert find_emergent(bunches((19,))[0], "social") == []
    assert find_emergent(scattered(0), "social") == []
    with pytest.raises(InputError, match="at least two members"):
        find_emergent(scattered(5), "social", least_members=1)


def test_promoting_makes_a_subcluster_that_its_members_are_routed_to() -> None:
    dense, _ = bunches((40,), centre=2 * BASE.domain_keys[3].astype(np.float64))
    others = joined(dense, scattered(60))
    # the domain has other sub-clusters far away
    far = unit(-BASE.domain_keys[3].astype(np.float64) + 0.2 * np.random.default_rng(2).normal(size=(2, DIM)))
    keys = BASE.keys.copy()
    keys[BASE.rows_of("spatial")] = far
    base = Prototypes(BASE.domains, BASE.domain_keys, BASE.subclusters, keys, BASE.encoder_fingerprint, BASE.members)
    [candidate] = find_emergent(others, "spatial")
    grown = promote(base, candidate)
    for key in dense.keys:
        chosen = route(key, grown)
        assert (chosen.domain, chosen.subcluster) == ("spatial", candidate.name)
    assert grown.members[len(base.subclusters)] == candidate.member_ids
    assert promote(base, candidate, "my own name").subclusters[-1].name == "my own name"
    with pytest.raises(InputError, match="twice"):
        promote(grown, candidate)
    with pytest.raises(InputError, match="name of its own"):
        promote(base, candidate, "others")


def test_a_taken_name_is_not_given_again() -> None:
    others = joined(bunches((40,))[0], scattered(60))
    [first] = find_emergent(others, "social")
    [second] = find_emergent(others, "social", taken=[first.name])
    assert second.name != first.name
    assert second.member_ids == first.member_ids


def test_the_kind_follows_the_days() -> None:
    dense, _ = bunches((40,))
    noise = scattered(60)
    week = tuple(datetime.date(2025, 5, 1 + row % 7) for row in range(40))
    one = (datetime.date(2025, 5, 3),) * 40
    rest = tuple(datetime.date(2025, 5, 1 + row % 20) for row in range(60))
    for days, kind in ((week, "B"), (one, "A")):
        others = joined(
            Keyed(dense.ids, dense.keys, dense.texts, days), Keyed(noise.ids, noise.keys, noise.texts, rest)
        )
        [candidate] = find_emergent(others, "social")
        assert candidate.kind == kind


def test_labels_are_numbered_by_size_then_place() -> None:
    labels = np.array([4, -1, 2, 2, 7, 4, -3, 2, 7])
    assert numbered_by_size(labels).tolist() == [1, -1, 0, 0, 2, 1, -1, 0, 2]
    assert numbered_by_size(np.array([], dtype=np.int64)).tolist() == []
    assert numbered_by_size(np.array([-1, -1])).tolist() == [-1, -1]
    assert dense_groups(bunches((30, 30))[0].keys, 10).max() == 1
