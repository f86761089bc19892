"""Prepared data whose bytes, values or meta.json are not what was written, and disks that do not take it."""

import json
import random
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from precog.errors import StorageError, TrainingError
from precog.train.data.documents import Document
from precog.train.data.recall import make_recall
from precog.train.data.rows import COLUMNS, PreparedSet, crc32_of, merge_folders, write_columns
from precog.train.data.shards import TokenStream, merge_shards, tokens_of, write_shard
from precog.train.data.tokens import Pieces, tokenise
from precog.train.mixture import prepared_sets

PIECES = Pieces()
DEEP = "[" * 100_000 + "]" * 100_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    columns, _, _ = tokenise([make_recall(3, random.Random(i)) for i in range(6)], PIECES)
    write_columns(tmp_path / "train" / "recall", columns, {})
    return tmp_path / "train" / "recall"


@pytest.fixture
def stream(tmp_path: Path) -> Path:
    documents = [Document(f"T{i}", (f"Number {i}.",)) for i in range(4)]
    write_shard(tmp_path / "parts", "0", tokens_of(documents, PIECES))
    merge_shards([tmp_path / "parts" / "0.npy"], tmp_path / "stream", {})
    return tmp_path / "stream"


def refused(action: Callable[[], object], message: str) -> None:
    with pytest.raises(TrainingError, match=message) as told:
        action()
    assert "\n" not in str(told.value)


def reseal(folder: Path) -> None:
    meta = json.loads((folder / "meta.json").read_text())
    meta["crc32"] = {name: crc32_of(folder / f"{name}.npy") for name in COLUMNS}
    (folder / "meta.json").write_text(json.dumps(meta))


@pytest.mark.parametrize("name", ["context", "answer_start"])
def test_a_run_that_opens_sets_compares_every_byte(folder: Path, name: str) -> None:
    raw = bytearray((folder / f"{name}.npy").read_bytes())
    raw[-2] ^= 1
    (folder / f"{name}.npy").write_bytes(raw)
    refused(lambda: prepared_sets(folder.parent), "damaged")


def test_rows_in_another_order_under_the_same_meta_are_noticed(folder: Path) -> None:
    questions = np.load(folder / "questions.npy", mmap_mode="r+")
    questions[:2] = questions[1::-1].copy()
    questions.flush()
    refused(lambda: prepared_sets(folder.parent), "damaged")


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("context_len", 1, -5),
        ("context_len", 1, 300),
        ("row_len", 2, 30_000),
        ("row_len", 2, 0),
        ("prompt_len", 1, 0),
        ("prompt_len", 1, 200),
        ("answer_start", 1, 32_000),
        ("answer_start", 1, -2),
        ("answer_len", 1, 9),
        ("kind", slice(None), 3),
        ("kind", 1, 255),
        ("chunk", 0, 4),
        ("chunk", 0, -1),
        ("first_question", slice(None), 0),
        ("first_question", 0, 1),
        ("first_question", -1, 10_000),
        ("first_question", 2, -1),
    ],
)
def test_values_that_cannot_be_are_refused_even_if_sealed(folder: Path, name: str, place: int, value: int) -> None:
    column = np.load(folder / f"{name}.npy", mmap_mode="r+")
    column[place] = value
    column.flush()
    reseal(folder)
    for verify in (False, True):
        refused(lambda v=verify: PreparedSet(folder, verify=v), f"holds what cannot be.*({name}|answer_len)")


def test_columns_of_other_lengths_are_refused(folder: Path) -> None:
    kind = np.load(folder / "kind.npy")
    np.save(folder / "kind.npy", kind[:-1])
    meta = json.loads((folder / "meta.json").read_text())
    meta["shapes"]["kind"] = [len(kind) - 1]
    (folder / "meta.json").write_text(json.dumps(meta))
    refused(lambda: PreparedSet(folder), "rows of kind")


@pytest.mark.parametrize("text", ["[]", "null", "3", DEEP, '{"a": ' * 50_000, '{"format": 2}', "{}"])
def test_a_sets_meta_of_another_form(folder: Path, text: str) -> None:
    (folder / "meta.json").write_text(text)
    refused(lambda: PreparedSet(folder), "damaged|not a folder of prepared|another format|another tokenizer")


@pytest.mark.parametrize("key", ["notes", "shapes", "crc32"])
@pytest.mark.parametrize("value", [None, [], 3])
def test_a_sets_meta_without_a_part(folder: Path, key: str, value: object) -> None:
    meta = json.loads((folder / "meta.json").read_text())
    (folder / "meta.json").write_text(json.dumps(meta | {key: value}))
    refused(lambda: PreparedSet(folder, verify=True), "meta.json .* damaged")
    del meta[key]
    (folder / "meta.json").write_text(json.dumps(meta))
    refused(lambda: PreparedSet(folder, verify=True), "meta.json .* damaged")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"vocabulary": 32000', '"vocabulary": 1e999'),
        ('"vocabulary": 32000', '"vocabulary": null'),
        ('"tokens": ', '"tokens": 1e999, "x": '),
        ('"crc32": {', '"crc32": null, "x": {'),
        ('"shards": [', '"shards": 7, "x": ['),
    ],
)
def test_a_streams_meta_of_another_form(stream: Path, old: str, new: str) -> None:
    text = (stream / "meta.json").read_text()
    assert old in text
    (stream / "meta.json").write_text(text.replace(old, new))
    refused(lambda: TokenStream(stream), "damaged")
    (stream / "meta.json").write_text(DEEP)
    refused(lambda: TokenStream(stream), "not a token stream")


@pytest.mark.parametrize("value", [-1, 1_000_000])
def test_a_streams_documents_start_in_order(stream: Path, value: int) -> None:
    documents = np.load(stream / "00000.docs.npy", mmap_mode="r+")
    documents[2] = value
    documents.flush()
    refused(lambda: TokenStream(stream, verify=False), "do not start in order")


@pytest.mark.parametrize(
    "content", [b"", b"\x93NUMPY", b"PK\x03\x04junk", b"\x93NUMPY\x01\x00\x06\x00((((((", b"x" * 99]
)
def test_files_that_are_no_arrays(folder: Path, stream: Path, content: bytes) -> None:
    (folder / "kind.npy").write_bytes(content)
    (stream / "00000.npy").write_bytes(content)
    refused(lambda: PreparedSet(folder), "cannot be read")
    refused(lambda: TokenStream(stream), "cannot be read")


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_that_takes_less_than_is_written(folder: Path, tmp_path: Path) -> None:
    columns = dict(PreparedSet(folder).columns)
    shard = tokens_of([Document("T", ("word " * 500,))], PIECES)
    with file_size_limit(200):
        for action in (
            lambda: write_columns(tmp_path / "made", columns, {}),
            lambda: merge_folders([folder], tmp_path / "made", {}),
            lambda: write_shard(tmp_path / "parts", "9", shard),
        ):
            with pytest.raises(StorageError, match="cannot be written"):
                action()
    assert not (tmp_path / "made").exists()
    assert PreparedSet(folder, verify=True).num_questions
