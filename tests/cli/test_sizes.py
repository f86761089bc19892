"""Sizes as people write them, and limits that can be lifted."""

from pathlib import Path

import pytest
from ended import Run

from precog.cli.sizes import read_limit, read_size
from precog.errors import UsageError


@pytest.mark.parametrize(
    ("text", "num_bytes"),
    [
        ("0", 0),
        ("500", 500),
        ("12 B", 12),
        ("2GB", 2_000_000_000),
        ("500mb", 500_000_000),
        ("1GiB", 2**30),
        ("1.5 KiB", 1536),
        ("3kB", 3000),
    ],
)
def test_a_size_is_read_as_people_write_it(text: str, num_bytes: int) -> None:
    assert read_size(text) == num_bytes == read_limit(text)


@pytest.mark.parametrize("text", ["", "GB", "-1", "1.5", "1.5B", "2 iB", "2G", "2GBs", "1e3", "9" * 30, "inf", "nan"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="size"):
        read_size(text)
    with pytest.raises(UsageError, match="size"):
        read_limit(text)


def test_no_limit_is_a_limit_only() -> None:
    assert read_limit("None") is None
    with pytest.raises(UsageError):
        read_size("none")


def test_a_budget_has_a_unit_and_can_be_lifted(corpus: Path, run: Run) -> None:
    assert run("index", "--corpus", corpus, "--budget", "2GB").status == 0
    assert run("info", "--corpus", corpus, "--json").json["state_budget_bytes"] == 2_000_000_000
    refused = run("index", "--corpus", corpus, "--budget", "much")
    assert refused.status == 2
    assert refused.err.startswith("precog: this is no size; given: much; expected: bytes, or a number with kB")
    assert run("index", "--corpus", corpus, "--budget", "none").status == 0
    assert run("info", "--corpus", corpus, "--json").json["state_budget_bytes"] is None
    refused = run("memory", "remember", "A thing.", "--user", "a", "--budget", "none")
    assert refused.status == 2
    assert "this is no size; given: none" in refused.err
