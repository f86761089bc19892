"""The formats of versions 1 to 3 for ever: kept corpora, and the snippet of docs/format.md."""

import contextlib
import re
import shutil
import sqlite3
from pathlib import Path

import corpora
import numpy as np
import pytest

from precog.store import ChunkInfo, CorpusStore, Location
from precog.store.migrations import SCHEMA_VERSION

GOLDEN = Path(__file__).parent / "golden" / "v1"
DOCUMENT = Path(__file__).parents[2] / "docs" / "format.md"
CHECKSUM = "6983b92c252bbbf4cfd7fd74819f86cad343c292d04466e61a389226c0c594ba"
CHECKSUM_3 = "dfff5a7980335aad60cc294b0b21bdc931f9b96527c287f97067f292e8ea98f7"


@pytest.fixture
def golden(tmp_path):
    return Path(shutil.copytree(GOLDEN, tmp_path / "corpus"))


@pytest.mark.parametrize("write", [False, True])
def test_a_corpus_of_version_1_opens(golden, write):
    with CorpusStore.open(golden, write=write) as store:
        assert store.checksum() == CHECKSUM
        assert (store.layout, store.fingerprint) == (corpora.LAYOUT, corpora.FINGERPRINT)
        assert [(d.info.source, d.status) for d in store.documents()] == [
            ("doc1.txt", "indexed"),
            ("doc2.txt", "indexed"),
            ("scan.pdf", "failed"),
        ]
        seeds = [int(entry.text[-6:]) for entry in store.iter_texts()]
        assert seeds == [3, 4, 5, 6, 7, 8]
        for chunk_id, seed in zip(store.visible_chunk_ids(), seeds, strict=True):
            np.testing.assert_array_equal(store.read_state(chunk_id).state, corpora.parts_of(seed)["state"])


def test_todays_writer_writes_the_bytes_of_version_1(golden, tmp_path):
    assert SCHEMA_VERSION == 3, "a new version needs a golden corpus of its own beside these"
    with corpora.create(tmp_path / "today") as store:
        corpora.fill(store, 3, 3)
        with store.batch() as batch:
            batch.fail_document(corpora.info_of("scan.pdf"), "no text on any page")
        with store.batch() as batch:
            batch.delete_document(1)
        assert corpora.segment_bytes(store.path) == corpora.segment_bytes(golden)
        assert store.checksum() == CHECKSUM


def test_the_documented_snippet_reads_records_without_precog(golden):
    snippet, *_ = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert len([line for line in snippet.splitlines() if line.strip()]) <= 40
    namespace = {}
    exec(snippet, namespace)
    with CorpusStore.open(golden) as store:
        for place in (Location(0, 4), Location(1, 2)):
            record = store.read(place)
            path = golden / "000001/segments" / f"{place.segment:06d}.seg"
            note, state, tau, token_ids, suffix_array = namespace["read_record"](path, place.slot)
            assert note == store.layout.note
            np.testing.assert_array_equal(state, record.state)
            np.testing.assert_array_equal(tau, record.tau)
            np.testing.assert_array_equal(token_ids, record.token_ids)
            np.testing.assert_array_equal(suffix_array, record.suffix_array)


def test_the_documented_snippet_checks_the_catalogue_without_precog(tmp_path):
    *_, snippet, _ = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    namespace = {}
    exec(snippet, namespace)
    with corpora.create(tmp_path / "corpus") as store:
        corpora.fill(store, 2)
        with store.batch() as batch:
            document = batch.begin_document(corpora.info_of("caf\udce9.txt"))
            state_id = batch.add_state([1], **{**corpora.parts_of(1), "suffix_array": None})
            info = ChunkInfo(0, None, (0, 3), "lone \ud800 and é", details={"table": "ü"})
            batch.add_chunk(document.id, info, state_id=state_id, keys=corpora.key_of(1))
            batch.finish_document(document.id)
        path = store.folder / "catalogue.sqlite"
    assert namespace["unsealed"](path) == namespace["unsealed"](GOLDEN / "000001/catalogue.sqlite") == []
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE chunks SET page = 99 WHERE id = 2")
        connection.execute("UPDATE keys SET num_windows = 9 WHERE chunk_id = 4")
        connection.commit()
    assert namespace["unsealed"](path) == [2, 4]


@pytest.mark.parametrize("write", [False, True])
def test_a_corpus_of_version_2_opens_with_states_that_gave_way(tmp_path, write):
    folder = Path(shutil.copytree(GOLDEN.parent / "v2", tmp_path / "corpus"))
    with CorpusStore.open(folder, write=write) as store:
        assert store.checksum() == "2b0dc04e1b288356603ca70991859e58d368bb81d34535c5394cad7ffb3ef6fe"
        assert store.state_budget_bytes == 4 * store.layout.record_bytes
        assert (store.size().num_states, store.size().num_unstored) == (4, 2)
        seeds = [int(entry.text[-6:]) for entry in store.iter_texts()]
        chunks = store.chunks(list(store.visible_chunk_ids())).values()
        for chunk, seed in zip(chunks, seeds, strict=True):
            if chunk.is_stored:
                np.testing.assert_array_equal(store.read_state(chunk).state, corpora.parts_of(seed)["state"])


@pytest.mark.parametrize("write", [False, True])
def test_a_corpus_of_version_3_opens_with_its_parts(tmp_path, write):
    folder = Path(shutil.copytree(GOLDEN.parent / "v3", tmp_path / "corpus"))
    with CorpusStore.open(folder, write=write) as store:
        assert store.checksum() == CHECKSUM_3
        seeds = [(30, 31, 8), (40, 41, 8), ()]
        for chunk_id, own in zip(store.visible_chunk_ids(), seeds, strict=True):
            for part, seed in zip(store.parts(chunk_id), own, strict=True):
                np.testing.assert_array_equal(store.read_part(part).state, corpora.parts_of(seed)["state"])


def test_todays_writer_writes_the_bytes_of_version_3(tmp_path):
    with corpora.create(tmp_path / "today") as store:
        corpora.fill_with_parts(store)
        assert store.checksum() == CHECKSUM_3
        assert corpora.segment_bytes(store.path) == corpora.segment_bytes(GOLDEN.parent / "v3")


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_an_older_corpus_has_no_parts(tmp_path, version):
    folder = Path(shutil.copytree(GOLDEN.parent / version, tmp_path / "corpus"))
    with CorpusStore.open(folder) as store:
        assert [store.parts(chunk_id) for chunk_id in store.visible_chunk_ids()] == [[]] * store.size().num_chunks
        assert (store.size().num_parts, list(store.complaints())) == (0, [])
