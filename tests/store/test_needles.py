"""What is looked for is found wherever it is, however much else there is; nothing else is."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precog.store import Needles, needles, search_folder

STATE_BYTES = 64 * 5 + 24


def states(seed: int, count: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, STATE_BYTES), np.uint8)


def windows(state: np.ndarray) -> set[bytes]:
    data = state.tobytes()
    return {data[at : at + 64] for at in (*range(0, len(data) - 63, 64), max(0, len(data) - 64))}


@given(
    st.binary(max_size=300),
    st.lists(st.tuples(st.integers(0, 300), st.integers(8, 40)), max_size=8),
    st.binary(min_size=8, max_size=20),
)
def test_strings_are_found_where_they_are(data: bytes, places: list[tuple[int, int]], other: bytes) -> None:
    inside = [data[start : start + size] for start, size in places]
    strings = {text for text in [*inside, other] if len(text) >= 8 and text.strip(b"\0")}
    assert Needles([*inside, other]).found_in(data) == {text for text in strings if text in data}


@given(st.data())
def test_windows_of_states_are_found_where_they_are(data: st.DataObject) -> None:
    """Against a plain search, on states of few values, so that much of one is in another, and beside zeros."""
    values = st.lists(st.sampled_from([0, 0, 0, 1, 255]), min_size=60, max_size=200)
    made = [np.repeat(np.array(data.draw(values), np.uint8), 3)[: data.draw(st.integers(8, 600))] for _ in range(3)]
    haystack = b"".join(
        data.draw(st.binary(max_size=9)) + state.tobytes()[data.draw(st.integers(0, 70)) :] for state in made[:2]
    )
    wanted = {window for state in made for window in windows(state)}
    wanted = {window for window in wanted if len(window) >= 8 and window.strip(b"\0")}
    searched = Needles(states=made)
    assert len(searched) == len(wanted)
    assert searched.found_in(haystack) == {window for window in wanted if window in haystack}
    numbers = searched.numbers_in(haystack)
    some = searched.only(numbers)
    assert len(some) == len(numbers) == len(searched.found_in(haystack))
    assert some.numbers_in(haystack).tolist() == list(range(len(some)))


@pytest.mark.parametrize("offset", [(1 << 18) - 1, (1 << 18) - 63, 1 << 18, 0, (1 << 18) + 36])
@pytest.mark.parametrize("size", [19, 64])
def test_across_two_blocks_of_a_file(tmp_path: Path, offset: int, size: int) -> None:
    state = states(1, 1)[0]
    needle = state[64 : 64 + size].tobytes() if size == 64 else b"needle in a haystack"[:size]
    data = bytearray(np.random.default_rng(0).bytes((1 << 18) + 100))
    data[offset : offset + size] = needle
    (tmp_path / "big").write_bytes(data)
    searched = Needles([b"needle in a haystack"[:19], b"something else"], [state])
    numbers, num_bytes = searched.numbers_in_file(tmp_path / "big")
    assert len(numbers) == 1
    assert num_bytes == len(data)
    assert searched.found_in(bytes(data)) == {needle}


def test_one_of_very_many_is_found_at_any_offset() -> None:
    """More windows than the least table holds, so that most offsets pass it by chance somewhere."""
    made = states(2, 20_000)
    searched = Needles(states=made)
    assert len(searched) == 20_000 * 6
    assert searched.num_bytes < made.nbytes / 2
    for number in range(40):
        at = 64 * (number % 5)
        data = bytearray(np.random.default_rng(1000 + number).bytes(700))
        data[number : number + 64] = made[number * 499, at : at + 64].tobytes()
        assert searched.found_in(bytes(data)) == {made[number * 499, at : at + 64].tobytes()}
        data[number + 63] ^= 1
        assert not len(searched.numbers_in(bytes(data)))


def test_windows_of_one_checksum_are_all_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def coarse(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return words[:, 3] % np.uint64(3), (words[:, 4] & np.uint64(0xFFFFFFFF)).astype(np.uint32)

    monkeypatch.setattr(needles, "_sums", coarse)
    made = states(3, 30)
    searched = Needles(states=made)
    for state in made:
        assert searched.found_in(b"odd" + state.tobytes()) == windows(state)


def test_what_stays_accounts_for_what_is_found(tmp_path: Path) -> None:
    gone, stays = states(4, 2)
    shared = np.concatenate([gone[:128], stays])
    (tmp_path / "segment").write_bytes(bytes(5000) + shared.tobytes())
    (tmp_path / "below").mkdir()
    seen: list[tuple[int, int]] = []
    searched = Needles([b"a sentence of somebody"], [gone])
    report = search_folder(
        tmp_path, searched, lambda: [("ben", shared)], lambda done, total: seen.append((done, total))
    )
    assert (report.hits, report.hit_files, report.also) == (0, [], {"ben": 2})
    assert report.searched_for == 7
    assert seen[-1] == (report.bytes_searched, report.bytes_searched) == (5000 + len(shared),) * 2
    (tmp_path / "below" / "stray").write_bytes(b"odd" + gone[64:192].tobytes())
    report = search_folder(tmp_path, searched, lambda: [("ben", shared)])
    assert (report.hits, report.hit_files) == (1, [str(tmp_path / "below" / "stray")])
    (tmp_path / "below" / "stray").write_bytes(b"!" + b"a sentence of somebody")
    report = search_folder(tmp_path, searched, lambda: [("", shared)])
    assert (report.hits, report.hit_files, report.also) == (1, [str(tmp_path / "below" / "stray")], {})
