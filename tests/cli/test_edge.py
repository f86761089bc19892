"""``precog edge``: what it tells, its JSON, a machine as measured, and one line for what no device is."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ended import Run

from precog.plan.disk import DiskSpeed
from precog.plan.speed import ReadSpeed

WAYS = ["inject", "in-context", "kv-cache", "kv-recomputed"]


def test_the_paper_s_device_for_people(run: Run) -> None:
    ended = run("edge", "--tok-per-s", 19, "--watts", 1, "--flash-gb-per-s", 4.2, "--chunk", 512)
    assert (ended.status, ended.err) == (0, "")
    for part in (
        "19 tokens/s read", "4.2 GB/s", "1 W", "196,608 B", "26.95 s", "28.01 s", "167.8 GB",
        "injection overhead 6.0 ms", "4,492×", "TTFT 1.06 s", "26.4×", "chunks of 1 token or more",
        "paid for after 10,001 questions",
    ):  # fmt: skip
        assert part in ended.out
    given = [line for line in ended.out.splitlines() if line.startswith("given")]
    assert given == ["given, neither measured nor assumed: --tok-per-s 19, --watts 1, --flash-gb-per-s 4.2"]
    assert "assumed, from the paper: 500 µs to tokenise" in ended.out
    assert run("edge").out == ended.out.replace(f"{given[0]}\n", "")  # those are the defaults


def test_a_platform_says_where_its_tokens_come_from(run: Run) -> None:
    assert "what the bandwidth allows" in run("edge", "--device-preset", "hbm3").out
    assert "what the bandwidth allows" not in run("edge").out


def test_the_shape_of_the_report(run: Run) -> None:
    found = run("edge", "--query", 10, "--answer", 1, "--chunks", 100, "--json").json
    assert set(found) == {
        "device", "question", "chunks", "ways", "injection_overhead_sec", "ttft_speedup", "added_speedup",
        "break_even_tokens", "encode_corpus_sec", "encode_corpus_joules", "questions_to_pay", "composition_exact",
        "measured", "given", "notes",
    }  # fmt: skip
    assert [row["way"] for row in found["ways"]] == WAYS
    for row in found["ways"]:
        assert set(row) == {
            "way",
            "added_sec",
            "ttft_sec",
            "total_sec",
            "joules",
            "bytes_read",
            "stages",
            "storage_bytes",
        }
        assert row["joules"] == pytest.approx(row["total_sec"])
        assert set(row["stages"][0]) == {"name", "start_sec", "end_sec", "joules", "num_bytes", "tokens"}
    assert found["injection_overhead_sec"] == pytest.approx(6e-3)
    assert found["ways"][0]["ttft_sec"] == pytest.approx(0.5328, abs=1e-4)
    assert (found["measured"], found["given"], found["composition_exact"]) == (False, {}, True)
    assert [note.partition(",")[0] for note in found["notes"]] == ["assumed"]


def test_flags_change_a_preset(run: Run) -> None:
    flags = ("--tok-per-s", 50, "--prefill-tok-per-s", 400, "--watts", 3, "--flash-latency-us", 80, "--inject", 2)
    found = run("edge", "--device-preset", "ufs5", *flags, "--state-bytes", 1000, "--json").json
    device = found["device"]
    assert device["name"] == "Edge UFS 5.0"
    assert (device["decode_tok_per_sec"], device["prefill_tok_per_sec"], device["watts"]) == (50, 400, 3)
    assert (device["flash_bytes_per_sec"], device["flash_latency_sec"]) == (10.8e9, pytest.approx(80e-6))
    assert (found["question"]["top_k"], found["question"]["state_bytes"]) == (2, 1000)
    assert found["ways"][0]["bytes_read"] == 2000
    assert found["composition_exact"] is False
    told = run("edge", "--device-preset", "ufs5", "--top-k", 2).out
    assert "approximate" in told
    assert "watts unknown" in told
    assert run("edge", "--device-preset", "ufs5", "--json").json["ways"][0]["joules"] is None


def test_where_injecting_does_not_pay(run: Run) -> None:
    told = run("edge", "--prefill-tok-per-s", 1e9, "--state-bytes", 10**9).out
    assert "no question pays for it" in told


def test_what_is_slower_is_not_called_so_much_sooner(run: Run) -> None:
    told = run("edge", "--prefill-tok-per-s", 1e9, "--state-bytes", 10**9).out
    assert "× more than reading adds" in told
    assert "× later than in context" in told
    assert "sooner than in context" not in told
    assert "sooner than in context" in run("edge").out


def test_the_slowest_and_the_largest_stay_numbers(run: Run) -> None:
    slow = ("--tok-per-s", "1e-6", "--flash-gb-per-s", "1e-15", "--watts", "1e6", "--flash-latency-us", "3.6e9")
    large = ("--chunk", 10**9, "--chunks", 10**12, "--top-k", 10**6, "--state-bytes", 10**15, "--answer", 10**9)
    found = run("edge", *slow, *large, "--json").json
    assert all(row[key] is not None for row in found["ways"] for key in ("ttft_sec", "total_sec", "joules"))
    told = run("edge", *slow, *large).out
    assert "years" in told
    assert not {"inf", "nan"} & set(told.replace("×", " ").split())
    assert "…" not in told  # no digits are cut off


def test_the_states_of_a_model(model: Path, run: Run) -> None:
    found = run("edge", "--model", model, "--codec", "int8", "--json").json
    whole = run("edge", "--model", model, "--json").json
    assert 0 < found["question"]["state_bytes"] < whole["question"]["state_bytes"] < 196_608
    assert found["notes"][0] == "states of tiny in int8"
    assert found["device"]["name"] == "the paper's device"


def test_this_machine_as_measured(model: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    folders: list[Path] = []

    def disk(folder: Path) -> DiskSpeed:
        folders.append(folder)
        return DiskSpeed(ReadSpeed(2e-4, 3e9), True)

    monkeypatch.setattr("precog.plan.measured.measure_disk", disk)
    options = ("--measure", "--model", model, "--folder", tmp_path, "--chunk", 32)
    ended = run("edge", *options, "--watts", 5, "--json")
    assert ended.status == 0
    found = ended.json
    assert folders == [tmp_path]
    assert found["measured"] is True
    assert (found["device"]["flash_bytes_per_sec"], found["device"]["flash_latency_sec"]) == (3e9, 2e-4)
    assert found["device"]["watts"] == 5  # a flag wins
    assert found["device"]["encoder_sec"] > 0
    assert any(note.startswith("energy: ") for note in found["notes"])
    assert "measuring the disk" in ended.err


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "1e300", "1e-300", "5e-324"])
@pytest.mark.parametrize("flag", ["--tok-per-s", "--prefill-tok-per-s", "--watts", "--flash-gb-per-s"])
def test_what_no_device_is(flag: str, value: str, run: Run) -> None:
    ended = run("edge", flag, value)
    assert (ended.status, ended.out) == (2, "")
    assert f"precog: {flag} is out of range; given: " in ended.err
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (["--flash-latency-us", "-1"], 2, "--flash-latency-us is out of range; given: -1; expected: at least 0"),
        (["--flash-latency-us", "nan"], 2, "--flash-latency-us is out of range; given: nan"),
        (["--tok-per-s", "fast"], 2, "'--tok-per-s': Input should be a valid number"),
        (["--chunk", "0"], 2, "--chunk is out of range; given: 0; expected: 1 to 1,000,000,000"),
        (["--query", "-3"], 2, "--query is out of range"),
        (["--answer", "0"], 2, "--answer is out of range"),
        (["--top-k", "0"], 2, "--top-k is out of range"),
        (["--state-bytes", "0"], 2, "--state-bytes is out of range"),
        (["--state-bytes", "9" * 30], 2, "--state-bytes is out of range"),
        (["--chunks", "0"], 2, "--chunks is out of range; given: 0; expected: 1 (--top-k) to"),
        (["--chunks", "2", "--top-k", "3"], 2, "--chunks is out of range; given: 2; expected: 3 (--top-k) to"),
        (["--device-preset", "abacus"], 2, "--device-preset: there is no such device; given: abacus"),
        (["--codec", "int8"], 2, "--codec is about a model, and there is none"),
        (["--threads", "2"], 2, "--threads is about a model, and there is none"),
        (["--encoder", "x"], 2, "--encoder is only measured"),
        (["--folder", "."], 2, "--folder is only measured"),
        (["--measure", "--device-preset", "ufs4"], 2, "--device-preset and --measure both say which device it is"),
        (["--model", "x", "--state-bytes", "5"], 2, "both say how large a state is"),
        (["--model", "nowhere"], 1, "no such model"),
        (["--model", "x", "--codec", "zip"], 2, "zip"),
        (["--measure", "--folder", "nowhere"], 2, "--folder: there is no such folder; given: nowhere"),
    ],
)
def test_what_cannot_be_told_is_one_line(options: list[str], status: int, message: str, run: Run) -> None:
    ended = run("edge", *options)
    assert (ended.status, ended.out) == (status, "")
    assert message in ended.err
    assert ended.err.count("\n") == 1


def test_the_same_in_json(run: Run) -> None:
    ended = run("edge", "--tok-per-s", 0, "--json")
    assert ended.status == 2
    assert ended.json["error"]["given"] == "0"
    assert ended.err.count("\n") == 1


def test_a_device_on_paper_needs_no_torch(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom precog.cli.main import main\n"
        "try:\n    main(['edge', '--json'])\nexcept SystemExit as end:\n"
        "    print(repr([end.code, 'torch' in sys.modules]).replace('F', 'f'))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "PRECOG_HOME": str(tmp_path)},
        check=True,
        timeout=60,
    )
    assert json.loads(ended.stdout.splitlines()[-1]) == [0, False]
