"""One run of many clients, and what came of it."""

import contextlib
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from precog.bench.load.acknowledged import Acknowledged
from precog.bench.load.connection import BROKEN, GONE, Address, Answered, Connection
from precog.bench.load.traffic import KINDS, Client, Shared, upload
from precog.errors import PrecogError, UsageError

_FIRST_DOCUMENTS = 8
_READ_SEC = 600.0
_MOST_WAIT_SEC = 1.0
_MOST_FAILURES = 50
MOST_GROWTH = 0.05
"""What the server's memory may grow by, from the first third of a run to its end."""


@dataclass(frozen=True)
class Wanted:
    """How a run is to be.

    Attributes:
        clients: that ask at the same time.
        seconds: that they go on.
        cancel: share of requests that are broken off.
        seed: of what is asked for.
        pid: of the server, on this machine; None where its memory is not looked at.
    """

    clients: int = 64
    seconds: float = 180.0
    cancel: float = 0.1
    seed: int = 0
    pid: int | None = None


@dataclass
class Tally:
    """What came of all requests; several threads may add to it."""

    answers: dict[str, list[Answered]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    failures: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, kind: str, answered: Answered) -> None:
        """One request has ended."""
        slim = Answered(
            answered.status, answered.seconds, {"tokens": _tokens(answered)}, answered.first_sec, answered.num_pieces
        )
        with self._lock:
            self.answers[kind].append(slim)
            if not (200 <= answered.status < 300 or answered.status in (429, GONE)):
                error = answered.body.get("error")
                told = f"{error.get('code')}: {error.get('message')}" if isinstance(error, dict) else answered.reason
                self.failures.append(f"{kind}: {answered.status or 'no answer'} {told}")

    @property
    def num_requests(self) -> int:
        """How many have ended."""
        return sum(map(len, self.answers.values()))


@dataclass(frozen=True)
class Report:
    """What a run found.

    Attributes:
        wanted: how it was to be.
        seconds: that it took.
        statuses: HTTP status, ``cancelled`` or ``broken`` ▸ how many.
        kinds: kind ▸ requests, and quantiles in seconds.
        tokens_per_sec: of all answers.
        failures: a line for each kind of failure, and how often.
        lost: what was acknowledged and is not there.
        rss_bytes: of the server before, after a third, and at the end; empty where it was not looked at.
        acknowledged: how much was acknowledged.
    """

    wanted: Wanted
    seconds: float
    statuses: dict[str, int]
    kinds: dict[str, dict[str, float | int | None]]
    tokens_per_sec: float
    failures: dict[str, int]
    lost: list[str]
    rss_bytes: list[int]
    acknowledged: dict[str, int]

    @property
    def rss_growth(self) -> float | None:
        """Of the server's memory, from the first third to the end; None where it was not looked at."""
        return self.rss_bytes[2] / self.rss_bytes[1] - 1 if len(self.rss_bytes) == 3 else None

    @property
    def ok(self) -> bool:
        """Whether nothing failed and nothing is lost."""
        return not self.failures and not self.lost

    def to_json(self) -> dict[str, object]:
        """As the command line prints it."""
        return {
            "ok": self.ok,
            "clients": self.wanted.clients,
            "seconds": self.seconds,
            "requests": sum(self.statuses.values()),
            "statuses": self.statuses,
            "kinds": self.kinds,
            "tokens_per_sec": self.tokens_per_sec,
            "failures": self.failures,
            "acknowledged": self.acknowledged,
            "lost": self.lost,
            "rss_bytes": self.rss_bytes,
            "rss_growth": self.rss_growth,
            "rss_bound": MOST_GROWTH,
        }


def _tokens(answered: Answered) -> int:
    usage = answered.body.get("usage")
    said = usage.get("completion_tokens", usage.get("output_tokens", 0)) if isinstance(usage, dict) else 0
    return said if isinstance(said, int) and said else answered.num_pieces


def load(
    address: Address,
    wanted: Wanted,
    *,
    check: Path | None = None,
    on_requests: Callable[[float, int], None] = lambda seconds, count: None,
) -> Report:
    """Runs clients against a server, then looks whether what it acknowledged is there.

    Args:
        address: of the server.
        wanted: how.
        check: file for what was acknowledged, which is then left there; without one it is removed at the end.
        on_requests: told, about once a second, how long it goes on and how many requests have ended.

    Raises:
        UsageError: there is no server, or it does not let these clients in.
    """
    with contextlib.closing(Connection(address)) as first:
        return _loaded(first, address, wanted, check, on_requests)


def _loaded(
    first: Connection, address: Address, wanted: Wanted, check: Path | None, on_requests: Callable[[float, int], None]
) -> Report:
    rss = [_rss(wanted.pid)] if wanted.pid is not None else []
    shared = _prepared(first, address)
    tally, stop = Tally(), threading.Event()
    started = time.perf_counter()
    try:
        clients = [Client(shared, wanted.seed * 10_000 + number, wanted.cancel) for number in range(wanted.clients)]
        threads = [threading.Thread(target=_run, args=(client, tally, stop), daemon=True) for client in clients]
        for thread in threads:
            thread.start()
        while (elapsed := time.perf_counter() - started) < wanted.seconds:
            if wanted.pid is not None and len(rss) == 1 and elapsed >= wanted.seconds / 3:
                rss.append(_rss(wanted.pid))
            on_requests(elapsed, tally.num_requests)
            stop.wait(min(1.0, max(0.01, wanted.seconds - elapsed)))
        stop.set()
        for thread in threads:
            thread.join()
    finally:
        stop.set()
        if check is not None:
            shared.acknowledged.write(check)
    seconds = time.perf_counter() - started
    if wanted.pid is not None:
        rss = [rss[0], rss[-1], _rss(wanted.pid)]
    lost = shared.acknowledged.lost(first, wait_sec=_READ_SEC) if first.ask("GET", "/healthz").status == 200 else []
    if check is None:
        first.ask("DELETE", f"/v1/corpora/{shared.acknowledged.corpus}")
        first.ask("POST", "/v1/memories/me/forget", {"speaker": shared.acknowledged.corpus})
        for response in shared.acknowledged.responses:
            first.ask("DELETE", f"/v1/responses/{response}")
    return _report(wanted, seconds, tally, shared.acknowledged, lost, rss)


def _prepared(connection: Connection, address: Address) -> Shared:
    health = connection.ask("GET", "/healthz")
    if health.status != 200:
        raise UsageError("no server answers there", given=f"{address.host}:{address.port}", hint="precog serve")
    models = connection.ask("GET", "/v1/models")
    names = models.body.get("data")
    if models.status != 200 or not isinstance(names, list) or len(names) < 2:
        raise _refused("to list its models", models)
    acknowledged = Acknowledged(f"load-{secrets.token_hex(4)}")
    made = connection.ask("POST", "/v1/corpora", {"name": acknowledged.corpus})
    if made.status != 201:
        raise _refused("to make a corpus", made)
    for number in range(_FIRST_DOCUMENTS):
        sent = upload(connection, acknowledged, number)
        while sent.status == 429:
            time.sleep(max(0.1, min(sent.retry_after_sec, _MOST_WAIT_SEC)))
            sent = upload(connection, acknowledged, number)
        if sent.status != 202:
            raise _refused("to take a document", sent)
    remembered = connection.ask(
        "POST", "/v1/memories/me/deposits", {"text": "The harbour opened.", "speaker": acknowledged.corpus}
    )
    if remembered.status != 200:
        raise _refused("to remember", remembered)
    if lost := acknowledged.lost(connection, wait_sec=_READ_SEC):
        raise UsageError("the server does not read its documents", given=lost[0])
    return Shared(address, str(names[0]["id"]), str(names[1]["id"]), acknowledged)


def _refused(what: str, answered: Answered) -> PrecogError:
    error = answered.body.get("error")
    told = error.get("message") if isinstance(error, dict) else answered.reason
    hint = "give a key of the scopes read and write with --key"
    return UsageError(f"the server refuses {what}: {told}", given=answered.status, hint=hint)


def _run(client: Client, tally: Tally, stop: threading.Event) -> None:
    while not stop.is_set():
        kind, answered = client.act()
        tally.add(kind, answered)
        if answered.status == 429:
            stop.wait(max(0.05, min(answered.retry_after_sec, _MOST_WAIT_SEC)))
        elif answered.status == BROKEN:
            stop.wait(0.2)
    client.connection.close()


def _report(
    wanted: Wanted, seconds: float, tally: Tally, acknowledged: Acknowledged, lost: list[str], rss: list[int]
) -> Report:
    named = {GONE: "cancelled", BROKEN: "broken"}
    every = [answer for answers in tally.answers.values() for answer in answers]
    statuses = Counter(named.get(answer.status, str(answer.status)) for answer in every)
    tokens = sum(int(str(answer.body["tokens"])) for answer in every if answer.status == 200)
    kinds = {kind: _quantiles(answers) for kind, answers in tally.answers.items()}
    counts = {name: len(value) for name, value in acknowledged.to_json().items() if isinstance(value, list)}
    return Report(
        wanted,
        seconds,
        dict(sorted(statuses.items())),
        {"all": _quantiles(every), **kinds},
        tokens / seconds,
        dict(Counter(tally.failures).most_common(_MOST_FAILURES)),
        lost,
        rss,
        counts,
    )


def _quantiles(answers: list[Answered]) -> dict[str, float | int | None]:
    whole = [answer.seconds for answer in answers if 200 <= answer.status < 300]
    first = [answer.first_sec for answer in answers if answer.status == 200 and answer.first_sec is not None]
    return {
        "requests": len(answers),
        "p50_sec": _quantile(whole, 0.5),
        "p99_sec": _quantile(whole, 0.99),
        "ttft_p50_sec": _quantile(first, 0.5),
        "ttft_p99_sec": _quantile(first, 0.99),
    }


def _quantile(seconds: list[float], share: float) -> float | None:
    return float(np.quantile(seconds, share)) if seconds else None


def _rss(pid: int) -> int:
    """Bytes of a process in memory.

    Raises:
        UsageError: there is none, or this system does not say.
    """
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmRSS:"))
    except (OSError, StopIteration) as error:
        raise UsageError("--pid: the memory of this process cannot be read", given=pid) from error
