"""Files that a user asks for."""

import os
import stat
from pathlib import Path

import pytest

from precog.errors import StorageError
from precog.memory.transcript.writing import write_jsonl
from precog.memory.utterance import Utterance
from precog.store.folder import write_atomically
from precog.writing import output_file, output_target


def write(path: Path, data: bytes = b"new") -> None:
    with output_file(path) as file:
        file.write(data)


def test_a_file_takes_the_place_of_another_and_nothing_else(tmp_path: Path) -> None:
    path, beside = tmp_path / "a.txt", tmp_path / "a.txt.tmp"
    path.write_bytes(b"old")
    beside.write_bytes(b"another's")
    write(path)
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert beside.read_bytes() == b"another's"
    assert sorted(os.listdir(tmp_path)) == ["a.txt", "a.txt.tmp"]


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"old")
    with pytest.raises(TypeError), output_file(tmp_path / "a.txt") as file:
        file.writelines([b"half", None])
    assert (tmp_path / "a.txt").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_link_is_followed_to_its_file_and_stays(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    link = tmp_path / "link.txt"
    link.symlink_to(tmp_path / "far" / "file.txt")
    for data in (b"first", b"second"):  # first it points to nothing
        write(link, data)
        assert link.is_symlink()
        assert (tmp_path / "far" / "file.txt").read_bytes() == data
    assert os.listdir(tmp_path / "far") == ["file.txt"]


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "to-null").symlink_to(os.devnull)
    (tmp_path / "round").symlink_to(tmp_path / "round")
    for name in (".", "pipe", "to-null"):
        with pytest.raises(StorageError, match="cannot be written there"):
            write(tmp_path / name)
    for path in (tmp_path / "round", tmp_path / "none" / "a.txt", tmp_path / ("a" * 300)):
        with pytest.raises(StorageError):
            write(path)
    assert sorted(os.listdir(tmp_path)) == ["pipe", "round", "to-null"]


@pytest.mark.parametrize("kind", ["memory", "corpus"])
def test_nothing_is_written_within_a_memory_or_a_corpus(tmp_path: Path, kind: str) -> None:
    (tmp_path / kind / "000001").mkdir(parents=True)
    (tmp_path / kind / "precog.json").write_text(f'{{"{kind}": "precog", "format": 1, "current": "000001"}}')
    (tmp_path / "link").symlink_to(tmp_path / kind / "000001")
    for path in (tmp_path / kind / "precog.json", tmp_path / kind / "000001" / "catalogue.sqlite", tmp_path / "link/a"):
        with pytest.raises(StorageError, match=f"within a {kind}"):
            output_target(path)
    with pytest.raises(StorageError, match=f"within a {kind}"):
        write_jsonl([Utterance("Hello.", None)], tmp_path / kind / "a.jsonl")
    assert os.listdir(tmp_path / kind / "000001") == []
    (tmp_path / kind / "precog.json").write_text('{"name": "tiny"}')  # of a model
    write(tmp_path / kind / "a.txt")


def test_a_marker_is_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"another's")
    (tmp_path / "precog.json.tmp").symlink_to(tmp_path / "other")
    write_atomically(tmp_path / "precog.json", b"{}")
    assert (tmp_path / "other").read_bytes() == b"another's"
    assert not (tmp_path / "precog.json").is_symlink()
