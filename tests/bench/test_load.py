"""Load on a server that answers at once, and on servers that fail in every way that counts."""

import itertools
import json
import os
import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import parse_qs, urlsplit

import pytest

from precog.bench.load import run
from precog.bench.load.acknowledged import Acknowledged
from precog.bench.load.connection import GONE, Address, Answered, Connection
from precog.bench.load.run import Tally, Wanted, load
from precog.bench.load.traffic import KINDS
from precog.cli.main import main
from precog.errors import InputError, UsageError

Lasting = Callable[[Callable[[Tally], object]], None]


class Kept:
    """What a pretended server keeps, and how it misbehaves."""

    def __init__(self) -> None:
        self.documents: list[str] = []
        self.memories: list[str] = []
        self.responses: list[str] = []
        self.deleted: list[str] = []
        self.broken_off = 0
        self.counter = itertools.count()
        self.calls: dict[str, itertools.count[int]] = defaultdict(itertools.count)
        self.fails: dict[str, tuple[int, int]] = {}  # part of a path ▸ every so many, status
        self.forgets_memory = False
        self.key = ""


def handler(kept: Kept) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *arguments: object) -> None:
            pass

        def answer(self, body: object, status: int = 200, **headers: str) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            for name, value in {"Content-Length": str(len(data)), **headers}.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(data)

        def refuse(self, status: int) -> None:
            error = {"code": "limit" if status == 429 else "bug", "message": "no"}
            self.answer({"error": error}, status, Retry_After="0")

        def events(self) -> None:
            self.send_response(200)
            self.send_header("Connection", "close")
            self.end_headers()
            try:
                for number in range(200):
                    self.wfile.write(f'event: delta\ndata: {{"text": "{number}"}}\n\n'.encode())
                    time.sleep(0.001)
                self.wfile.write(b"data: [DONE]\n\n")
            except OSError:
                kept.broken_off += 1
            self.close_connection = True

        def is_refused(self) -> bool:
            if kept.key and self.headers.get("Authorization") != f"Bearer {kept.key}" and self.path != "/healthz":
                self.refuse(401)
                return True
            for part, (every, status) in kept.fails.items():
                if part in self.path and next(kept.calls[part]) % every == every - 1:
                    self.refuse(status)
                    return True
            return False

        def do_GET(self) -> None:
            path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
            if self.is_refused():
                return
            if path == "/healthz":
                self.answer({"status": "ok"})
            elif path == "/v1/models":
                self.answer({"data": [{"id": "tiny"}, {"id": "words"}]})
            elif path.endswith("/documents"):
                offset = int(query["offset"][0])
                self.answer({"data": [{"document": name} for name in kept.documents[offset : offset + 1000]]})
            elif path.endswith("/deposits"):
                before = int(query.get("before", [str(len(kept.memories))])[0])
                first = max(0, before - 100)
                rows = [{"text": text} for text in kept.memories[first:before]]
                self.answer({"deposits": rows, "older": first or None})
            else:
                self.answer({}, 200 if path.rpartition("/")[2] in kept.responses else 404)

        def do_DELETE(self) -> None:
            kept.deleted.append(self.path)
            self.answer({})

        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["Content-Length"]))
            if self.is_refused():
                return
            path = urlsplit(self.path).path
            body = {} if path.endswith("/documents") else json.loads(data)
            if body.get("stream"):
                self.events()
            elif path == "/v1/corpora":
                self.answer({}, 201)
            elif path.endswith("/documents"):
                kept.documents.append(parse_qs(urlsplit(self.path).query)["name"][0])
                self.answer({"id": "job_1"}, 202)
            elif path.endswith("/deposits"):
                if not kept.forgets_memory:
                    kept.memories.append(body["text"])
                self.answer({"ids": [1]})
            elif path == "/v1/responses":
                kept.responses.append(f"resp_{next(kept.counter)}")
                self.answer({"id": kept.responses[-1], "usage": {"output_tokens": 3}})
            else:
                self.answer({"usage": {"completion_tokens": 4}})

    return Handler


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that go away are what is tested here."""


@contextmanager
def serving(kept: Kept) -> Iterator[str]:
    server = Server(("127.0.0.1", 0), handler(kept))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


WANTED = Wanted(clients=6, seconds=0.05, cancel=0.2, pid=os.getpid())


@pytest.fixture
def lasting(monkeypatch: pytest.MonkeyPatch) -> Lasting:
    """Lets runs go on until something holds of what came of them, however long this machine takes."""

    def until(holds: Callable[[Tally], object]) -> None:
        class Watched(Tally):
            def __init__(self) -> None:
                super().__init__()
                clock = SimpleNamespace(perf_counter=lambda: 1.0 if holds(self) else 0.0, sleep=time.sleep)
                monkeypatch.setattr(run, "time", clock)

        monkeypatch.setattr(run, "Tally", Watched)

    return until


def test_everything_is_asked_for_and_some_of_it_broken_off(tmp_path: Path, lasting: Lasting) -> None:
    def has_everything(tally: Tally) -> bool:
        ok = [kind for kind, answers in tally.answers.items() if any(answer.status in (200, 202) for answer in answers)]
        gone = any(answer.status == GONE for answers in tally.answers.values() for answer in answers)
        return gone and kept.broken_off > 0 and set(ok) >= set(KINDS) - {"upload"}

    kept, seen = Kept(), []
    lasting(has_everything)
    with serving(kept) as url:
        report = load(
            Address.of(url), WANTED, check=tmp_path / "kept.json", on_requests=lambda *passed: seen.append(passed)
        )
    assert report.ok, report.failures
    assert set(report.statuses) <= {"200", "202", "cancelled"}
    assert report.statuses["cancelled"] > 0
    assert kept.broken_off > 0
    for kind, row in report.kinds.items():
        if kind != "upload":
            assert row["requests"] > 0, kind
            assert row["p50_sec"] is not None, kind
            assert row["p50_sec"] <= row["p99_sec"]
    assert report.kinds["chat_stream"]["ttft_p50_sec"] < report.kinds["chat_stream"]["p50_sec"]
    assert report.tokens_per_sec > 0
    assert len(report.rss_bytes) == 3
    assert seen
    acknowledged = Acknowledged.read(tmp_path / "kept.json")
    assert set(acknowledged.documents) <= set(kept.documents)
    assert len(acknowledged.documents) >= 8
    assert set(acknowledged.memories) <= set(kept.memories)
    assert kept.deleted == []
    assert (tmp_path / "kept.json").stat().st_mode & 0o777 == 0o600


def test_what_was_made_is_removed_unless_it_is_to_be_checked() -> None:
    kept = Kept()
    with serving(kept) as url:
        assert load(Address.of(url), Wanted(clients=2, seconds=0.3)).ok
    assert len([path for path in kept.deleted if path.startswith("/v1/corpora/load-")]) == 1


def test_too_many_requests_are_no_failure_and_others_are(lasting: Lasting) -> None:
    def refused(answers: list[Answered]) -> bool:
        return any(answer.status == 429 for answer in answers)

    kept = Kept()
    kept.fails = {"/chat": (2, 429), "/embeddings": (1, 500), "/recall": (1, 404)}
    lasting(lambda tally: len(set(tally.failures)) == 2 and any(map(refused, tally.answers.values())))
    with serving(kept) as url:
        report = load(Address.of(url), Wanted(clients=4, seconds=0.05, cancel=0.0))
    assert report.statuses["429"] > 0
    assert not report.ok
    assert set(report.failures) == {"embed: 500 bug: no", "recall: 404 bug: no"}


def test_what_is_lost_is_told_by_the_run_and_by_verify(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = Kept()
    file = tmp_path / "kept.json"
    with serving(kept) as url:
        arguments = ["bench", "load", "--url", url, "--json"]
        assert load(Address.of(url), Wanted(clients=2, seconds=0.5), check=file).ok
        assert _status(*arguments, "--verify", str(file)) == 0
        gone = [kept.memories.pop(), kept.responses.pop() if kept.responses else ""]
        assert _status(*arguments, "--verify", str(file)) == 1
        lost = json.loads(capsys.readouterr().out.splitlines()[-1])["lost"]
        assert f"memory {gone[0]}" in lost
        kept.forgets_memory = True
        report = load(Address.of(url), Wanted(clients=2, seconds=0.5))
    assert not report.failures
    assert any(line.startswith("memory ") for line in report.lost)
    assert not report.ok


def test_a_server_that_goes_away_fails_and_what_it_acknowledged_is_written_down(
    tmp_path: Path, lasting: Lasting
) -> None:
    kept = Kept()
    lasting(lambda tally: tally.failures)
    with serving(kept) as url:
        address = Address.of(url)
        stopped = threading.Event()

        def stop(seconds: float, count: int) -> None:
            if count > 20 and not stopped.is_set():
                stopped.set()
                kept.fails = {"/": (1, 503)}

        report = load(address, Wanted(clients=4, seconds=0.05), check=tmp_path / "kept.json", on_requests=stop)
    assert not report.ok
    assert len(Acknowledged.read(tmp_path / "kept.json").documents) >= 8
    with pytest.raises(UsageError, match="no server answers there"):
        load(address, WANTED)


def test_a_key_is_sent_and_what_is_refused_is_said() -> None:
    kept = Kept()
    kept.key = "pk-1-2"
    with serving(kept) as url:
        with pytest.raises(UsageError, match="refuses to list its models: no"):
            load(Address.of(url), WANTED)
        assert load(Address.of(url, "pk-1-2"), Wanted(clients=1, seconds=0.2)).ok
        assert "pk-1-2" not in repr(Address.of(url, "pk-1-2"))


def test_a_client_goes_away_in_the_middle_of_a_stream() -> None:
    kept = Kept()
    with serving(kept) as url:
        connection = Connection(Address.of(url))
        answered = connection.stream("/v1/chat/completions", {"stream": True}, gone_after=3)
        assert answered.status == GONE
        whole = connection.stream("/v1/chat/completions", {"stream": True})
        assert (whole.status, whole.num_pieces) == (200, 200)
        connection.close()


@pytest.mark.parametrize("url", ["", "here", "ftp://a", "http://", "http://a:x", "http://a/v1", "http://a?b=c"])
def test_what_is_no_server_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="this is no server"):
        Address.of(url)


def test_bad_input_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a").write_text("[]")
    with pytest.raises(InputError, match="cannot be read"):
        Acknowledged.read(tmp_path / "a")
    assert _status("bench", "load", "--url", "http://127.0.0.1:1", "--seconds", "1") == 2
    error = capsys.readouterr().err
    assert re.fullmatch(r"precog: no server answers there; given: 127\.0\.0\.1:1; precog serve\n", error)


def test_the_table_tells_it_to_people(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(Kept()) as url:
        assert (
            _status("bench", "load", "--url", url, "--seconds", "0.4", "--clients", "3", "--pid", str(os.getpid())) == 0
        )
    shown = capsys.readouterr().out
    for word in ("chat_stream", "first token p50", "memory of the server", "0 lost", "ok"):
        assert word in shown


def _status(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    return int(str(end.value.code))
