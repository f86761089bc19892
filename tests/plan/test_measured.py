"""Disk, energy and a model are measured where they are; nothing is made up where they cannot be."""

import os
from pathlib import Path

import numpy as np
import pytest
from tiny_corpus import WordEncoder

from precog.backbones.tenns.backbone import TennsBackbone
from precog.errors import StorageError
from precog.plan.disk import LARGE, DiskSpeed, _read_from_disks, measure_disk
from precog.plan.energy import measure_energy
from precog.plan.measured import measure_device, state_size
from precog.plan.speed import ReadSpeed
from precog.state import codec_named
from precog.text.tokenizer import load_mistral_tokenizer


@pytest.fixture(scope="module")
def backbone() -> TennsBackbone:
    return TennsBackbone.random("tiny-outer", load_mistral_tokenizer())


def write_zone(folder: Path, zone: str, name: str, energy: str, most: str = "999999") -> Path:
    path = folder / zone
    path.mkdir(parents=True)
    (path / "name").write_text(f"{name}\n")
    (path / "energy_uj").write_text(f"{energy}\n")
    (path / "max_energy_range_uj").write_text(f"{most}\n")
    return path / "energy_uj"


def test_energy_of_all_packages_and_of_nothing_twice(tmp_path: Path) -> None:
    first = write_zone(tmp_path, "intel-rapl:0", "package-0", "100")
    second = write_zone(tmp_path, "intel-rapl:1", "package-1", "999000")
    part = write_zone(tmp_path, "intel-rapl:0:0", "core", "0")
    whole = write_zone(tmp_path, "intel-rapl:2", "psys", "0")
    again = write_zone(tmp_path, "intel-rapl-mmio:0", "package-0", "0")

    def work() -> None:
        first.write_text("500100\n")
        second.write_text("249000\n")  # began again: 999,000 to 999,999, 0, and on to 249,000
        part.write_text("400000\n")
        whole.write_text("900000\n")
        again.write_text("500000\n")

    energy = measure_energy(work, tmp_path)
    assert energy.joules == pytest.approx(0.75)
    assert "2 processor package(s)" in energy.why


@pytest.mark.parametrize(
    ("name", "energy", "told"),
    [
        ("core", "1", "counts no package's energy"),
        ("package-0", "much", "cannot be read"),
        ("package-0", "1", "stand still"),
    ],
)
def test_energy_that_is_not_counted_is_not_made_up(tmp_path: Path, name: str, energy: str, told: str) -> None:
    write_zone(tmp_path, "intel-rapl:0", name, energy)
    done: list[bool] = []
    found = measure_energy(lambda: done.append(True), tmp_path)
    assert (found.joules, done) == (None, [True])
    assert told in found.why


def test_a_machine_without_counters_or_with_forbidden_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[bool] = []
    found = measure_energy(lambda: done.append(True), tmp_path / "nowhere")
    assert (found.joules, done) == (None, [True])
    assert "no RAPL" in found.why
    write_zone(tmp_path, "intel-rapl:0", "package-0", "1")
    read = Path.read_text

    def forbidden(path: Path, encoding: str | None = None) -> str:
        if path.name == "energy_uj":
            raise PermissionError(13, "Permission denied")
        return read(path, encoding=encoding)

    monkeypatch.setattr(Path, "read_text", forbidden)
    found = measure_energy(lambda: done.append(True), tmp_path)
    assert (found.joules, done) == (None, [True, True])
    assert "may not be read by this user" in found.why


def test_a_counter_that_vanishes_is_no_energy(tmp_path: Path) -> None:
    counter = write_zone(tmp_path, "intel-rapl:0", "package-0", "1")
    assert measure_energy(counter.unlink, tmp_path).joules is None


@pytest.mark.parametrize(
    ("before", "after", "is_cold"), [(0, LARGE, True), (0, LARGE // 2, False), (7, 7, False), (None, None, None)]
)
def test_a_disk_is_read_and_left_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int | None, after: int | None, is_cold: bool | None
) -> None:
    counts = iter((before, after))
    monkeypatch.setattr("precog.plan.disk._read_from_disks", lambda path: next(counts))
    found = measure_disk(tmp_path, LARGE)
    assert found.is_cold is is_cold
    assert found.speed.bytes_per_sec > 0
    assert found.speed.latency_sec >= 0
    assert list(tmp_path.iterdir()) == []


def test_the_system_s_count_of_bytes(tmp_path: Path) -> None:
    counters = tmp_path / "io"
    counters.write_text("rchar: 5\nread_bytes: 4096\nwrite_bytes: 1\n")
    assert _read_from_disks(counters) == 4096
    for text in ("rchar: 5\n", "read_bytes: many\n", "read_bytes:\n"):
        counters.write_text(text)
        assert _read_from_disks(counters) is None
    assert _read_from_disks(tmp_path / "nowhere") is None


def test_a_disk_that_refuses_is_one_line_and_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StorageError, match=r"the disk cannot be measured; given: .*; No such file"):
        measure_disk(tmp_path / "nowhere", LARGE)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="No space left on device"):
        measure_disk(tmp_path, LARGE)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_takes_a_part_of_a_piece_is_given_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    write = os.write

    def reluctant(descriptor: int, data: memoryview) -> int:
        return write(descriptor, data[: max(1, len(data) // 2 + 1)])

    def synced(descriptor: int) -> None:
        sizes.append(os.fstat(descriptor).st_size)

    monkeypatch.setattr(os, "write", reluctant)
    monkeypatch.setattr(os, "fsync", synced)
    measure_disk(tmp_path, LARGE)
    assert sizes == [LARGE]


def test_not_even_a_killed_process_leaves_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[list[Path]] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: names.append(list(tmp_path.iterdir())))
    measure_disk(tmp_path, LARGE)
    assert names == [[]]


@pytest.mark.parametrize(
    ("is_cold", "told"), [(True, "read from the disk"), (False, "kept in memory"), (None, "is not counted here")]
)
def test_a_machine_is_measured_whole(
    tmp_path: Path, backbone: TennsBackbone, monkeypatch: pytest.MonkeyPatch, is_cold: bool | None, told: str
) -> None:
    said: list[str] = []
    disk = DiskSpeed(ReadSpeed(1e-4, 2e9), is_cold)
    monkeypatch.setattr("precog.plan.measured.measure_disk", lambda folder: disk)
    found = measure_device(
        backbone, WordEncoder(), tmp_path, name="here", chunk_tokens=32, num_keys=10, powercap=tmp_path, say=said.append
    )
    device = found.device
    assert (device.name, device.flash_bytes_per_sec, device.flash_latency_sec) == ("here", 2e9, 1e-4)
    assert device.watts is None
    for name in (
        "prefill_tok_per_sec",
        "decode_tok_per_sec",
        "encoder_sec",
        "search_sec",
        "inject_sec",
        "tokenize_sec",
    ):
        assert getattr(device, name) > 0
    notes = "\n".join(found.notes)
    for part in (
        told,
        "energy: unavailable: the kernel counts no package's energy",
        "every one of 10 random keys",
        "on cpu",
    ):
        assert part in notes
    assert said == ["the disk", "reading, writing, energy", "states, sentence encoder, search"]
    assert found.state_bytes == state_size(backbone, "fp16")


def test_watts_are_the_counted_joules_over_the_seconds(
    tmp_path: Path, backbone: TennsBackbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = write_zone(tmp_path, "intel-rapl:0", "package-0", "0", most="1000000000")
    seconds = iter(np.arange(0.0, 1e6))  # every look at the clock is a second later

    def rates(model: TennsBackbone, chunk_tokens: int) -> tuple[float, float]:
        counter.write_text("30000000\n")
        return 100.0, 50.0

    monkeypatch.setattr("precog.plan.measured._rates", rates)
    monkeypatch.setattr("precog.plan.measured.time.perf_counter", lambda: float(next(seconds)))
    disk = DiskSpeed(ReadSpeed(0.0, 1e9), True)
    monkeypatch.setattr("precog.plan.measured.measure_disk", lambda folder: disk)
    found = measure_device(backbone, WordEncoder(), tmp_path, name="", powercap=tmp_path)
    assert found.device.watts == 30
    assert (found.device.prefill_tok_per_sec, found.device.decode_tok_per_sec) == (100, 50)
    assert "over 1.0 s of reading and writing" in found.notes[-1]


def test_the_size_of_a_state_is_the_codec_s(backbone: TennsBackbone) -> None:
    [state] = backbone.encode_chunks([[5, 6, 7]])
    for name in ("fp32", "fp16", "int8", "int4"):
        assert state_size(backbone, name) == len(codec_named(name).encode(state, backbone.spec))
