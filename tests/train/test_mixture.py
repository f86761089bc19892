import json
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from precog.errors import TrainingError
from precog.questions.passage import Kind
from precog.train.data.documents import Document
from precog.train.data.recall import make_copy, make_recall
from precog.train.data.rows import PreparedSet, write_columns
from precog.train.data.shards import TokenStream, merge_shards, tokens_of, write_shard
from precog.train.data.tokens import Pieces, tokenise
from precog.train.mixture import Phase, PhasedBatches, prepared_sets, prepared_streams, read_phases

Data = tuple[dict[str, PreparedSet], dict[str, TokenStream]]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    folder, pieces, rng = tmp_path_factory.mktemp("data"), Pieces(), random.Random(0)
    for name, passages in (
        ("recall", [make_recall(4, rng) for _ in range(40)]),
        ("copy", [make_copy(12, rng) for _ in range(40)]),
    ):
        write_columns(folder / "train" / name, tokenise(passages, pieces)[0], {})
    documents = [Document(f"T{i}", (f"The number of this text is {i}.",) * 9) for i in range(30)]
    write_shard(folder / "parts", "0", tokens_of(documents, pieces))
    merge_shards([folder / "parts" / "0.npy"], folder / "stream" / "train" / "prose", {})
    return prepared_sets(folder / "train"), prepared_streams(folder / "stream" / "train")


def written(tmp_path: Path, data: object) -> Path:
    (tmp_path / "mixture.json").write_text(json.dumps(data))
    return tmp_path / "mixture.json"


PHASES = (
    Phase(0.5, {"recall": 3.0}, {"prose": 1.0}),
    Phase(0.75, {"copy": 1.0}),
    Phase(1.0, {}, {"prose": 1.0}),
)


def batches(data: Data, rank: int = 0, world: int = 1, seed: int = 3) -> PhasedBatches:
    sets, streams = data
    return PhasedBatches(sets, PHASES, 80, 8 // world, 2, seed, rank, world, streams, 4 // world, 32)


def kinds(made: PhasedBatches) -> list[str]:
    return ["tokens" if "tokens" in made.batch(step) else "questions" for step in range(80)]


def test_phases_and_shares_decide_what_a_step_reads(data: Data) -> None:
    made = batches(data)
    found = kinds(made)
    assert Counter(found[:40]) == {"questions": 30, "tokens": 10}
    gaps = np.diff(np.flatnonzero(np.array(found[:40]) == "tokens"))
    assert set(gaps.tolist()) == {4}
    assert set(found[40:60]) == {"questions"}
    assert set(found[60:]) == {"tokens"}
    for step in range(60):
        batch = made.batch(step)
        if "kind" in batch:
            assert set(batch["kind"].tolist()) == {Kind.KEY_VALUE if step < 40 else Kind.COPY}


def test_the_kind_of_a_step_is_the_same_for_every_process_and_resume(data: Data) -> None:
    whole = batches(data)
    for world in (2, 4):
        ranks = [batches(data, rank, world) for rank in range(world)]
        assert all(kinds(rank) == kinds(whole) for rank in ranks)
        for step in (0, 17, 39, 41, 77):
            name = "tokens" if "tokens" in whole.batch(step) else "context"
            joined = np.stack([rank.batch(step)[name] for rank in ranks], axis=1)  # type: ignore[literal-required]
            expected = whole.batch(step)[name]  # type: ignore[literal-required]
            assert np.array_equal(joined.reshape(expected.shape), expected)
    resumed = batches(data)
    for step in (79, 40, 3):
        one, other = whole.batch(step), resumed.batch(step)
        assert all(np.array_equal(one[name], other[name]) for name in one)  # type: ignore[literal-required]


def test_language_model_windows_are_walked_without_gaps(data: Data) -> None:
    made = batches(data)
    rows = [row.tobytes() for step in range(40) if "tokens" in (batch := made.batch(step)) for row in batch["tokens"]]
    assert len(set(rows)) > 0.9 * len(rows)


def test_without_a_file_sets_have_shares_by_their_size(data: Data) -> None:
    sets, streams = data
    assert read_phases(None, sets, streams) == (Phase(1.0, {"copy": 40.0, "recall": 40.0}),)
    (alone,) = read_phases(None, {}, streams)
    assert alone.sets == {}
    assert alone.stream_share == 1.0


def test_a_mixture_file_is_read(data: Data, tmp_path: Path) -> None:
    path = written(
        tmp_path,
        {"phases": [{"until": 0.5, "sets": {"copy": 2}, "streams": {"prose": 1}}, {"until": 1, "sets": {"copy": 1}}]},
    )
    first, second = read_phases(path, *data)
    assert first.stream_share == pytest.approx(1 / 3)
    assert (second.until, second.sets, second.streams) == (1.0, {"copy": 1.0}, {})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "malformed"),
        ({}, "malformed"),
        ({"phases": [], "more": 1}, "malformed"),
        ({"phases": []}, "do not end in order"),
        ({"phases": [{"until": 0.5, "sets": {"copy": 1}}]}, "do not end in order"),
        ({"phases": [{"until": 1.0, "sets": {"copy": 1}}, {"until": 1.0, "sets": {"copy": 1}}]}, "do not end in order"),
        ({"phases": [{"until": 1.0, "shares": {"copy": 1}}]}, "malformed"),
        ({"phases": [{"sets": {"copy": 1}}]}, "malformed"),
        ({"phases": [{"until": 1.0}]}, "malformed"),
        ({"phases": [{"until": "all", "sets": {"copy": 1}}]}, "malformed"),
        ({"phases": [{"until": 1.0, "sets": {"copy": 0}}]}, "malformed"),
        ({"phases": [{"until": 1.0, "sets": {"copy": "1"}}]}, "malformed"),
        ({"phases": [{"until": 1.0, "sets": {"copy": True}}]}, "malformed"),
        ({"phases": [{"until": 1.0, "sets": ["copy"]}]}, "malformed"),
        ({"phases": [{"until": 10**400, "sets": {"copy": 1}}]}, "malformed"),
        ({"phases": [{"until": 1.0, "sets": {"copy": 10**400}}]}, "malformed"),
        ({"phases": [{"until": 1.0, "sets": {"copy": 1e308, "recall": 1e308}}]}, "malformed"),
        ({"phases": [{"until": float("nan"), "sets": {"copy": 1}}]}, "malformed"),
        ({"phases": [{"until": 1.0, "sets": {"absent": 1}}]}, "sets that were not prepared"),
        ({"phases": [{"until": 1.0, "streams": {"copy": 1}}]}, "streams that were not prepared"),
    ],
)
def test_bad_mixtures_are_refused_in_one_line(data: Data, tmp_path: Path, content: object, message: str) -> None:
    with pytest.raises(TrainingError, match=message) as told:
        read_phases(written(tmp_path, content), *data)
    assert "\n" not in str(told.value)


def test_a_mixture_that_is_no_json_is_refused(data: Data, tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text("{")
    for path in (tmp_path / "m.json", tmp_path / "absent.json"):
        with pytest.raises(TrainingError, match="cannot be read"):
            read_phases(path, *data)
    with pytest.raises(TrainingError, match="no training data"):
        prepared_sets(tmp_path)
    assert prepared_streams(tmp_path) == {}


@pytest.mark.parametrize("steps", [0, -1, 10**21, 10**400])
def test_steps_beyond_counting_are_refused(data: Data, steps: int) -> None:
    with pytest.raises(TrainingError, match="steps are out of range"):
        PhasedBatches(data[0], (Phase(1.0, {"copy": 1.0}),), steps, 2, 2, 0)
