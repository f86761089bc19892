"""What was done to the prototypes of a memory, as it is written down."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precog.errors import InputError
from precog.memory.history import Fit, FitSettings, History, Promotion, short_uid

SETTINGS = st.builds(
    FitSettings,
    method=st.just("kmeans"),
    per_domain=st.none() | st.integers(1, 50),
    most_per_domain=st.integers(1, 50),
    least_members=st.integers(2, 50),
    seed=st.integers(0, 2**40),
    free_domains=st.booleans(),
)
UIDS = st.lists(st.binary(min_size=32, max_size=32).map(short_uid), max_size=3).map(tuple)
FITS = st.builds(
    Fit,
    settings=SETTINGS | st.just(FitSettings("hdbscan")),
    temperature=st.floats(1e-6, 1e6),
    last_id=st.integers(0, 2**40),
    uids=UIDS,
)
PROMOTIONS = st.builds(
    Promotion,
    domain=st.text(min_size=1),
    name=st.text(min_size=1),
    least_members=st.integers(2, 99),
    last_id=st.integers(0, 2**40),
)
HISTORIES = st.builds(History, fit=st.none() | FITS, promotions=st.lists(PROMOTIONS, max_size=3).map(tuple))


@given(HISTORIES)
def test_it_reads_back_what_it_writes(history: History) -> None:
    assert History.from_json(json.loads(json.dumps(history.to_json()))) == history


def test_what_a_step_has_read() -> None:
    known, other = bytes(range(32)), bytes(32)
    fit = Fit(FitSettings(), 0.15, 3)
    of_transcript = Fit(FitSettings(), 0.15, 0, (short_uid(known),))
    assert not History().has_read([(1, known)])
    assert History(fit).has_read([(9, other), (3, other)])
    assert not History(fit).has_read([(4, known)])
    assert History(of_transcript).has_read([(4, known)])
    assert not History(of_transcript).has_read([(1, other)])
    assert History(None, (Promotion("social", "boats", 20, 7),)).has_read([(7, other)])


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("fit",), []),
        (("fit", "settings"), {}),
        (("fit", "settings", "method"), "guess"),
        (("fit", "settings", "method"), ["kmeans"]),
        (("fit", "settings", "per_domain"), 0),
        (("fit", "settings", "seed"), True),
        (("fit", "settings", "free_domains"), 1),
        (("fit", "temperature"), 0.0),
        (("fit", "temperature"), float("nan")),
        (("fit", "temperature"), "warm"),
        (("fit", "last_id"), -1),
        (("fit", "last_id"), 1.0),
        (("fit", "uids"), [7]),
        (("fit", "more"), 7),
        (("promotions",), {}),
        (("promotions",), [7]),
        (("promotions",), [{"domain": "social", "name": "boats", "least_members": 1, "last_id": 7}]),
        (("promotions",), [{"domain": "social", "name": 7, "least_members": 20, "last_id": 7}]),
    ],
)
def test_what_is_no_history_is_refused_in_one_line(place: tuple[str, ...], value: object) -> None:
    table: dict[str, object] = History(Fit(FitSettings(), 0.15, 3)).to_json()
    inner: object = table
    for key in place[:-1]:
        assert isinstance(inner, dict)
        inner = inner[key]
    assert isinstance(inner, dict)
    inner[place[-1]] = value
    with pytest.raises(InputError) as error:
        History.from_json(table)
    assert "\n" not in str(error.value)
