"""Rows of the catalogue that were changed behind its back are errors, never answers."""

import contextlib

import corpora
import pytest
from damage import change

from precog.errors import CorpusError, DamagedCorpusError
from precog.store import CorpusStore


@pytest.fixture
def path(tmp_path):
    with corpora.create(tmp_path / "corpus") as store:
        corpora.fill(store, 3)
    return tmp_path / "corpus"


def complaints(path):
    with CorpusStore.open(path) as store:
        return list(store.complaints())


def test_a_sound_corpus_has_nothing_to_complain_of(path):
    assert complaints(path) == []


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE chunks SET text = 'something else' WHERE id = 2",
        "UPDATE chunks SET text = x'ff00' WHERE id = 2",
        "UPDATE chunks SET text = 5 WHERE id = 2",
        "UPDATE chunks SET context = '' WHERE id = 2",
        "UPDATE chunks SET span_end = span_end + 1 WHERE id = 2",
        "UPDATE chunks SET span_start = 'x' WHERE id = 2",
        "UPDATE chunks SET page = NULL WHERE id = 2",
        "UPDATE chunks SET page = 'iv' WHERE id = 2",
        "UPDATE chunks SET ordinal = 9 WHERE id = 2",
        "UPDATE chunks SET details = '{x' WHERE id = 2",
        "UPDATE chunks SET details = '[]' WHERE id = 2",
        "UPDATE chunks SET state_id = 5 WHERE id = 2",
        "UPDATE chunks SET state_id = 500 WHERE id = 2",
        "UPDATE chunks SET document_id = 3, ordinal = 7 WHERE id = 2",
        "UPDATE chunks SET seal = 'x' WHERE id = 2",
        "UPDATE documents SET source = 'other.txt' WHERE id = 1",
        "UPDATE states SET content_hash = x'00' WHERE id = 2",
        "UPDATE states SET num_tokens = 'x' WHERE id = 2",
    ],
)
def test_a_changed_chunk_is_named_wherever_it_is_read(path, statement):
    change(path, statement)
    assert any("chunk" in line and ".txt" in line for line in complaints(path))
    with CorpusStore.open(path) as store:
        for read in (lambda: store.chunks([2]), lambda: list(store.iter_texts()), lambda: list(store.iter_texts([2]))):
            with pytest.raises(DamagedCorpusError, match=r"chunk .* of .*\.txt.*precog forget") as caught:
                read()
            assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE keys SET vectors = zeroblob(length(vectors)) WHERE chunk_id = 2",
        "UPDATE keys SET vectors = x'00' WHERE chunk_id = 2",
        "UPDATE keys SET vectors = 'text' WHERE chunk_id = 2",
        "UPDATE keys SET num_windows = num_windows + 1 WHERE chunk_id = 2",
        "UPDATE keys SET num_windows = -1 WHERE chunk_id = 2",
        "UPDATE keys SET (num_windows, vectors, seal) ="
        " (SELECT num_windows, vectors, seal FROM keys WHERE chunk_id = 4) WHERE chunk_id = 2",
        "UPDATE keys SET seal = 'x' WHERE chunk_id = 2",
        "DELETE FROM keys WHERE chunk_id = 2",
    ],
)
def test_changed_keys_are_named_wherever_they_are_read(path, statement):
    change(path, statement)
    assert any("keys of chunk 1 of doc0.txt" in line for line in complaints(path))
    with CorpusStore.open(path) as store:
        for read in (lambda: list(store.iter_keys([2])), lambda: list(store.iter_keys())):
            with pytest.raises(DamagedCorpusError, match=r"keys of chunk .*precog reindex"):
                read()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE documents SET details = '{x' WHERE id = 1",
        "UPDATE documents SET details = '7' WHERE id = 1",
        "UPDATE documents SET raw_sha256 = 'x' WHERE id = 1",
        "UPDATE documents SET size_bytes = 'x' WHERE id = 1",
        "UPDATE documents SET source = x'ff00' WHERE id = 1",
    ],
)
def test_a_changed_document_is_damage(path, statement):
    change(path, statement)
    with CorpusStore.open(path) as store, pytest.raises(DamagedCorpusError, match="document 1") as caught:
        list(store.documents())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("generation", "junk"),
        ("generation", "-1"),
        ("key_dim", "0"),
        ("key_dim", "4.5"),
        ("max_segment_bytes", ""),
        ("next_segment", "x"),
        ("fingerprint", "00"),
        ("fingerprint", "zz"),
        ("corpus_id", ""),
        ("settings", "[]"),
        ("settings", "{"),
        ("layout", "[]"),
        ("layout", '{"state_bytes": "600"}'),
        ("layout", '{"state_bytes": -1, "tau_bytes": 4, "max_tokens": 4}'),
    ],
)
def test_changed_settings_are_damage(path, key, value):
    change(path, f"UPDATE meta SET value = '{value}' WHERE key = '{key}'")
    with pytest.raises(DamagedCorpusError) as caught:
        CorpusStore.open(path, write=True)
    assert "\n" not in str(caught.value)


def test_rows_that_are_gone_are_noticed(path):
    change(path, "DELETE FROM chunks WHERE id = 2")
    assert any("doc0.txt: chunks are missing" in line for line in complaints(path))


def test_a_flipped_bit_anywhere_in_the_catalogue_is_noticed_or_changes_no_answer(path):
    with CorpusStore.open(path) as store:
        expected = {chunk.id: chunk for document in store.documents() for chunk in store.chunks_of(document.id)}
    file = path / "000001/catalogue.sqlite"
    whole = file.read_bytes()
    for position in range(0, len(whole), 997):
        data = bytearray(whole)
        data[position] ^= 1 << position % 8
        file.write_bytes(data)
        with contextlib.suppress(CorpusError), CorpusStore.open(path) as store:
            for chunk_id, chunk in store.chunks(list(expected)).items():
                assert (chunk.source, chunk.info) == (expected[chunk_id].source, expected[chunk_id].info)
            list(store.iter_keys())
            list(store.complaints())
    file.write_bytes(whole)


@pytest.mark.parametrize("wrong", [0, 2])
def test_counters_that_are_wrong_are_noticed(path, wrong):
    change(path, f"UPDATE states SET num_references = {wrong} WHERE id = 2")
    assert any("state 2 is counted wrongly" in line for line in complaints(path))
