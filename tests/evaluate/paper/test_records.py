"""Records that a run is gone on from: whole ones count, of the same settings and code only."""

import json
import shutil
from pathlib import Path

import pytest

from precog.errors import StorageError
from precog.evaluate.paper.records import Records, code_digest


class Squares:
    name = "squares"

    def __init__(self, size: int = 5, **settings: object) -> None:
        self.settings = settings
        self.size = size

    def __len__(self) -> int:
        return self.size

    def measure(self, number: int):
        return {"square": number * number}

    def report(self, records):
        return {"sum": sum(record["square"] for record in records)}


def write(records: Records, numbers: list[int]) -> Path:
    before = set(records.paths)
    with records.write({"machine": "here"}) as file:
        for number in numbers:
            file.add(number, Squares().measure(number))
    [path] = set(records.paths) - before
    return path


def test_what_several_processes_wrote_is_one(tmp_path: Path) -> None:
    records = Records(tmp_path, "squares", Squares(seed=1), "code")
    write(records, [0, 2])
    write(records, [1, 3])
    assert records.read() == {number: {"square": number * number} for number in range(4)}
    assert records.count() == 4
    assert records.origins() == [{"machine": "here"}] * 2


@pytest.mark.parametrize("lost", range(1, 30, 4))
def test_a_line_that_was_not_finished_was_not_begun(tmp_path: Path, lost: int) -> None:
    records = Records(tmp_path, "squares", Squares(), "code")
    path = write(records, [0, 1])
    path.write_bytes(path.read_bytes()[:-lost])
    assert records.read() == {0: {"square": 0}}


def test_nonsense_in_a_file_is_no_record(tmp_path: Path) -> None:
    records = Records(tmp_path, "squares", Squares(), "code")
    path = write(records, [0])
    lines = [
        b"\xff\xfe",
        b"[]",
        b'"number"',
        b'{"number": "1", "record": {}}',
        b'{"number": 2, "record": 3}',
        b'{"number": 5, "record": {"square": 25}}',
        b'{"number": -1, "record": {"square": 1}}',
        b"[" * 100_000,
        b'{"number": 1, "record": {"square": 1}}',
    ]
    path.write_bytes(path.read_bytes() + b"\n".join(lines) + b"\n")
    assert records.read() == {0: {"square": 0}, 1: {"square": 1}}


def test_other_settings_another_name_or_other_code_have_records_of_their_own(tmp_path: Path) -> None:
    first = Records(tmp_path, "squares", Squares(seed=1), "code")
    write(first, [0])
    for other in (
        Records(tmp_path, "squares", Squares(seed=2), "code"),
        Records(tmp_path, "squares", Squares(seed=1), "changed"),
        Records(tmp_path, "cubes", Squares(seed=1), "code"),
    ):
        assert other.read() == {}
    assert Records(tmp_path, "squares", Squares(seed=1), "code").read() == first.read() != {}


def test_records_that_cannot_be_written_are_told(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="records cannot be written"):
        Records(tmp_path / "nowhere", "squares", Squares(), "code").write({})


def test_the_code_that_measures_is_named_by_its_bytes(repository: Path, tmp_path: Path) -> None:
    package = shutil.copytree(repository / "src" / "precog", tmp_path / "precog")
    digest = code_digest(package)
    assert digest == code_digest()
    for name, counts in (("engine/grounded.py", True), ("cli/eval.py", False), ("evaluate/paper/html.py", False)):
        source = package / name
        source.write_bytes(source.read_bytes() + b"\n")
        assert (code_digest(package) != digest) == counts, name
        digest = code_digest(package)


def test_a_record_is_one_line_of_json(tmp_path: Path) -> None:
    path = write(Records(tmp_path, "squares", Squares(), "code"), [3])
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"origin": {"machine": "here"}},
        {"number": 3, "record": {"square": 9}},
    ]
