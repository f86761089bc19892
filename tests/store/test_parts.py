"""Parts of chunks: rows with a state and keys of their own, that live and die with their chunk."""

import contextlib
import sqlite3

import corpora
import numpy as np
import pytest

from precog.errors import CorpusError, DamagedCorpusError, EncoderError
from precog.store import CorpusStore


@pytest.fixture
def corpus(tmp_path):
    with corpora.create(tmp_path / "corpus") as store:
        corpora.fill_with_parts(store)
    return tmp_path / "corpus"


def changed(corpus, statement):
    with contextlib.closing(sqlite3.connect(corpus / "000001/catalogue.sqlite")) as connection:
        connection.execute(statement)
        connection.commit()


def test_parts_come_back_in_order_with_their_states_and_keys(corpus):
    with CorpusStore.open(corpus) as store:
        chunk_ids = list(store.visible_chunk_ids())
        parts = store.parts(chunk_ids[0])
        assert [part.span for part in parts] == [(0, 11), (12, 23), (24, 35)]
        for part, seed in zip(parts, (30, 31, 8), strict=True):
            record = store.read_part(part)
            np.testing.assert_array_equal(record.state, corpora.parts_of(seed)["state"])
            np.testing.assert_array_equal(record.token_ids, corpora.tokens_of(seed))
            np.testing.assert_array_equal(part.keys, corpora.key_of(seed, len(part.keys)))
        assert store.parts(chunk_ids[2]) == []
        size = store.size()
        assert (size.num_chunks, size.num_parts, size.num_states) == (3, 6, 2 + 4 + 1)
        assert size.key_bytes == 4 * corpora.DIM * (3 + 2 * 4)
        assert list(store.complaints()) == []


def test_a_state_stays_while_a_part_or_a_chunk_has_read_it(corpus):
    with CorpusStore.open(corpus, write=True) as store:
        with store.batch() as batch:
            batch.delete_document(1)
        assert (store.size().num_parts, store.size().num_states) == (0, 1)
        [left] = store.visible_chunk_ids()
        np.testing.assert_array_equal(store.read_state(left).state, corpora.parts_of(8)["state"])
        with store.batch() as batch:
            batch.delete_document(2)
        assert store.size().num_states == 0
        assert list(store.complaints()) == []


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE parts SET start = 1 WHERE id = 1",
        "UPDATE parts SET stop = 4000 WHERE id = 1",
        "UPDATE parts SET ordinal = 7 WHERE id = 1",
        "UPDATE parts SET state_id = 1 WHERE id = 1",
        "UPDATE parts SET num_windows = 2 WHERE id = 1",
        "UPDATE parts SET vectors = zeroblob(16) WHERE id = 1",
        "UPDATE parts SET chunk_id = 3 WHERE id = 1",
        "UPDATE parts SET seal = 'x' WHERE id = 1",
        "UPDATE parts SET vectors = 'text' WHERE id = 1",
    ],
)
def test_a_changed_row_is_an_error_and_never_a_part(corpus, change):
    changed(corpus, change)
    with CorpusStore.open(corpus) as store:
        [chunk_id] = {row for row in (1, 3) if ("chunk_id = 3" in change) == (row == 3)}
        with pytest.raises(DamagedCorpusError, match=r"part \d of chunk 0 of (parts|other)\.txt"):
            store.parts(chunk_id)
        assert any("part" in line for line in store.complaints())


@pytest.mark.parametrize("number", [1, 2])
def test_a_missing_part_is_told(corpus, number):
    changed(corpus, f"DELETE FROM parts WHERE id = {number}")
    with CorpusStore.open(corpus) as store:
        with pytest.raises(DamagedCorpusError, match=r"parts are missing.*precog reindex"):
            store.parts(1)
        assert len(store.parts(2)) == 3
        assert [line for line in store.complaints() if "parts are missing" in line and "chunk 0 of parts.txt" in line]


@pytest.fixture
def counted(tmp_path):
    with corpora.create(tmp_path / "counted") as store:
        corpora.fill_with_parts(store, {"parts": 3})
        assert [len(store.parts(chunk_id)) for chunk_id in store.visible_chunk_ids()] == [3, 3, 0]
        assert list(store.complaints()) == []
    return tmp_path / "counted"


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM parts WHERE id = 3",  # the last of its chunk, which the numbers of the rest do not tell
        "DELETE FROM parts WHERE id IN (2, 3)",
        "DELETE FROM parts WHERE chunk_id = 1",
        "DROP TABLE parts",
        "UPDATE parts SET chunk_id = 3 WHERE id = 3",
    ],
)
def test_a_part_that_is_gone_from_the_end_is_told(counted, change):
    changed(counted, change)
    with CorpusStore.open(counted) as store:
        with pytest.raises(DamagedCorpusError, match=r"parts are missing.*chunk 0 of parts\.txt.*was written with 3"):
            store.parts(1)
        assert [line for line in store.complaints() if "parts are missing" in line and "chunk 0 of parts.txt" in line]
        with pytest.raises(DamagedCorpusError):
            store.checksum()


def test_the_number_of_parts_is_sealed(counted):
    changed(counted, "DELETE FROM parts WHERE id = 3")
    changed(counted, """UPDATE chunks SET details = '{"parts": 2}' WHERE id = 1""")
    with CorpusStore.open(counted) as store, pytest.raises(DamagedCorpusError, match=r"chunk 0 of parts\.txt"):
        store.parts(1)


def test_parts_of_a_chunk_that_is_forgotten_meanwhile_are_none_and_no_damage(counted):
    with CorpusStore.open(counted) as reader:
        assert len(reader.parts(1)) == 3
        with CorpusStore.open(counted, write=True) as store, store.batch() as batch:
            batch.delete_document(1)
        assert reader.parts(1) == []


def test_a_part_whose_document_is_forgotten_cannot_be_read(corpus):
    with CorpusStore.open(corpus) as reader:
        parts = reader.parts(1)
        with CorpusStore.open(corpus, write=True) as store:
            with store.batch() as batch:
                batch.delete_document(1)
            store.scrub()
        with pytest.raises(CorpusError):
            reader.read_part(parts[0])
        assert reader.parts(1) == []


def test_a_state_that_gave_way_is_told(corpus):
    with CorpusStore.open(corpus, write=True) as store:
        with store.batch() as batch:
            assert batch.keep_budget(0) == 7
        [first, *_] = store.parts(1)
        assert not first.is_stored
        with pytest.raises(CorpusError, match="budget"):
            store.read_part(first)


def test_keys_of_another_width_and_parts_of_nothing_are_refused(corpus):
    with CorpusStore.open(corpus, write=True) as store:
        with pytest.raises(EncoderError), store.batch() as batch:
            batch.add_part(1, 3, (36, 40), state_id=1, keys=np.ones((1, corpora.DIM + 1), np.float32))
        with pytest.raises(CorpusError, match="a part needs its chunk"), store.batch() as batch:
            batch.add_part(99, 0, (0, 1), state_id=1, keys=corpora.key_of(1))
