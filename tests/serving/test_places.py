"""Whoever asks for however many places, the next user finds one."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precog.errors import LimitError
from precog.serving.places import SHARE, Places

USERS = ["ana", "ben", "cy"]


def taken_by(places: Places, user: str, most: int = 10_000) -> int:
    """Places that somebody gets who asks until refused."""
    for number in range(most):
        try:
            places.take(user)
        except LimitError:
            return number
    return most


@pytest.mark.parametrize("count", [1, 2, 8, 9, 10, 64, 192])
def test_one_user_alone_has_nearly_all_and_leaves_some(count: int) -> None:
    places = Places(count)
    own = taken_by(places, "ana")
    assert own == count if count <= SHARE else count // (SHARE + 1) <= count - own <= count // (SHARE + 1) + 1
    if count > own:
        with pytest.raises(LimitError, match="of your requests") as refused:
            places.check("ana")
        assert refused.value.retry_after_sec
        places.take("ben")


def test_when_all_are_taken_everybody_is_told() -> None:
    places = Places(2)
    places.take("ana")
    places.take("ben")
    with pytest.raises(LimitError, match="busy"):
        places.take("cy")
    places.leave("ana")
    places.take("cy")


@given(moves=st.lists(st.tuples(st.sampled_from(USERS), st.booleans()), max_size=300), count=st.integers(90, 300))
def test_whatever_three_users_do_a_fourth_finds_a_place(moves: list[tuple[str, bool]], count: int) -> None:
    places, held = Places(count), Counter[str]()
    for user, comes in moves:
        if comes:
            held[user] += taken_by(places, user, 20)
        elif held[user]:
            places.leave(user)
            held[user] -= 1
        assert places.num_taken == held.total() <= count
        places.check("dan")


def test_users_who_all_want_more_come_to_have_equally_many() -> None:
    places = Places(190)
    held = Counter({"ana": taken_by(places, "ana")})
    for _ in range(2000):  # one answer ends, and everybody asks again
        ending = held.most_common(1)[0][0]
        places.leave(ending)
        held[ending] -= 1
        for user in USERS:
            held[user] += taken_by(places, user, 1)
    assert max(held.values()) - min(held.values()) <= SHARE
