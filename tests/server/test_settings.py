"""Settings of the server: where they come from, and what is refused."""

from pathlib import Path

import pytest

from precog import config
from precog.config import CONFIG_FILE, HOME
from precog.errors import UsageError
from precog.server.settings import VARIABLES, ServerSettings, resolve_server


def home(folder: Path, text: str = "") -> dict[str, str]:
    (folder / CONFIG_FILE).write_text(text)
    return {HOME: str(folder)}


def test_flag_before_environment_before_file_before_default(tmp_path: Path) -> None:
    environment = home(tmp_path, 'threads = 2\n[server]\nport = 1\nhost = "::1"\nmax_streams = 3\nhas_docs = false\n')
    assert resolve_server({}, {HOME: str(tmp_path / "none")}) == ServerSettings(
        data=tmp_path / "none" / "server", home=tmp_path / "none"
    )
    found = resolve_server({"port": 3}, environment | {"PRECOG_SERVER_PORT": "2", "PRECOG_SERVER_MAX_STREAMS": "4"})
    assert (found.port, found.max_streams, found.host, found.has_docs) == (3, 4, "::1", False)
    assert config.resolve({}, environment).threads == 2


def test_several_come_as_a_list_or_with_commas(tmp_path: Path) -> None:
    text = f'[server]\nallow_roots = ["{tmp_path}"]\nallow_origins = ["https://A.example/"]\n'
    text += f'[server.shared]\np = "{tmp_path}"\n'
    found = resolve_server({}, home(tmp_path, text))
    assert found.allow_roots == (tmp_path.resolve(),)
    assert found.allow_origins == ("https://a.example",)
    assert found.shared == {"p": tmp_path}
    environment = {
        HOME: str(tmp_path),
        "PRECOG_SERVER_ALLOW_ROOTS": "/a,/b",
        "PRECOG_SERVER_ALLOW_ORIGINS": "http://a:1, https://b",
        "PRECOG_SERVER_SHARED": "x=/a=b,y=/c",
    }
    found = resolve_server({}, environment)
    assert found.allow_roots == (Path("/a"), Path("/b"))
    assert found.allow_origins == ("http://a:1", "https://b")
    assert found.shared == {"x": Path("/a=b"), "y": Path("/c")}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[server]\nprot = 1", "unknown setting.*prot"),
        ("[server]\nport = 65536", "port in .*0 to 65535"),
        ("[server]\nport = true", "port"),
        ("[server]\nport = 1.5", "port"),
        ('[server]\nallow_origins = "*"', r"\(\*\) cannot be allowed"),
        ('[server]\nallow_origins = ["https://a/b"]', "without a path"),
        ('[server]\nshared = "x"', "NAME=DIR"),
        ('[server]\nshared = "x=/a,x=/b"', "each name once"),
        ("[server.shared]\nx = 3", "NAME=DIR"),
        ("[server]\nallow_roots = [3]", "a folder"),
        ('[server]\nallow_roots = "a,,b"', "a folder"),
        ('[server]\nhost = "a b"', "a name or an address"),
        ('[server]\nlog_format = "xml"', "text or json"),
        ("[server]\ngrace_sec = nan", "seconds from 0"),
        ("[server]\ndata = 3", "a folder"),
        ("server = 3", r"\[server\] on a line of its own"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as refused:
        resolve_server({}, home(tmp_path, text))
    assert "\n" not in str(refused.value)


def test_other_commands_leave_the_table_alone_but_not_a_value_in_its_place(tmp_path: Path) -> None:
    assert config.resolve({}, home(tmp_path, "[server]\nnonsense = 1\n")).model is None
    with pytest.raises(UsageError, match="table"):
        config.resolve({}, home(tmp_path, "server = 1\n"))
    with pytest.raises(UsageError, match="unknown setting"):
        config.resolve({}, home(tmp_path, "[sever]\nport = 1\n"))


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False),
     ("localhost.example.org", False), ("192.168.0.1", False)],
)  # fmt: skip
def test_loopback(tmp_path: Path, host: str, expected: bool) -> None:
    assert ServerSettings(data=tmp_path, home=tmp_path, host=host).is_loopback == expected


def test_every_setting_is_in_the_documentation(repository: Path) -> None:
    guide = (repository / "docs" / "architecture.md").read_text(encoding="utf-8")
    for variable in VARIABLES:
        row = f"| `{variable.key}` | `{variable.environment}` | {f'`{variable.flag}`' if variable.flag else ''} |"
        assert row.replace("|  |", "| |") in guide, variable.key
