"""Keys of a server: what is kept of them, who comes in with them, and what happens to a file that is damaged."""

import json
import stat
import threading
from pathlib import Path

import pytest

from precog.errors import AccessError, MissingError, StorageError
from precog.server.keys import KEYS_FILE, KeyRing


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def looked_at(ring: KeyRing) -> KeyRing:
    """The same ring, its second over."""
    ring._looked_at = -10.0
    return ring


def test_what_is_kept_lets_nobody_in(tmp_path: Path) -> None:
    key, text = KeyRing(tmp_path).create("Ana", ("read",), note="laptop")
    kept = (tmp_path / KEYS_FILE).read_text()
    kind, key_id, secret = text.split("-", 2)
    assert (kind, key_id) == ("pk", key.id)
    assert len(secret) == 43  # 32 bytes in base64
    assert secret not in kept
    assert stat.S_IMODE((tmp_path / KEYS_FILE).stat().st_mode) == 0o600
    assert KeyRing(tmp_path).find(text).principal.user == "Ana"
    assert secret not in repr(key)
    assert key.sha256 not in repr(key)


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "pk",
        "pk-",
        "pk--",
        "sk-{id}-{secret}",
        "pk-{id}-x{secret}",
        "pk-{id}-",
        "pk-000000000000-{secret}",
        "pk-{id}-{secret}é",
        "pk-{id}-\udcff",
        "pk-{other}-{secret}",
    ],
)
def test_nothing_else_is_a_key(tmp_path: Path, wrong: str) -> None:
    ring = KeyRing(tmp_path)
    _, text = ring.create("Ana", ("read",))
    other, _ = ring.create("Bo", ("read",))
    _, key_id, secret = text.split("-", 2)
    with pytest.raises(AccessError, match="no key of this server") as refused:
        ring.find(wrong.format(id=key_id, secret=secret, other=other.id))
    assert not refused.value.is_known
    assert secret not in str(refused.value)


def test_an_unknown_id_is_compared_like_a_known_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ring = KeyRing(tmp_path)
    _, text = ring.create("Ana", ("read",))
    compared: list[tuple[int, int]] = []
    monkeypatch.setattr("hmac.compare_digest", lambda a, b: compared.append((len(a), len(b))))
    for token in (f"pk-{'0' * 12}-secret", text, "nonsense"):
        with pytest.raises(AccessError):
            ring.find(token)
    assert compared == [(64, 64)] * 3


def test_a_key_ends(tmp_path: Path) -> None:
    clock = Clock()
    ring = KeyRing(tmp_path, clock)
    _, text = ring.create("Ana", ("read",), expires=clock.now + 10)
    assert ring.find(text)
    assert ring.usable
    clock.now += 10
    with pytest.raises(AccessError, match="has expired"):
        ring.find(text)
    with pytest.raises(AccessError, match="no key"):  # that it has ended is told to nobody else
        ring.find(text[:-1] + ("A" if text[-1] != "A" else "B"))
    assert not ring.usable


def test_changes_of_another_process_are_taken_up_and_a_revoked_key_stops_working(tmp_path: Path) -> None:
    server = KeyRing(tmp_path)
    assert not server.is_needed
    first, text = KeyRing(tmp_path).create("Ana", ("read",))
    assert looked_at(server).is_needed
    assert server.find(text).id == first.id
    KeyRing(tmp_path).revoke(first.id)
    with pytest.raises(AccessError):
        looked_at(server).find(text)
    assert server.is_needed  # the last key has gone, and nobody comes in


def test_a_file_is_looked_at_once_a_second(tmp_path: Path) -> None:
    server = KeyRing(tmp_path)
    KeyRing(tmp_path).create("Ana", ("read",))
    server._looked_at = float("inf")
    assert not server.is_needed


def test_a_file_that_vanishes_opens_nothing(tmp_path: Path) -> None:
    server = KeyRing(tmp_path)
    _, text = server.create("Ana", ("read",))
    assert server.find(text)
    (tmp_path / KEYS_FILE).unlink()
    assert looked_at(server).is_needed
    with pytest.raises(AccessError):
        server.find(text)


def sound(folder: Path) -> dict[str, object]:
    KeyRing(folder).create("Ana", ("read",))
    found = json.loads((folder / KEYS_FILE).read_text())
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"precog_keys": 2, "keys": []}',
        '{"precog_keys": 1}',
        "\0" * 200,
        '{"precog_keys": 1, "keys": [{}]}',
        "[" * 100_000,
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / KEYS_FILE).write_text(text)
    with pytest.raises(StorageError, match="cannot be used") as refused:
        KeyRing(tmp_path)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "change",
    [
        {"salt": "xy"},
        {"sha256": "ab"},
        {"user": " "},
        {"scopes": ["root"]},
        {"expires": -1},
        {"expires": "never"},
        {"salt": None},
        {"more": 1},
    ],
)
def test_a_damaged_key_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    found = sound(tmp_path)
    found["keys"][0] |= change  # type: ignore[index]  # as it was written
    (tmp_path / KEYS_FILE).write_text(json.dumps(found))
    with pytest.raises(StorageError, match="cannot be used"):
        KeyRing(tmp_path)


def test_a_file_that_is_damaged_meanwhile_closes_the_server_until_it_is_mended(tmp_path: Path) -> None:
    server = KeyRing(tmp_path)
    _, text = server.create("Ana", ("read",))
    whole = (tmp_path / KEYS_FILE).read_bytes()
    (tmp_path / KEYS_FILE).write_bytes(whole[:40])
    for _ in range(2):
        with pytest.raises(StorageError):
            looked_at(server).find(text)
    with pytest.raises(StorageError):
        KeyRing(tmp_path).create("Bo", ("read",))
    assert (tmp_path / KEYS_FILE).read_bytes() == whole[:40]
    (tmp_path / KEYS_FILE).write_bytes(whole)
    assert looked_at(server).find(text)


def test_keys_made_at_once_are_all_kept(tmp_path: Path) -> None:
    threads = [threading.Thread(target=lambda: KeyRing(tmp_path).create("Ana", ("read",))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(KeyRing(tmp_path).keys) == 8


def test_what_is_not_there_cannot_be_revoked(tmp_path: Path) -> None:
    with pytest.raises(MissingError):
        KeyRing(tmp_path).revoke("abc")
    assert not list(tmp_path.iterdir())
    KeyRing(tmp_path).create("Ana", ("read",))
    with pytest.raises(MissingError, match="precog keys list"):
        KeyRing(tmp_path).revoke("abc")


def test_what_a_key_has_begun_goes_on_as_long_as_it_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("precog.server.keys._LOOK_SEC", 0.0)
    now = 1000.0
    server = KeyRing(tmp_path, lambda: now)
    other = KeyRing(tmp_path, lambda: now)
    lasting, _ = other.create("Ana", ("read",))
    ending, _ = other.create("Ana", ("read",), expires=2000.0)
    for key in (lasting, ending):
        server.check(key.id)
    now = 2000.0
    server.check(lasting.id)
    with pytest.raises(AccessError, match="expired"):
        server.check(ending.id)
    other.revoke(lasting.id)
    with pytest.raises(AccessError, match="revoked"):
        server.check(lasting.id)
