import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from precog.errors import TrainingError
from precog.questions.passage import Kind
from precog.train.data.batches import Batch, MixtureEntry, PackedTokens, QuestionBatches
from precog.train.data.recall import make_copy, make_recall
from precog.train.data.rows import PreparedSet, write_columns
from precog.train.data.shards import Shard, merge_shards, write_shard
from precog.train.data.tokens import Pieces, tokenise


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> tuple[PreparedSet, PreparedSet]:
    folder, pieces, rng = tmp_path_factory.mktemp("sets"), Pieces(), random.Random(0)
    recall, _, _ = tokenise([make_recall(1 + i % 9, rng) for i in range(53)], pieces)
    copies, _, _ = tokenise([make_copy(12, rng) for _ in range(20)], pieces)
    write_columns(folder / "recall", recall, {})
    write_columns(folder / "copy", copies, {})
    return PreparedSet(folder / "recall"), PreparedSet(folder / "copy")


def batches(sets: tuple[PreparedSet, PreparedSet], rank: int = 0, world: int = 1, seed: int = 1) -> QuestionBatches:
    mixture = [MixtureEntry(sets[0], 3.0), MixtureEntry(sets[1], 1.0)]
    return QuestionBatches(mixture, 12 // world, 4, seed=seed, rank=rank, world=world)


def same(a: Batch, b: Batch) -> bool:
    return all(np.array_equal(a[k], b[k]) for k in a)  # type: ignore[literal-required]


def test_rows_belong_to_their_chunk(sets: tuple[PreparedSet, PreparedSet]) -> None:
    for step in range(5):
        batch = batches(sets).batch(step)
        assert batch["context"].shape == (12, 256)
        assert batch["questions"].shape == (48, 48)
        for row, owner in enumerate(batch["owner"]):
            answer = batch["questions"][row, batch["prompt_len"][row] : batch["row_len"][row] - 1]
            start = batch["answer_start"][row]
            assert np.array_equal(batch["context"][owner, start : start + len(answer)], answer)
            assert batch["kind"][row] == (Kind.COPY if batch["source"][owner] else Kind.KEY_VALUE)


def test_a_chunks_rows_are_distinct_until_it_has_no_more(sets: tuple[PreparedSet, PreparedSet]) -> None:
    batch = batches(sets).batch(0)
    repeats = 0
    for chunk in range(12):
        rows = [batch["questions"][r].tobytes() for r in np.flatnonzero(batch["owner"] == chunk)]
        valid = batch["valid"][batch["owner"] == chunk]
        assert len({r for r, v in zip(rows, valid, strict=True) if v}) == valid.sum()
        assert all(r in rows[: valid.sum()] for r in rows)
        repeats += len(rows) - valid.sum()
    assert repeats > 0


def test_a_batch_depends_on_seed_and_step_alone(sets: tuple[PreparedSet, PreparedSet]) -> None:
    forward = [batches(sets).batch(step) for step in range(3)]
    assert same(batches(sets).batch(2), forward[2])
    assert not same(forward[0], forward[1])
    assert not same(batches(sets, seed=2).batch(0), forward[0])


def test_ranks_share_out_the_global_batch(sets: tuple[PreparedSet, PreparedSet]) -> None:
    whole = batches(sets).batch(7)
    for world in (2, 3, 4):
        parts = [batches(sets, rank, world).batch(7) for rank in range(world)]
        for name in ("context", "context_len", "source"):
            joined = np.stack([part[name] for part in parts], axis=1)  # type: ignore[literal-required]
            assert np.array_equal(joined.reshape(whole[name].shape), whole[name])  # type: ignore[literal-required]
        for name in ("questions", "prompt_len", "answer_start", "kind", "valid"):
            joined = np.stack([np.split(part[name], 12 // world) for part in parts], axis=1)  # type: ignore[literal-required]
            assert np.array_equal(joined.reshape(whole[name].shape), whole[name])  # type: ignore[literal-required]


def test_shares_hold_and_an_epoch_sees_every_chunk(sets: tuple[PreparedSet, PreparedSet]) -> None:
    made = batches(sets)
    source = np.concatenate([made.batch(step)["source"] for step in range(100)])
    assert (source == 0).mean() == pytest.approx(0.75, abs=0.01)
    alone = QuestionBatches([MixtureEntry(sets[1], 1.0)], 5, 2, seed=4)
    for epoch in range(3):
        seen = Counter(r.tobytes() for step in range(4) for r in alone.batch(4 * epoch + step)["context"])
        assert set(seen.values()) == {1}
        assert len(seen) == 20


def test_sets_of_other_widths_are_not_mixed(sets: tuple[PreparedSet, PreparedSet], tmp_path: Path) -> None:
    columns, _, _ = tokenise([make_recall(3, random.Random(0))], Pieces(), row_tokens=40)
    write_columns(tmp_path / "narrow", columns, {})
    with pytest.raises(TrainingError, match="different widths"):
        QuestionBatches([MixtureEntry(sets[0], 1.0), MixtureEntry(PreparedSet(tmp_path / "narrow"), 1.0)], 4, 2, seed=0)


@pytest.mark.parametrize("weight", [0.0, -1.0, float("nan"), float("inf")])
def test_bad_mixtures_are_refused(sets: tuple[PreparedSet, PreparedSet], weight: float) -> None:
    with pytest.raises(TrainingError, match="mixture"):
        QuestionBatches([MixtureEntry(sets[0], weight)], 4, 2, seed=0)
    with pytest.raises(TrainingError, match="mixture"):
        QuestionBatches([], 4, 2, seed=0)


def stream(folder: Path, *shards: tuple[np.ndarray, list[int]], shard_tokens: int = 1) -> Path:
    for number, (tokens, starts) in enumerate(shards):
        write_shard(folder / "parts", f"{number:03d}", Shard(tokens.astype(np.uint16), np.array(starts, np.int64)))
    parts = [folder / "parts" / f"{number:03d}.npy" for number in range(len(shards))]
    merge_shards(parts, folder / "stream", {}, shard_tokens)
    return folder / "stream"


def test_packed_windows_cover_the_shards_and_reset_where_documents_start(tmp_path: Path) -> None:
    first, second = np.arange(100, 150), np.arange(200, 231)
    folder = stream(tmp_path, (first, [0, 20, 33]), (second, [0]))
    starts = {100, 120, 133, 200}
    packed = PackedTokens([folder], 2, 10, seed=0)
    assert len(packed) == 7
    seen: set[int] = set()
    for step in range(40):
        batch = packed.batch(step)
        assert batch["tokens"].shape == batch["reset"].shape == (2, 11)
        assert np.array_equal(batch["reset"], np.isin(batch["tokens"], list(starts)))
        for row in batch["tokens"]:
            assert np.array_equal(row, np.arange(row[0], row[0] + 11))
            seen |= set(row.tolist())
    assert seen == {*first.tolist(), *second.tolist()}


def test_packed_windows_resume_at_a_step_and_do_not_depend_on_the_ranks(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    folders = [
        stream(tmp_path, (np.arange(500), [0, 7, 300])),
        stream(tmp_path / "b", (np.arange(1000, 1300), [0])),
    ]
    packed = PackedTokens(folders, 4, 16, seed=3, shares=[1, 3])
    steps = [packed.batch(step) for step in range(30)]
    again = PackedTokens(folders, 4, 16, seed=3, shares=[1, 3])
    for step in (29, 0, 13):
        for name in ("tokens", "reset"):
            assert np.array_equal(again.batch(step)[name], steps[step][name])  # type: ignore[literal-required]
    assert np.mean([(s["tokens"][:, 0] >= 1000).mean() for s in steps]) == pytest.approx(0.75, abs=0.02)
    for world in (2, 4):
        ranks = [
            PackedTokens(folders, 4 // world, 16, seed=3, shares=[1, 3], rank=r, world=world) for r in range(world)
        ]
        joined = np.stack([rank.batch(13)["tokens"] for rank in ranks], axis=1).reshape(4, 17)
        assert np.array_equal(joined, steps[13]["tokens"])


def test_an_epoch_sees_every_window_once(tmp_path: Path) -> None:
    packed = PackedTokens([stream(tmp_path, (np.arange(161), [0]))], 2, 16, seed=0)
    for epoch in range(3):
        firsts = [int(t) for step in range(5) for t in packed.batch(5 * epoch + step)["tokens"][:, 0]]
        assert len(set(firsts)) >= 9  # the last window is moved back into the shard and may meet its neighbour's place


def test_a_stream_without_a_full_window_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="no full window"):
        PackedTokens([stream(tmp_path, (np.arange(8), [0]))], 1, 8, seed=0)
