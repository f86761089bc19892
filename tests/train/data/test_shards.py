import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precog.errors import TrainingError
from precog.train.data.documents import Document
from precog.train.data.shards import Shard, TokenStream, merge_shards, segments, tokens_of, write_shard
from precog.train.data.tokens import Pieces

PIECES = Pieces()
WORDS = st.lists(st.sampled_from(["river", "Köthen", "1717.", "It", "stood", "日本", "end."]), max_size=60)


@given(st.lists(WORDS.map(" ".join), min_size=1, max_size=6), st.sampled_from([8, 16, 64]))
@settings(max_examples=80, deadline=None)
def test_segments_hold_the_text_and_no_more_tokens_than_they_may(paragraphs: list[str], limit: int) -> None:
    document = Document("Title", tuple(p for p in paragraphs if p))
    parts = segments(document, PIECES, limit)
    assert all(part[0] == 1 and 1 < len(part) <= limit and 1 not in part[1:] for part in parts)
    told = "".join("".join(PIECES.decode(part[1:]).split()) for part in parts)
    assert told.replace("�", "") in "".join(["Title", *"".join(document.paragraphs).split()]) or "�" in told
    if limit == 64:
        assert told == "".join(["Title", *"".join(document.paragraphs).split()])


def test_a_segments_tokens_are_those_of_its_text() -> None:
    document = Document("Head", ("First paragraph.", "Second one.", "Third."))
    assert segments(document, PIECES) == [[1, *PIECES.encode(["Head\nFirst paragraph.\nSecond one.\nThird."])[0]]]


@pytest.fixture
def stream(tmp_path: Path) -> Path:
    documents = [Document(f"T{i}", tuple(f"Paragraph {j} of text {i}." for j in range(9))) for i in range(12)]
    for number in range(3):
        write_shard(tmp_path / "parts", f"{number}", tokens_of(documents[number::3], PIECES, 32))
    merge_shards([tmp_path / "parts" / f"{n}.npy" for n in range(3)], tmp_path / "stream", {"files": ["a"]}, 900)
    return tmp_path / "stream"


def test_documents_start_where_the_index_says(stream: Path) -> None:
    opened = TokenStream(stream)
    assert len(opened.shards) == 2
    assert opened.num_documents == 12
    titles = []
    for shard in opened.shards:
        assert shard.documents[0] == 0
        assert (np.diff(shard.documents) > 0).all()
        assert (shard.tokens[shard.documents] == 1).all()
        assert (shard.tokens == 1).sum() > len(shard.documents)  # segments, too, are opened by <s>
        titles += [PIECES.decode(shard.tokens[at + 1 : at + 4].tolist()).split()[0] for at in shard.documents]
    assert sorted(titles) == sorted(f"T{i}" for i in range(12))
    assert not list(stream.parent.glob(".*"))


def spoil_truncated(folder: Path) -> None:
    path = folder / "00001.npy"
    path.write_bytes(path.read_bytes()[:-6])


def spoil_bit(folder: Path) -> None:
    path = folder / "00000.npy"
    raw = bytearray(path.read_bytes())
    raw[-3] ^= 4
    path.write_bytes(raw)


def spoil_missing(folder: Path) -> None:
    (folder / "00000.docs.npy").unlink()


def spoil_meta(folder: Path, **values: object) -> None:
    meta = json.loads((folder / "meta.json").read_text())
    (folder / "meta.json").write_text(json.dumps(meta | values))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (spoil_truncated, "cut short"),
        (spoil_bit, "a token shard is damaged"),
        (spoil_missing, "missing"),
        (lambda folder: np.save(folder / "00000.npy", np.zeros(4, np.int64)), "another shape"),
        (lambda folder: spoil_meta(folder, tokenizer_sha256="0" * 64), "another tokenizer"),
        (lambda folder: spoil_meta(folder, format=7), "another format"),
        (lambda folder: spoil_meta(folder, shards=[]), "no shard"),
        (lambda folder: spoil_meta(folder, shards=[{"name": "x"}]), "damaged"),
        (lambda folder: shutil.rmtree(folder), "not a token stream"),
    ],
)
def test_damaged_and_foreign_streams_are_refused(stream: Path, spoil: object, message: str) -> None:
    assert callable(spoil)
    spoil(stream)
    with pytest.raises(TrainingError, match=message) as told:
        TokenStream(stream)
    assert "\n" not in str(told.value)


def test_an_empty_shard_is_refused(tmp_path: Path) -> None:
    write_shard(tmp_path / "parts", "0", Shard(np.ones(3, np.uint16), np.zeros(1, np.int64)))
    merge_shards([tmp_path / "parts" / "0.npy"], tmp_path / "stream", {})
    np.save(tmp_path / "stream" / "00000.npy", np.zeros(0, np.uint16))
    meta = json.loads((tmp_path / "stream" / "meta.json").read_text())
    meta["shards"][0]["tokens"] = 0
    (tmp_path / "stream" / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(TrainingError, match="a token shard is empty"):
        TokenStream(tmp_path / "stream", verify=False)
