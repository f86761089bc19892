"""Routing follows the two equations, and so does its loop; a question is searched where its key is near."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_keys import DIM, CountingEncoder, random_prototypes, unit

from precog.errors import InputError
from precog.memory.domains import DOMAINS, OTHERS, SubCluster
from precog.memory.prototypes import Prototypes
from precog.memory.routing import nearest_domains, probe, route, route_all, route_loop


def keys(count: int, seed: int = 0) -> np.ndarray:
    return unit(np.random.default_rng(seed).normal(size=(count, DIM)))


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([(3, 1, 4, 0, 10), (1, 1, 1, 1, 1), (0, 0, 0, 0, 0), (2, 6, 0, 3, 1)]),
    st.floats(0.02, 2.0),
    st.floats(0.0, 1.0),
)
def test_many_at_once_are_routed_as_by_the_loop(
    seed: int, per_domain: tuple[int, ...], temperature: float, threshold: float
) -> None:
    prototypes = random_prototypes(seed, per_domain)
    given_keys = keys(6, seed)
    found = route_all(given_keys, prototypes, temperature=temperature, threshold=threshold)
    for key, one in zip(given_keys, found, strict=True):
        expected = route_loop(key, prototypes, temperature=temperature, threshold=threshold)
        assert one.domain == expected.domain
        assert [entry[:2] for entry in one.ranking] == [entry[:2] for entry in expected.ranking]
        np.testing.assert_allclose(
            [entry[2] for entry in one.ranking], [entry[2] for entry in expected.ranking], rtol=1e-9, atol=1e-12
        )
        assert math.isclose(one.probability, expected.probability, rel_tol=1e-9)
        if abs(one.probability - threshold) > 1e-9:
            assert one.subcluster == expected.subcluster
        assert one == route(key, prototypes, temperature=temperature, threshold=threshold)


@given(st.integers(0, 2**32 - 1), st.sampled_from([1e-300, 1e-6, 0.05, 0.3, 2.0, 1e9]))
def test_the_probability_is_between_even_and_certain(seed: int, temperature: float) -> None:
    prototypes = random_prototypes(seed, (3, 2, 4, 5, 10))
    found = route(keys(1, seed)[0], prototypes, temperature=temperature)
    own = [entry for entry in found.ranking if entry[0] == found.domain]
    assert 1 / len(own) - 1e-12 <= found.probability <= 1
    assert len(found.ranking) == 24
    products = [product for _, _, product in found.ranking]
    assert products == sorted(products, reverse=True)
    if found.subcluster != OTHERS:
        assert own[0][1] == found.subcluster


def two_domains() -> Prototypes:
    """Domains along axes 0 and 1; sub-clusters of the first at known angles."""
    axes = np.eye(4, dtype=np.float32)
    places = unit(np.array([[1, 0, 0.5, 0], [1, 0, -0.5, 0], [0, 1, 0.5, 1]], dtype=np.float64))
    groups = (SubCluster("left", "up", "A"), SubCluster("left", "down", "B"), SubCluster("right", "only", "A"))
    return Prototypes(("left", "right"), axes[:2], groups, places, "", ((), (), ()))


def test_the_domain_is_chosen_first() -> None:
    """A key nearer to another domain's sub-cluster still goes to the domain that is nearer as a whole."""
    prototypes = two_domains()
    key = unit(np.array([0.60, 0.58, 0.3, 0.5]))
    assert int((prototypes.keys @ key).argmax()) == 2
    found = route(key, prototypes)
    assert (found.domain, found.subcluster) == ("left", "up")
    assert probe(key, prototypes, 1) == [("right", "only")]


def test_the_probability_is_a_softmax_and_the_threshold_counts() -> None:
    prototypes = two_domains()
    key = np.array([1, 0, 0, 0], dtype=np.float32)
    even = route(key, prototypes, threshold=0.5)
    assert even.probability == 0.5
    assert even.subcluster == "up"  # as probable as the threshold is enough; of equals the first
    assert route(key, prototypes, threshold=0.51).subcluster == OTHERS
    tilted = unit(np.array([1, 0, 0.1, 0]))
    up, down = (float(prototypes.keys[row].astype(np.float64) @ tilted.astype(np.float64)) for row in (0, 1))
    expected = 1 / (1 + math.exp((down - up) / 0.3))
    assert math.isclose(route(tilted, prototypes, temperature=0.3).probability, expected, rel_tol=1e-9)


def test_a_lower_temperature_leaves_fewer_others() -> None:
    prototypes = random_prototypes(3, (10, 10, 10, 10, 10))
    others = []
    for temperature in (0.02, 0.1, 0.5, 2.0):
        found = route_all(keys(200), prototypes, temperature=temperature)
        others.append(sum(one.subcluster == OTHERS for one in found))
    assert others == sorted(others)
    assert others[0] == 0
    assert others[-1] == 200


def test_a_route_does_not_depend_on_its_neighbours() -> None:
    prototypes = random_prototypes(4)
    many = keys(50)
    together = route_all(many, prototypes)
    assert together[7:19] == route_all(many[7:19], prototypes)
    assert [DOMAINS[number] for number in nearest_domains(many, prototypes)] == [one.domain for one in together]
    assert route_all(many[:0], prototypes) == []


@given(st.integers(0, 2**32 - 1), st.integers(1, 40))
def test_probing_ranks_all_groups_by_nearness(seed: int, n: int) -> None:
    prototypes = random_prototypes(seed)
    key = keys(1, seed)[0]
    found = probe(key, prototypes, n)
    nearness = {
        (s.domain, s.name): float(k @ key) for s, k in zip(prototypes.subclusters, prototypes.keys, strict=True)
    }
    nearness |= {(d, OTHERS): float(k @ key) for d, k in zip(DOMAINS, prototypes.domain_keys, strict=True)}
    assert len(found) == min(n, len(nearness))
    assert len(set(found)) == len(found)
    values = [nearness[group] for group in found]
    assert all(a >= b - 1e-6 for a, b in pairwise(values))
    assert all(nearness[group] <= values[-1] + 1e-6 for group in nearness if group not in found)
    assert found == probe(key, prototypes, 40)[:n]


def test_every_group_is_probed_in_the_end() -> None:
    prototypes = random_prototypes(5)
    everything = {(s.domain, s.name) for s in prototypes.subclusters} | {(domain, OTHERS) for domain in DOMAINS}
    assert set(probe(keys(1)[0], prototypes, 10**6)) == everything


def test_groups_are_probed_by_what_they_hold() -> None:
    prototypes = random_prototypes(5)
    key = keys(1)[0]
    held = [("factual", "group 2"), ("social", OTHERS), ("temporal", "group 0")]
    means = dict(zip(held, unit(np.stack([key - 0.1, key, -key])), strict=True))
    assert probe(key, prototypes, 9, means) == [("social", OTHERS), ("factual", "group 2"), ("temporal", "group 0")]
    assert probe(key, prototypes, 1, means) == [("social", OTHERS)]
    assert probe(key, prototypes, 9, {}) == []
    with pytest.raises(InputError, match=r"no such group.*musical ▸ drums"):
        probe(key, prototypes, 9, {("musical", "drums"): key})
    with pytest.raises(InputError, match="width"):
        probe(key, prototypes, 9, {("social", OTHERS): unit(np.ones(3))})


def test_what_cannot_be_routed_is_one_clear_line() -> None:
    prototypes = random_prototypes(6)
    key = keys(1)[0]
    for temperature in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(InputError, match="temperature"):
            route(key, prototypes, temperature=temperature)
    for threshold in (-0.1, 1.1, math.nan):
        with pytest.raises(InputError, match="threshold"):
            route(key, prototypes, threshold=threshold)
    with pytest.raises(InputError, match="width"):
        route(unit(np.ones(DIM + 1)), prototypes)
    with pytest.raises(InputError, match="at least one group"):
        probe(key, prototypes, 0)
    with pytest.raises(InputError, match="width"):
        probe(unit(np.ones(3)), prototypes, 1)
    with pytest.raises(InputError, match="unit"):
        route(2 * key, prototypes)


def test_the_fake_encoder_is_an_encoder() -> None:
    from precog.encoders import Encoder

    assert isinstance(CountingEncoder(), Encoder)
