import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from precog.errors import TrainingError
from precog.train.data.batches import Batch, MixtureEntry, PackedTokens, QuestionBatches, with_unanswerable
from precog.train.data.recall import make_copy, make_recall
from precog.train.data.rows import Kind, PreparedSet, write_columns
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
        assert batch["questions"].shape == (48, 64)
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
    whole = batches(sets).batch(7)["context"]
    parts = np.concatenate([batches(sets, rank, 3).batch(7)["context"] for rank in range(3)])
    assert Counter(r.tobytes() for r in parts) == Counter(r.tobytes() for r in whole)


def test_shares_hold_and_an_epoch_sees_every_chunk(sets: tuple[PreparedSet, PreparedSet]) -> None:
    made = batches(sets)
    source = np.concatenate([made.batch(step)["source"] for step in range(100)])
    assert (source == 0).mean() == pytest.approx(0.75, abs=0.01)
    alone = QuestionBatches([MixtureEntry(sets[1], 1.0)], 5, 2, seed=4)
    for epoch in range(3):
        seen = Counter(r.tobytes() for step in range(4) for r in alone.batch(4 * epoch + step)["context"])
        assert set(seen.values()) == {1}
        assert len(seen) == 20


def test_unanswerable_rows_ask_another_chunk(sets: tuple[PreparedSet, PreparedSet]) -> None:
    batch = batches(sets).batch(0)
    mixed = with_unanswerable(batch, 0.5, np.random.default_rng(0))
    moved = mixed["kind"] == Kind.UNANSWERABLE
    assert 0.2 < moved.mean() < 0.8
    assert (mixed["owner"][moved] != batch["owner"][moved]).all()
    assert (mixed["owner"][~moved] == batch["owner"][~moved]).all()
    assert (mixed["answer_start"][moved] == -1).all()
    assert (batch["answer_start"] >= 0).all()
    assert not (with_unanswerable(batch, 0.0, np.random.default_rng(0))["kind"] == Kind.UNANSWERABLE).any()


@pytest.mark.parametrize("weight", [0.0, -1.0, float("nan"), float("inf")])
def test_bad_mixtures_are_refused(sets: tuple[PreparedSet, PreparedSet], weight: float) -> None:
    with pytest.raises(TrainingError, match="mixture"):
        QuestionBatches([MixtureEntry(sets[0], weight)], 4, 2, seed=0)
    with pytest.raises(TrainingError, match="mixture"):
        QuestionBatches([], 4, 2, seed=0)


def test_packed_windows_cover_the_streams_and_mark_documents(tmp_path: Path) -> None:
    first, second = np.arange(100, 150, dtype=np.uint16), np.arange(200, 231, dtype=np.uint16)
    first[[0, 20]] = 1
    second[0] = 1
    paths = [tmp_path / "a.npy", tmp_path / "b.npy"]
    np.save(paths[0], first)
    np.save(paths[1], second)
    packed = PackedTokens(paths, 2, 10, seed=0)
    assert len(packed) == 7
    for step in range(20):
        batch = packed.batch(step)
        assert batch["tokens"].shape == (2, 11)
        assert np.array_equal(batch["reset"], batch["tokens"] == 1)
        for row in batch["tokens"]:
            stream = first if row.max() < 200 else second
            at = int(np.flatnonzero(stream == row.max())[0]) - int(row.argmax())
            assert np.array_equal(stream[at : at + 11], row)
    again = PackedTokens(paths, 2, 10, seed=0)
    assert np.array_equal(again.batch(11)["tokens"], packed.batch(11)["tokens"])
    halves = [PackedTokens(paths, 1, 10, seed=0, rank=r, world=2).batch(3)["tokens"] for r in (0, 1)]
    assert np.array_equal(np.concatenate(halves), packed.batch(3)["tokens"])


def test_bad_streams_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="cannot be read"):
        PackedTokens([tmp_path / "absent.npy"], 1, 8, seed=0)
    np.save(tmp_path / "wide.npy", np.zeros(50, dtype=np.int64))
    with pytest.raises(TrainingError, match="another type"):
        PackedTokens([tmp_path / "wide.npy"], 1, 8, seed=0)
    np.save(tmp_path / "short.npy", np.zeros(5, dtype=np.uint16))
    with pytest.raises(TrainingError, match="no full window"):
        PackedTokens([tmp_path / "short.npy"], 1, 8, seed=0)
