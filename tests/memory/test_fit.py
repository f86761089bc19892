"""Sub-clusters fitted to deposits: the groups that were put in, the same on every run and in every order."""

import datetime
import sys

import numpy as np
import pytest
from made_keys import DIM, bunches, random_prototypes, unit

from precog.errors import InputError, UsageError
from precog.memory.domains import DOMAINS, SubCluster
from precog.memory.fit import FitSettings, fit
from precog.memory.keyed import Keyed
from precog.memory.prototypes import Prototypes, mean_key

BASE = random_prototypes(0, (2, 2, 2, 2, 2), with_members=False)
SIZES = (30, 22, 15, 9)


def in_domain(number: int, sizes: tuple[int, ...] = SIZES, seed: int = 0) -> tuple[Keyed, np.ndarray]:
    """Bunches that all lie nearest to one domain."""
    keyed, owner = bunches(sizes, seed, centre=2 * BASE.domain_keys[number].astype(np.float64))
    assert (np.argmax(keyed.keys @ BASE.domain_keys.T, axis=1) == number).all()
    return keyed, owner


def fitted_rows(made: Prototypes) -> list[int]:
    return [row for row, members in enumerate(made.members) if members]


@pytest.mark.parametrize("settings", [FitSettings(per_domain=4), FitSettings(), FitSettings(method="hdbscan")])
def test_the_bunches_are_found_and_named(settings: FitSettings) -> None:
    keyed, owner = in_domain(2)
    made = fit(keyed, BASE, settings)
    rows = fitted_rows(made)
    assert rows == made.rows_of(DOMAINS[2])
    held = [set(made.members[row]) for row in rows]
    ids = np.array(keyed.ids)
    assert held == [set(ids[owner == number].tolist()) for number in range(4)]  # the largest first
    names = [made.subclusters[row].name for row in rows]
    for number, name in enumerate(names):
        assert f"word{'abcd'[number]}" in name.split()
        assert not {f"word{'abcd'[other]}" for other in range(4) if other != number} & set(name.split())
    for row in rows:
        own = keyed.take([keyed.ids.index(member) for member in made.members[row]])
        np.testing.assert_array_equal(made.keys[row], mean_key(own.keys))


def test_domains_without_enough_deposits_keep_what_they_had() -> None:
    keyed, _ = in_domain(2)
    made = fit(keyed, BASE)
    for domain in DOMAINS:
        if domain == DOMAINS[2]:
            continue
        own, base = made.rows_of(domain), BASE.rows_of(domain)
        assert [made.subclusters[row] for row in own] == [BASE.subclusters[row] for row in base]
        np.testing.assert_array_equal(made.keys[own], BASE.keys[base])
    np.testing.assert_array_equal(made.domain_keys, BASE.domain_keys)
    few = keyed.take(range(4))
    assert fit(few, BASE).subclusters == BASE.subclusters
    assert fitted_rows(fit(few, BASE, FitSettings(method="hdbscan"))) == []


def test_what_was_fitted_before_is_not_kept() -> None:
    keyed, _ = in_domain(2)
    promoted = BASE.extended(SubCluster(DOMAINS[0], "promoted", "A"), BASE.keys[0], (999,))
    assert fit(keyed, promoted).to_json() == fit(keyed, BASE).to_json()


@pytest.mark.parametrize(
    "settings",
    [FitSettings(), FitSettings(per_domain=7, seed=3), FitSettings(method="hdbscan"), FitSettings(free_domains=True)],
)
def test_a_fit_is_the_same_in_every_order_and_on_every_run(settings: FitSettings) -> None:
    generator = np.random.default_rng(5)
    count = 120
    keyed = Keyed(
        tuple(range(count)),
        unit(generator.normal(size=(count, DIM)) + 0.3),
        tuple(f"text about thing{'abcdefg'[row % 7]} and more{'hijk'[row % 4]}" for row in range(count)),
        tuple(datetime.date(2025, 1, 1 + row % 9) for row in range(count)),
    )
    first = fit(keyed, BASE, settings).to_json()
    assert fit(keyed, BASE, settings).to_json() == first
    assert fit(keyed.take(generator.permutation(count)), BASE, settings).to_json() == first


def test_forgetting_is_fitting_what_is_left() -> None:
    """A fit of what is left names no forgotten deposit, and no word that only it had."""
    keyed, owner = in_domain(1)
    secret = int(np.flatnonzero(owner == 3)[0])
    texts = tuple("zanzibar zanzibar zanzibar" if owner[row] == 3 else text for row, text in enumerate(keyed.texts))
    keyed = Keyed(keyed.ids, keyed.keys, texts, keyed.days)
    whole = fit(keyed, BASE, FitSettings(per_domain=4))
    assert any(keyed.ids[secret] in members for members in whole.members)
    assert any("zanzibar" in subcluster.name for subcluster in whole.subclusters)
    left = fit(keyed.take(np.flatnonzero(owner != 3)), BASE, FitSettings(per_domain=4))
    forgotten = {keyed.ids[row] for row in np.flatnonzero(owner == 3)}
    assert not any(forgotten.intersection(members) for members in left.members)
    assert not any("zanzibar" in subcluster.name for subcluster in left.subclusters)


def test_free_domains_are_fitted_and_named_too() -> None:
    keyed, _ = bunches((40, 35, 30, 25, 20))
    made = fit(keyed, BASE, FitSettings(free_domains=True, per_domain=1))
    assert len(made.domains) == 5
    for number in range(5):
        assert f"word{'abcde'[number]}" in made.domains[number].split()
        np.testing.assert_array_equal(made.keys[number], made.domain_keys[number])
    assert sorted(map(len, made.members), reverse=True) == [40, 35, 30, 25, 20]
    with pytest.raises(InputError, match="fewer deposits than domains"):
        fit(keyed.take(range(4)), BASE, FitSettings(free_domains=True))


def test_equal_keys_make_one_group() -> None:
    key = BASE.domain_keys[0]
    same = Keyed(tuple(range(30)), np.stack([key] * 30), ("the very same words",) * 30, (None,) * 30)
    for settings in (FitSettings(per_domain=4), FitSettings()):
        made = fit(same, BASE, settings)
        assert [made.members[row] for row in made.rows_of(DOMAINS[0])] == [tuple(range(30))]


def test_no_group_is_smaller_than_the_deposits_allow() -> None:
    keyed, _ = in_domain(0, (12,))
    made = fit(keyed, BASE, FitSettings(per_domain=10))
    assert len(made.rows_of(DOMAINS[0])) == 2
    assert len(fit(keyed, BASE, FitSettings(per_domain=10, least_members=2)).rows_of(DOMAINS[0])) == 6


def test_recurrence_decides_the_kind() -> None:
    keyed, owner = in_domain(0, (30, 20))
    days = tuple(datetime.date(2025, 3, 1 + (row % 20 if owner[row] == 0 else 4)) for row in range(50))
    made = fit(Keyed(keyed.ids, keyed.keys, keyed.texts, days), BASE, FitSettings(per_domain=2))
    assert [made.subclusters[row].kind for row in made.rows_of(DOMAINS[0])] == ["B", "A"]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"method": "magic"}, "magic"),
        ({"method": "hdbscan", "per_domain": 4}, "HDBSCAN"),
        ({"per_domain": 0}, "per_domain"),
        ({"most_per_domain": 0}, "most_per_domain"),
        ({"least_members": 1}, "least_members"),
        ({"seed": -1}, "seed"),
    ],
)
def test_settings_out_of_range_are_refused(wrong: dict[str, object], told: str) -> None:
    if wrong.get("method") == "magic":
        with pytest.raises(Exception, match="magic"):
            FitSettings(method="magic")  # type: ignore[arg-type]  # what a caller without types may pass
        return
    with pytest.raises(InputError, match=told):
        FitSettings(**wrong)  # type: ignore[arg-type]  # one of several kinds


def test_nothing_to_fit_and_foreign_keys_are_refused() -> None:
    keyed, _ = in_domain(0)
    with pytest.raises(InputError, match="nothing to fit"):
        fit(keyed.take([]), BASE)
    with pytest.raises(InputError, match="width"):
        fit(Keyed((1,), unit(np.ones((1, 3))), ("a",), (None,)), BASE)
    with pytest.raises(InputError, match="unit vector"):
        Keyed((1,), np.ones((1, 3), np.float32), ("a",), (None,))
    with pytest.raises(InputError, match="an id, a key, a text and a day"):
        Keyed((1, 1), keyed.keys[:2], ("a", "b"), (None, None))
    with pytest.raises(InputError, match="an id, a key, a text and a day"):
        Keyed((1, 2), keyed.keys[:2], ("a",), (None, None))


def test_without_scikit_learn_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    keyed, _ = in_domain(0)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    for name in [name for name in sys.modules if name.startswith("sklearn.")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(UsageError) as error:
        fit(keyed, BASE)
    assert error.value.hint == "pip install 'precog-ssm[memory]'"
