"""Dial and budget of a memory: what cannot fit is refused with what can, before anything is written."""

from pathlib import Path

import pytest
from ended import Run

from precog.memory.settings import MemorySettings

FACT = "My sister Clara moved to Lisbon in March."
TOKENS = MemorySettings("", "", "").chunk_tokens


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PRECOG_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def one_state(run: Run, model: Path) -> int:
    assert run("memory", "remember", FACT, "--user", "probe", "--model", model).status == 0
    size = run("memory", "stats", "--user", "probe", "--json").json
    assert size["num_states"] == 1
    return size["state_bytes"]


def test_what_cannot_fit_is_refused_and_nothing_is_written(home: Path, model: Path, run: Run) -> None:
    remember = ("memory", "remember", FACT, "--user", "a", "--model", model)
    for dial in ("--dial-a", "--dial-b"):
        ended = run(*remember, dial, "all", "--budget", 100_000)
        assert ended.status == 2
        [line] = ended.err.splitlines()
        assert "do not fit into the budget at K = all" in line
        assert not home.exists()
    num_bytes = one_state(run, model)
    for dial, budget in (("8", 8 * num_bytes - 1), ("all", 7 * num_bytes), ("/2", 8 * num_bytes - 1)):
        ended = run(*remember, "--dial-a", dial, "--budget", budget)
        assert ended.status == 2
        assert "the largest K that fits is 7" in ended.err
    assert "not even one state fits" in run(*remember, "--budget", num_bytes - 1).err
    assert "there is no memory" in run("memory", "list", "--user", "a").err
    # the bound is exact: one byte more, or the K that was named, is taken
    assert run(*remember, "--dial-a", "7", "--dial-b", "7", "--budget", 8 * num_bytes - 1).status == 0
    assert run("memory", "stats", "--user", "a", "--json").json["num_states"] == 7


def test_a_state_for_every_token_fits_where_the_longest_chunk_does(home: Path, model: Path, run: Run) -> None:
    budget = TOKENS * one_state(run, model)
    remember = ("memory", "remember", FACT, "--model", model, "--dial-b", "all", "--dial-a", "all", "--budget")
    refused = run(*remember, budget - 1, "--user", "a")
    assert f"the largest K that fits is {TOKENS - 1}" in refused.err
    assert run(*remember, budget, "--user", "a").status == 0


def test_reindexing_changes_dials_and_budget_and_refuses_what_cannot_fit(home: Path, model: Path, run: Run) -> None:
    num_bytes = one_state(run, model)
    reindex = ("memory", "reindex", "--user", "probe")
    assert "change" in run("memory", "remember", FACT, "--user", "probe", "--dial-a", "4", "--dial-b", "4").err
    refused = run(*reindex, "--dial-a", "4", "--dial-b", "4", "--budget", 3 * num_bytes)
    assert (refused.status, "the largest K that fits is 3" in refused.err) == (2, True)
    wider = run(*reindex, "--budget", num_bytes, "--codec", "fp32")
    assert (wider.status, "not even one state fits" in wider.err) == (2, True)
    before = run("memory", "stats", "--user", "probe", "--json").json
    assert (before["num_states"], before["settings"]["dial_a"]) == (1, "1")

    assert run(*reindex, "--dial-a", "4", "--dial-b", "4", "--budget", 4 * num_bytes, "--json").json["states"] == 4
    after = run("memory", "stats", "--user", "probe", "--json").json
    assert (after["num_states"], after["state_bytes"]) == (4, 4 * num_bytes)
    assert {key: after["settings"][key] for key in ("dial_a", "dial_b", "budget_bytes")} == {
        "dial_a": "4",
        "dial_b": "4",
        "budget_bytes": 4 * num_bytes,
    }
    assert run("memory", "remember", "The car is in the garage.", "--user", "probe").status == 0
    fewer = run(*reindex, "--dial-a", "1", "--dial-b", "1", "--budget", num_bytes, "--json").json
    assert (fewer["deposits"], fewer["states"]) == (2, 1)
    found = run("memory", "recall", "sister Clara Lisbon", "--user", "probe", "--json").json["evidence"]
    assert found[0]["text"] == FACT
