import pytest

from precog.errors import LimitError
from precog.server import limits
from precog.server.limits import Buckets, neighbourhood


def test_a_bucket_is_emptied_and_fills_again() -> None:
    now = 100.0
    buckets = Buckets(lambda: now)
    for _ in range(60):
        buckets.take("a", 60)
    with pytest.raises(LimitError) as refused:
        buckets.take("a", 60)
    assert refused.value.retry_after_sec == pytest.approx(1.0)
    buckets.take("b", 60)
    now += 2.5
    buckets.take("a", 60)
    buckets.take("a", 60)
    with pytest.raises(LimitError) as refused:
        buckets.take("a", 60)
    assert refused.value.retry_after_sec == pytest.approx(0.5)
    now += 1e6
    for _ in range(60):
        buckets.take("a", 60)
    with pytest.raises(LimitError):
        buckets.take("a", 60)


def test_no_limit_is_none() -> None:
    buckets = Buckets(lambda: 0.0)
    for _ in range(1000):
        buckets.take("a", 0)


def test_many_names_cost_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_MOST_BUCKETS", 10)
    buckets = Buckets(lambda: 0.0)
    for number in range(1000):
        buckets.take(str(number), 5)
    assert len(buckets._buckets) == 10


def test_neighbours_share_an_allowance() -> None:
    assert neighbourhood("10.0.0.1") != neighbourhood("10.0.0.2")
    assert neighbourhood("2001:db8::1") == neighbourhood("2001:db8:0:0:ffff::2") != neighbourhood("2001:db8:0:1::1")
    assert neighbourhood("fe80::1%eth0") == "fe80::"
    assert neighbourhood("testclient") == "testclient"
