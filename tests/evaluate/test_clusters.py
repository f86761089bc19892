"""Clusters are measured by a ratio that chance brings to one, on a recording that had no part in them."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_keys import CountingEncoder

from precog.errors import InputError, UsageError
from precog.evaluate.clusters import ClusterSettings, evaluate_clusters, sample_spoken
from precog.evaluate.separation import separation, separation_loop
from precog.evaluate.utterances import Spoken, read_spoken
from precog.memory.domains import DOMAINS


@given(st.integers(0, 2**32 - 1), st.integers(0, 14), st.integers(1, 4), st.sampled_from(["euclidean", "cosine"]))
def test_separation_is_that_of_the_loop(seed: int, count: int, groups: int, distance: Any) -> None:
    generator = np.random.default_rng(seed)
    points = generator.normal(size=(count, 5)).astype(np.float32)
    labels = generator.integers(0, groups, count)
    expected = separation_loop(points, labels.tolist(), distance)
    found = separation(points, labels, distance)
    assert found == (None if expected is None else pytest.approx(expected, rel=1e-6))


def test_separation_over_blocks_and_of_known_points() -> None:
    generator = np.random.default_rng(0)
    points = generator.normal(size=(1200, 3)).astype(np.float32)
    labels = np.arange(1200) % 3
    assert separation(points, labels) == pytest.approx(separation_loop(points[:], labels.tolist()), rel=1e-9)
    square = np.array([[0, 0], [0, 1], [10, 0], [10, 1]], np.float32)
    expected = (2 * 10 + 2 * 101**0.5) / 4 / 1
    assert separation(square, np.array([0, 0, 1, 1])) == pytest.approx(expected)
    assert separation(square, np.array([0, 1, 2, 3])) is None
    assert separation(square, np.array([0, 0, 0, 0])) is None
    assert separation(square[[0, 0, 2, 2]], np.array([0, 0, 1, 1])) is None


def lines(count: int = 60) -> list[Spoken]:
    topics = [
        "the rent and the money and the price of the car",
        "my sister and my mother and my cousin came along",
        "left of the harbour near the bridge and the river",
        "at noon on monday before the deadline of the week",
        "so happy and so proud that I cried and laughed",
    ]
    found = []
    for mission in ("one", "two", "three"):
        said = [f"{topics[row % 5]} {mission} number{row % 7} item{row % 3}" for row in range(count)]
        found += [Spoken(mission, "CDR", text) for text in said]
        found.append(Spoken(mission, "CC", "Roger."))
    return found


def test_a_recording_is_routed_to_groups_of_the_others() -> None:
    settings = ClusterSettings("two", subclusters=3, temperature=0.05, seed=1)
    calls: list[tuple[int, int]] = []
    report = evaluate_clusters(lines(), CountingEncoder(), settings, lambda done, total: calls.append((done, total)))
    assert calls == [(done, 180) for done in range(1, 181)]
    assert report.missions == {"one": 60, "two": 60, "three": 60}
    assert [domain.name for domain in report.domains] == list(DOMAINS)
    assert len(report.keys) == 60
    assert sorted(int(row) for domain in report.domains for row in domain.rows) == list(range(60))
    assert sum(domain.num_built_from for domain in report.domains) == 120
    held = {member for members in report.prototypes.members for member in members}
    assert len(held) == 120
    for domain in report.domains:
        assert sum(domain.counts.values()) + domain.num_others == len(domain.rows) == len(domain.labels)
        assert domain.labels.count(None) == domain.num_others
    busy = [domain for domain in report.domains if domain.ratio is not None]
    assert busy
    for domain in busy:
        assert domain.ratio is not None
        assert domain.cosine_ratio is not None
        assert domain.random_ratio is not None
        assert domain.ratio > 1.1
        assert domain.cosine_ratio > domain.ratio
        assert abs(domain.random_ratio - 1) < abs(domain.ratio - 1)
    table = report.to_json()
    assert json.loads(json.dumps(table)) == table
    assert table["built_from"] == {"one": 60, "three": 60}
    again = evaluate_clusters(lines(), CountingEncoder(), settings)
    assert again.to_json() == table


def test_a_group_that_only_the_held_out_recording_has_emerges() -> None:
    """At a temperature that calls nothing probable, everything is among the others, and what is dense emerges."""
    settings = ClusterSettings("two", subclusters=8, temperature=2.0, threshold=0.9, least_members=10)
    report = evaluate_clusters(lines(), CountingEncoder(), settings)
    assert sum(domain.num_others for domain in report.domains) == 60
    groups = [group for domain in report.domains for group in domain.emergent]
    assert groups
    for domain in report.domains:
        for group in domain.emergent:
            assert len(group.member_ids) >= 10
            assert set(group.member_ids) <= set(domain.rows.tolist())
            assert {"size", "name", "cohesion"} == set(domain.to_json()["emergent"][0])  # type: ignore[index]  # a list


def test_the_sample_is_even_and_the_same_under_a_seed() -> None:
    everything = lines()
    settings = ClusterSettings("two", per_mission=20, limit=30, seed=4)
    taken = sample_spoken(everything, settings)
    assert [sum(spoken.mission == name for spoken in taken) for name in ("one", "two", "three")] == [20, 30, 20]
    assert all(spoken.text != "Roger." for spoken in taken)
    assert sample_spoken(everything, settings) == taken
    assert sample_spoken(everything, ClusterSettings("two", per_mission=20, limit=30, seed=5)) != taken
    assert len(sample_spoken(everything, ClusterSettings("two"))) == 180


def test_a_recording_that_is_not_there_is_named() -> None:
    with pytest.raises(InputError, match=r"given: four; expected: one, two, three"):
        sample_spoken(lines(), ClusterSettings("four"))
    with pytest.raises(InputError, match="only one"):
        sample_spoken(lines()[:40], ClusterSettings("one"))
    for wrong in ({"per_mission": 0}, {"limit": 0}, {"subclusters": 0}, {"seed": -1}, {"least_words": 0}):
        with pytest.raises(UsageError, match=next(iter(wrong))):
            ClusterSettings("one", **wrong)


LINE = '{"mission": "a", "speaker": "CDR", "time": "00:00:01", "text": " Go ahead. "}'


def test_transcripts_are_read_plain_and_packed(tmp_path: Path) -> None:
    text = LINE + "\n\n" + '{"mission": "b", "text": "", "speaker": null}\n{"mission": "b", "text": "Yes"}\n'
    (tmp_path / "plain.jsonl").write_text(text, encoding="utf-8")
    (tmp_path / "packed.jsonl.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    expected = [Spoken("a", "CDR", "Go ahead."), Spoken("b", "", "Yes")]
    assert read_spoken(tmp_path / "plain.jsonl") == expected
    assert read_spoken(tmp_path / "packed.jsonl.gz") == expected


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is empty"),
        (b'{"mission": "b", "text": " "}', "no turn with words"),
        (LINE.encode() + b"\n{", "line 2: malformed JSON"),
        (b"[1]", "no transcript"),
        (LINE.encode() + b"\n[1]", "line 2"),
        (LINE.encode() + b'\n{"mission": "a", "text": 7}', "line 2: a turn's text is no text"),
        (LINE.encode() + b'\n{"mission": "a", "speaker": 7, "text": "x"}', "line 2: a turn's speaker is no name"),
        (LINE.encode() + b'\n{"mission": "a", "time": 7, "text": "x"}', "line 2: the elapsed time"),
        (b"\x00\x01\x02\xff" * 99, "binary"),
        (gzip.compress(LINE.encode(), mtime=0)[:-9], "damaged"),
        (gzip.compress(LINE.encode(), mtime=0)[:12] + b"xxxxxxxxxxxxxxxxxxx", "damaged|cannot be read"),
    ],
)
def test_damaged_transcripts_are_one_clear_line(content: bytes, told: str, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError, match=told) as error:
        read_spoken(path)
    assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="cannot be read"):
        read_spoken(tmp_path / "nowhere.jsonl")
