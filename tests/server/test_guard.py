"""Who comes in: with keys, whoever has one; without, this machine's own programs and pages."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from served import client_of, services_of, settings_in
from starlette.websockets import WebSocketDisconnect

from precog.encoders import Encoder
from precog.records import ModelChoice
from precog.server.keys import KEYS_FILE, KeyRing
from precog.server.services import Services

PAGE = "https://app.example.org"


@pytest.fixture
def serving(tmp_path: Path, choice: ModelChoice, encoder: Encoder):
    @contextmanager
    def opened(**changed: object) -> Iterator[TestClient]:
        with services_of(settings_in(tmp_path, **changed), choice, encoder) as services, client_of(services) as client:
            yield client

    return opened


@pytest.fixture
def key(tmp_path: Path) -> str:
    return KeyRing(tmp_path / "data").create("Ana", ("read",))[1]


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def error(answer, status: int) -> dict[str, str]:
    assert answer.status_code == status, answer.text
    told = answer.json()["error"]
    assert told["message"]
    assert "\n" not in told["message"]
    return told


def test_with_keys_a_key_is_needed(serving, key: str) -> None:
    with serving() as client:
        refused = client.get("/v1/models")
        assert error(refused, 401)["code"] == "access"
        assert refused.headers["www-authenticate"] == "Bearer"
        assert "Authorization: Bearer" in error(refused, 401)["hint"]
        assert client.get("/v1/models", headers=bearer(key)).status_code == 200
        assert client.get("/v1/models", headers={"x-api-key": key}).status_code == 200
        assert client.get("/v1/models", headers={"Authorization": f"bearer  {key} "}).status_code == 200
        for wrong in (bearer(key + "x"), bearer(""), {"Authorization": f"Basic {key}"}, {"Authorization": key}):
            error(client.get("/v1/models", headers=wrong), 401)
        assert client.get("/healthz").status_code == 200
        assert error(client.get("/openapi.json"), 401)


def test_an_expired_key_is_told_so(serving, tmp_path: Path) -> None:
    _, text = KeyRing(tmp_path / "data").create("Ana", ("read",), expires=1.0)
    with serving() as client:
        assert "expired" in error(client.get("/v1/models", headers=bearer(text)), 401)["message"]


def test_a_key_without_the_scope_is_known_and_refused(serving, tmp_path: Path) -> None:
    _, text = KeyRing(tmp_path / "data").create("Ana", ("write",))
    with serving() as client:
        assert "scope read" in error(client.get("/v1/models", headers=bearer(text)), 403)["message"]


def test_keys_that_cannot_be_read_let_nobody_in_and_name_no_folder(serving, tmp_path: Path, key: str) -> None:
    with serving() as client:
        assert client.get("/v1/models", headers=bearer(key)).status_code == 200
        (tmp_path / "data" / KEYS_FILE).write_text("{")
        guard_ring(client)._looked_at = -10.0
        refused = client.get("/v1/models", headers=bearer(key))
        assert str(tmp_path) not in refused.text
        assert error(refused, 503)["code"] == "unavailable"


def guard_ring(client: TestClient) -> KeyRing:
    """The ring of the application's guard."""
    layer = client.app.middleware_stack
    while not hasattr(layer, "_keys"):
        layer = getattr(layer, "_app", None) or layer.app
    return layer._keys


@pytest.mark.parametrize("host", ["127.0.0.1:8642", "localhost:8642", "[::1]:8642", "LOCALHOST:8642", "127.8.8.8:8642"])
def test_without_keys_this_machine_is_answered(serving, host: str) -> None:
    with serving() as client:
        assert client.get("/v1/models", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "example.org",
        "example.org:8642",
        "127.0.0.1",
        "localhost:80",
        "127.0.0.1.example.org:8642",
        "localhost.example.org:8642",
        "localhost:8642@example.org",
        "0.0.0.0:8642",
        "10.0.0.1:8642",
        "",
        "127.0.0.1:8642, localhost:8642",
        "[::1:8642",
        "2130706433:8642",
        "127.0.0.1:08642x",
    ],
)
def test_without_keys_other_names_are_refused(serving, host: str) -> None:
    with serving() as client:
        assert "precog keys create" in error(client.get("/v1/models", headers={"Host": host}), 403)["hint"]


def test_with_keys_any_host_is_answered(serving, key: str) -> None:
    with serving() as client:
        assert client.get("/v1/models", headers={"Host": "docs.example.org", **bearer(key)}).status_code == 200


@pytest.mark.parametrize(
    "origin",
    [
        "https://example.org",
        "null",
        "http://localhost:3000",
        "https://127.0.0.1:8642",
        "",
        "http://127.0.0.1:8642.example.org",
        "file://",
        "http://localhost",
    ],
)
def test_without_keys_pages_of_others_are_refused(serving, origin: str) -> None:
    with serving() as client:
        for method in ("GET", "POST", "DELETE"):
            refused = client.request(method, "/v1/models", headers={"Origin": origin})
            assert "--allow-origin" in error(refused, 403)["hint"]
            assert "access-control-allow-origin" not in refused.headers


def test_its_own_pages_and_those_that_are_allowed_are_answered(serving) -> None:
    with serving(allow_origins=(PAGE,)) as client:
        own = client.get("/v1/models", headers={"Origin": "http://localhost:8642"})
        assert own.status_code == 200
        assert "access-control-allow-origin" not in own.headers
        foreign = client.get("/v1/models", headers={"Origin": PAGE, "Sec-Fetch-Site": "cross-site"})
        assert foreign.status_code == 200
        assert foreign.headers["access-control-allow-origin"] == PAGE
        assert "Origin" in foreign.headers["vary"]
        error(client.get("/v1/models", headers={"Origin": "https://app.example.org.evil.example"}), 403)


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_what_a_browser_says_comes_from_elsewhere_is_refused(serving, site: str) -> None:
    opened = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    with serving() as client:
        for method in ("GET", "POST", "DELETE"):
            error(client.request(method, "/v1/models", headers={"Sec-Fetch-Site": site}), 403)
        error(client.post("/v1/models", headers={"Sec-Fetch-Site": site, **opened}), 403)
        framed = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}
        error(client.get("/v1/models", headers={"Sec-Fetch-Site": site, **framed}), 403)
        assert client.get("/openapi.json", headers={"Sec-Fetch-Site": site, **opened}).status_code == 200
        assert client.get("/v1/models", headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200
        assert client.get("/v1/models", headers={"Sec-Fetch-Site": "none"}).status_code == 200


@pytest.mark.parametrize("keyed", [False, True])
def test_preflights_are_answered_for_allowed_pages_alone(serving, tmp_path: Path, keyed: bool) -> None:
    if keyed:
        KeyRing(tmp_path / "data").create("Ana", ("read",))
    asked = {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization, x-stainless-os\r",
    }
    with serving(allow_origins=(PAGE,)) as client:
        answer = client.options("/v1/models", headers={"Origin": PAGE, **asked})
        assert answer.status_code == 204
        assert answer.headers["access-control-allow-origin"] == PAGE
        assert "x-stainless-os" in answer.headers["access-control-allow-headers"]
        refused = client.options("/v1/models", headers={"Origin": "https://evil.example", **asked})
        error(refused, 403)
        assert "access-control-allow-origin" not in refused.headers


def test_an_address_that_others_reach_is_closed_without_keys(serving) -> None:
    with serving(host="0.0.0.0") as client:
        assert "needs keys" in error(client.get("/v1/models"), 401)["message"]
        assert client.get("/healthz").status_code == 200


def test_there_are_no_web_sockets(serving) -> None:
    with serving() as client, pytest.raises(WebSocketDisconnect), client.websocket_connect("/v1/models"):
        pass


def test_a_key_may_ask_so_often_and_others_are_not_held_up(serving, tmp_path: Path) -> None:
    ring = KeyRing(tmp_path / "data")
    slow = ring.create("Ana", ("read",), requests_per_minute=2)[1]
    usual, free = ring.create("Bo", ("read",))[1], ring.create("Cy", ("read",), requests_per_minute=0)[1]
    with serving(requests_per_minute=3) as client:
        for key, most in ((slow, 2), (usual, 3)):
            for _ in range(most):
                assert client.get("/v1/models", headers=bearer(key)).status_code == 200
            refused = client.get("/v1/models", headers=bearer(key))
            assert error(refused, 429)["expected"] == f"at most {most} a minute"
            assert 1 <= int(refused.headers["retry-after"]) <= 60 // most
        for _ in range(5):
            assert client.get("/v1/models", headers=bearer(free)).status_code == 200


def test_without_keys_an_address_may_ask_so_often(serving) -> None:
    with serving(requests_per_minute=2) as client:
        answers = [client.get("/v1/models").status_code for _ in range(3)]
        assert answers == [200, 200, 429]
        assert client.get("/healthz").status_code == 200


def test_wrong_keys_are_limited_and_right_ones_come_through_all_the_same(serving, key: str) -> None:
    with serving() as client:
        answers = [client.get("/v1/models", headers=bearer(f"pk-{n}")).status_code for n in range(40)]
        assert answers == [401] * 30 + [429] * 10
        assert client.get("/v1/models", headers=bearer(key)).status_code == 200


def test_a_server_that_stops_takes_nothing_new(services: Services, client: TestClient) -> None:
    services.stopping.set()
    refused = client.get("/v1/models")
    assert "stopping" in error(refused, 503)["message"]
    assert int(refused.headers["retry-after"]) > 0
    assert client.get("/healthz").json()["status"] == "stopping"


@pytest.mark.parametrize("path", ["/v1/models", "/v1/nothing", "/healthz", "/openapi.json"])
def test_every_answer_has_the_headers_of_safety(client: TestClient, path: str) -> None:
    for headers in ({}, {"Host": "evil.example"}):
        answer = client.get(path, headers=headers)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert (answer.headers.get("cache-control") == "no-store") == path.startswith("/v1")
        assert len(answer.headers["x-request-id"]) == 24


def test_a_path_with_a_nul_is_refused(client: TestClient) -> None:
    assert "NUL" in error(client.get("/v1/models/a%00b"), 400)["message"]


def test_a_slash_too_many_leads_nowhere(client: TestClient) -> None:
    answer = client.get("/v1/corpora/", follow_redirects=False)
    assert error(answer, 404)


def test_a_body_with_two_lengths_is_refused(client: TestClient) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"{}"

    headers = {"Content-Length": "2", "Transfer-Encoding": "chunked", "Content-Type": "application/json"}
    answer = client.post("/v1/plan", content=pieces(), headers=headers)
    assert error(answer, 400)["message"] == "the body of the request has two lengths"
    assert answer.headers["connection"] == "close"


def test_many_headers_take_no_time(client: TestClient) -> None:
    def cpu_sec(count: int) -> float:
        headers = {f"x-{number}": "a" for number in range(count)}
        began = time.process_time()
        assert client.get("/v1/models", headers=headers).status_code == 200
        return time.process_time() - began

    few, many = (min(cpu_sec(count) for _ in range(3)) for count in (3_000, 30_000))
    assert many < 40 * few  # in proportion to them, where it would be a hundred times if each were looked for among all
