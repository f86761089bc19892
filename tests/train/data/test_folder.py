import gzip
import json
import os
import random
from pathlib import Path

import pytest

from precog.errors import InputError
from precog.questions.passage import Kind
from precog.train.data.folder import is_prepared, kind_of, prepare_folder
from precog.train.data.prepare import PrepareOptions, prepare
from precog.train.data.rows import PreparedSet
from precog.train.data.shards import TokenStream

RNG = random.Random(0)
NAMES = ("Henry Stone", "Maria Weber", "Paul Miller", "John Baker", "Anna Frank")
PLACES = ("Rome", "Oxford", "Milan", "Geneva", "Turin")


def prose(count: int) -> str:
    return "\n".join(
        f"In {RNG.randint(1200, 1990)} {RNG.choice(NAMES)} built a large mill near {RNG.choice(PLACES)} for the people "
        f"of the valley. The mill had {RNG.randint(3, 400)} wheels and was {RNG.randint(5, 90)} m tall."
        for _ in range(count)
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "raw" / "deep").mkdir(parents=True)
    (tmp_path / "raw" / "book.txt").write_text(prose(160))  # about 20 KB, one document
    return tmp_path / "raw"


def test_a_small_folder_gives_train_and_val(folder: Path, tmp_path: Path) -> None:
    assert 18_500 < (folder / "book.txt").stat().st_size < 24_000
    made = prepare_folder(folder, tmp_path / "out")
    assert is_prepared(made)
    train, val = (PreparedSet(made / split / "text", verify=True) for split in ("train", "val"))
    assert len(train) > 5 * len(val) > 0
    assert {Kind.WH, Kind.CLOZE} <= {Kind(k) for k in train.columns["kind"].tolist()}
    streams = [TokenStream(made / "stream" / split / "text") for split in ("train", "val")]
    assert streams[0].num_tokens > 8 * streams[1].num_tokens > 0
    assert not [p for p in (tmp_path / "out").iterdir() if p.name.startswith(".")]


def test_a_folder_is_prepared_once_and_again_when_it_changed(folder: Path, tmp_path: Path) -> None:
    told: list[str] = []
    first = prepare_folder(folder, tmp_path / "out", on_progress=told.append)
    count = len(told)
    assert prepare_folder(folder, tmp_path / "out", on_progress=told.append) == first
    assert len(told) == count
    assert prepare_folder(folder, tmp_path / "out", seed=1) != first
    os.utime(folder / "book.txt", ns=(1, 1))
    again = prepare_folder(folder, tmp_path / "out", on_progress=told.append)
    assert again != first
    assert "changed" in told[count]
    stored = [PreparedSet(made / "train" / "text").columns["questions"].tobytes() for made in (first, again)]
    assert stored[0] == stored[1]


def test_every_kind_of_file_is_told_apart_and_read(folder: Path, tmp_path: Path) -> None:
    talk = [
        {"id": str(i), "turns": [{"speaker": "Ann", "text": f"I met Paul Miller in {place} at 5 pm."},
                                 {"speaker": "Bob", "text": "Was he well?"}]}
        for i, place in enumerate(PLACES * 5)
    ]  # fmt: skip
    (folder / "deep" / "talk.jsonl.gz").write_bytes(gzip.compress("\n".join(map(json.dumps, talk)).encode()))
    paragraphs = [
        {"context": f"The mill of {n} was built by Henry Stone.",
         "qas": [{"question": f"Who built the mill of {n}?", "id": str(n),
                  "answers": [{"text": "Henry Stone", "answer_start": 26 + len(str(n))}]}]}
        for n in range(40)
    ]  # fmt: skip
    squad = {"data": [{"title": "Mills", "paragraphs": paragraphs}], "version": "1.1"}
    (folder / "deep" / "qa.json").write_text(json.dumps(squad))
    (folder / "more.jsonl").write_text(json.dumps({"title": "More", "text": prose(20)}))
    assert [kind_of(folder / name) for name in ("book.txt", "more.jsonl", "deep/qa.json", "deep/talk.jsonl.gz")] == [
        "text",
        "text",
        "squad",
        "chat",
    ]
    made = prepare_folder(folder, tmp_path / "out", workers=1)
    assert {p.name for p in (made / "train").iterdir()} == {"text", "dialogue", "squad", "squad_remix"}
    assert {p.name for p in (made / "stream" / "train").iterdir()} == {"text", "dialogue"}
    assert {p.name for p in (made / "val").iterdir()} >= {"text", "squad", "squad_remix"}
    assert len(PreparedSet(made / "train" / "squad")) == 38


def test_documents_are_held_out_whole_where_there_are_some(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    for number in range(24):
        (raw / f"{number:02d}.txt").write_text(f"# Text {number}\n{prose(8)}")
    made = prepare_folder(raw, tmp_path / "out")
    assert TokenStream(made / "stream" / "val" / "text").num_documents == 1
    assert TokenStream(made / "stream" / "train" / "text").num_documents == 23


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", "{}", "no known form"),
        ("a.json", "nonsense", "no known form"),
        ("a.txt", "\n \n", "no text to train on was found"),
        ("a.txt", "\x00\udcff", "cannot be read"),
        ("a.pdf", "x", "no text to train on; given: .*raw: 1 .pdf; expected: files ending in .*; turn documents"),
    ],
)
def test_folders_without_anything_to_train_on_are_told(tmp_path: Path, name: str, content: str, message: str) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / name).write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(InputError, match=message) as told:
        prepare_folder(raw, tmp_path / "out")
    assert "\n" not in str(told.value)
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())
    with pytest.raises(InputError, match="no such folder"):
        prepare_folder(tmp_path / "absent", tmp_path / "out")


def test_files_of_other_formats_are_told_and_those_of_the_output_are_not(folder: Path, tmp_path: Path) -> None:
    for name in ("a.pdf", "deep/b.pdf", "c.csv", ".hidden.csv"):
        (folder / name).write_bytes(b"x")
    told: list[str] = []
    line = f"passed over 3 files of other formats in {folder}: 2 .pdf, 1 .csv; "
    for _ in range(2):  # also where it is found prepared
        prepare_folder(folder, folder / "out", on_progress=told.append)
        assert told[0].startswith(line)
        assert sum("passed over" in text for text in told) == 1
        told.clear()
    with pytest.raises(InputError, match="a format that is not read"):
        prepare_folder(folder / "c.csv", tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_what_is_too_long_is_told_with_how_long_it_may_be_and_what_changes_that(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    ask = "Who built the mill of Oslo?"
    paragraphs = [
        {"context": f"The mill of {n} was built by Henry Stone.",
         "qas": [{"question": question, "id": f"{n}", "answers": [{"text": "Henry Stone", "answer_start": 26 + len(n)}]}
                 for question in (ask, ask * 9)]}
        for n in map(str, range(30))
    ]  # fmt: skip
    (raw / "qa.json").write_text(json.dumps({"data": [{"title": "Mills", "paragraphs": paragraphs}], "version": "1.1"}))
    said = ("I met Paul Miller in Rome at 5 pm.", "word " * 200)
    turns = [{"speaker": name, "text": text} for name, text in zip(("Ann", "Bob"), said, strict=True)]
    (raw / "talk.jsonl").write_text("".join(json.dumps({"id": str(i), "turns": turns}) + "\n" for i in range(25)))
    told: list[str] = []
    prepare_folder(raw, tmp_path / "out", on_progress=told.append)
    assert (
        "squad: 30 of 60 questions were left out: with its answer one may be 48 tokens long"
        " (`precog train-data --row-tokens N` changes that), the answer alone 24"
    ) in told
    assert "dialogue: 25 of 50 turns were left out: one may be 900 characters long, whatever the options" in told
    told.clear()
    options = PrepareOptions(out=tmp_path / "wide", squad=(raw / "qa.json",), squad_copies=0, row_tokens=128)
    prepare(options, told.append)
    assert not [line for line in told if "left out" in line]
