"""``precog keys``: making, listing and revoking keys of a server."""

import stat
import time
from datetime import datetime
from pathlib import Path

import pytest
from ended import Run

from precog.server.keys import KEYS_FILE, KeyRing
from precog.server.settings import resolve_server
from precog.server.tenant import Tenant


def test_a_key_is_printed_once_and_lets_its_user_in(run: Run, tmp_path: Path) -> None:
    ended = run("keys", "create", "--user", "Ana", "--note", "laptop", "--data", tmp_path / "data")
    assert ended.status == 0
    text = ended.out.strip()
    key = KeyRing(tmp_path / "data").find(text)
    assert (key.user, key.scopes, key.expires, key.note) == ("Ana", ("read", "write"), None, "laptop")
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
    listed = run("keys", "list", "--data", tmp_path / "data")
    assert listed.status == 0
    assert key.id in listed.out
    assert "Ana" in listed.out
    assert text.split("-", 2)[2] not in listed.out


def test_the_first_key_says_whose_is_what_was_uploaded_without_one(run: Run, tmp_path: Path) -> None:
    tenant = Tenant(resolve_server({"data": tmp_path / "data"}), "local")
    (tenant.corpora / "papers").mkdir(parents=True)
    (tenant.corpora / "papers" / "precog.json").touch()
    first, second = (run("keys", "create", "--user", "Ana", "--data", tmp_path / "data") for _ in range(2))
    assert first.err == (
        "what was uploaded without keys belongs to the user local; for a key to it: precog keys create --user local\n"
    )
    assert (first.out.count("\n"), second.err) == (1, "")


@pytest.mark.parametrize(("user", "has_things"), [("local", True), ("Ana", False)])
def test_the_first_key_says_nothing_where_nothing_is_hidden(
    run: Run, tmp_path: Path, user: str, has_things: bool
) -> None:
    if has_things:
        corpora = Tenant(resolve_server({"data": tmp_path / "data"}), "local").corpora
        corpora.mkdir(parents=True)
        (corpora / "x").touch()
    assert run("keys", "create", "--user", user, "--data", tmp_path / "data").err == ""


def test_what_is_left_out_is_explained_by_the_command_itself(run: Run) -> None:
    ended = run("keys", "create")
    assert ended.status == 2
    assert "--user" in ended.err
    assert "see `precog keys create --help`" in ended.err


def test_json_of_every_command(run: Run, tmp_path: Path) -> None:
    made = run("keys", "create", "--user", "Ana", "--scope", "admin, read", "--expires", "30d", "--rate", 5,
               "--data", tmp_path, "--json").json  # fmt: skip
    assert made["key"].startswith(f"pk-{made['id']}-")
    assert made["scopes"] == ["read", "admin"]
    assert made["requests_per_minute"] == 5
    ends = datetime.fromisoformat(made["expires"]).timestamp()
    assert abs(ends - time.time() - 30 * 86_400) < 60
    listed = run("keys", "list", "--data", tmp_path, "--json").json
    assert listed == {"keys": [{name: value for name, value in made.items() if name != "key"}], "needed": True}
    assert run("keys", "revoke", made["id"], "--data", tmp_path, "--json").json["revoked"]["id"] == made["id"]
    assert run("keys", "list", "--data", tmp_path, "--json").json == {"keys": [], "needed": True}


def test_without_a_folder_of_data_it_is_the_one_of_the_settings(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRECOG_SERVER_DATA", str(tmp_path / "here"))
    assert run("keys", "create", "--user", "Ana").status == 0
    assert (tmp_path / "here" / KEYS_FILE).exists()


def test_no_keys_are_told_as_what_they_mean(run: Run, tmp_path: Path) -> None:
    assert "open to this machine" in run("keys", "list", "--data", tmp_path / "data").out
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    "expires", ["", "soon", "0d", "-1d", "1y", "2001-01-01", "999999w", "99999999999999d", "2030-13-01", "9999-12-31"]
)
def test_an_end_that_is_none_is_refused(run: Run, tmp_path: Path, expires: str) -> None:
    ended = run("keys", "create", "--user", "Ana", "--expires", expires, "--data", tmp_path / "data")
    assert ended.status == 2
    assert "--expires" in ended.err
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("expires", ["12h", "2060-01-31", "2060-01-31T10:00:00+02:00", "8w"])
def test_an_end_may_be_a_date(run: Run, tmp_path: Path, expires: str) -> None:
    assert run("keys", "create", "--user", "Ana", "--expires", expires, "--data", tmp_path).status == 0
    assert KeyRing(tmp_path).usable


@pytest.mark.parametrize(
    "arguments",
    [["--user", " "], ["--user", "A" * 300], ["--user", "A", "--scope", "root"], ["--user", "A", "--scope", ""], []],
)
def test_what_is_no_key_is_refused(run: Run, tmp_path: Path, arguments: list[str]) -> None:
    ended = run("keys", "create", *arguments, "--data", tmp_path / "data")
    assert ended.status == 2
    assert not (tmp_path / "data").exists()


def test_an_unknown_key_and_a_damaged_file_are_told_in_one_line(run: Run, tmp_path: Path) -> None:
    ended = run("keys", "revoke", "abc", "--data", tmp_path)
    assert (ended.status, ended.err.count("\n")) == (1, 1)
    (tmp_path / KEYS_FILE).write_text("{")
    for arguments in (["list"], ["create", "--user", "Ana"], ["revoke", "abc"]):
        ended = run("keys", *arguments, "--data", tmp_path, "--json")
        assert (ended.status, ended.err.count("\n")) == (1, 1)
        assert ended.json["error"]["code"] == "storage"
    assert (tmp_path / KEYS_FILE).read_text() == "{"
