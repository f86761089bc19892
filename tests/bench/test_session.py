"""The start of a session reads one row of state, whatever the memory holds."""

import json
import re
import sqlite3
from pathlib import Path

import pytest

from precog.backbones.protocol import Backbone
from precog.bench.history import create_memory, fill_memory
from precog.bench.model import open_backbone
from precog.bench.raw import bytes_read_by
from precog.bench.session import OPENING, SessionSettings, bench_session, sized
from precog.cli.main import main
from precog.encoders import Encoder, load_encoder
from precog.errors import StorageError, UsageError
from precog.memory.routing import route
from precog.records import ModelChoice
from precog.session import Session


@pytest.fixture(scope="module")
def backbone() -> Backbone:
    return open_backbone("random:tiny")


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return load_encoder()


def test_the_same_bytes_are_read_after_ten_deposits_and_after_hundreds(
    backbone: Backbone, encoder: Encoder, tmp_path: Path
) -> None:
    settings = SessionSettings((10, 700), repeats=3, warm_up=1)
    result = bench_session(backbone, settings, encoder=encoder, folder=tmp_path, quick=True)
    values = result.to_json()["values"]
    spec = backbone.spec
    assert values["few_state_read_bytes"] == values["many_state_read_bytes"]
    assert values["few_state_read_bytes"] == 4 * spec.layers * (spec.reals_per_layer + spec.decay_groups)
    assert values["few_deposits_in_state"] == 1 < values["many_deposits_in_state"]
    assert values["few_files_read_bytes"] == values["many_files_read_bytes"]
    assert result.ratios["state_bytes"].ok
    assert values["few_start"]["median_sec"] > values["few_encode"]["median_sec"]
    assert list(tmp_path.iterdir()) == []


def test_no_table_that_grows_is_touched(
    backbone: Backbone, encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with create_memory(tmp_path / "m", backbone, encoder) as memory:
        settings = memory.settings
        found = route(
            encoder.encode_query(OPENING),
            memory.prototypes,
            temperature=settings.temperature,
            threshold=settings.threshold,
        )
        fill_memory(memory, 120, (found.domain, found.subcluster))
    asked: list[str] = []
    connect = sqlite3.connect

    def listening(*args: object, **options: object) -> sqlite3.Connection:
        connection = connect(*args, **options)  # type: ignore[call-overload]  # as they came
        connection.set_trace_callback(asked.append)
        return connection

    monkeypatch.setattr(sqlite3, "connect", listening)
    with Session(tmp_path / "m", model=ModelChoice(loaded=backbone), encoder=encoder) as session:
        start = session.begin(OPENING)
        assert (start.domain, start.subcluster) == (found.domain, found.subcluster)
        assert start.num_deposits > 1
        assert session.semantic is not None
    monkeypatch.undo()
    selects = [sql for sql in asked if sql.startswith("SELECT")]
    assert any("FROM semantic" in sql for sql in selects)
    assert all(sql.startswith(("SELECT", "PRAGMA")) for sql in asked)  # nothing is written, no transaction begun
    (catalogue,) = (tmp_path / "m").rglob("catalogue.sqlite")
    with sqlite3.connect(catalogue) as connection:
        plans = [row[3] for sql in selects for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}")]
    connection.close()
    scanned = {match[1] for plan in plans if (match := re.match(r"SCAN (\w+)", plan))}
    searched = {match[1] for plan in plans if (match := re.match(r"SEARCH (\w+)", plan))}
    assert scanned <= {"sqlite_master", "sqlite_schema", "meta"}
    assert searched == {"meta", "semantic", "prototypes"}


def test_what_a_call_reads_is_counted(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(12_345))
    counted = bytes_read_by((tmp_path / "file").read_bytes)
    assert counted in (None, 12_345)


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        main(
            ["bench", "session", "--quick", "--deposits", "40", "--deposits", "5", "--folder", str(tmp_path), "--json"]
        )
    assert ended.value.code == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["values"]["deposits_few"], shown["values"]["deposits_many"]) == (5, 40)
    assert {"start", "start_without_encoder", "state_bytes"} <= set(shown["ratios"])
    assert shown["machine"]["cpu"]
    with pytest.raises(SystemExit) as ended:
        main(["bench", "session", "--deposits", "5"])
    assert ended.value.code == 2
    assert "twice" in capsys.readouterr().err


def test_what_cannot_be_measured_is_refused(backbone: Backbone, encoder: Encoder, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="bench session"):
        sized(quick=True, deposits=[0, 5])
    with create_memory(tmp_path / "m", backbone, encoder) as memory:
        first = memory.prototypes.subclusters[0]
        with pytest.raises(StorageError, match="no room"):
            fill_memory(memory, 10**12, (first.domain, first.name))
