"""How a server is run, and the one table of what can be set about it.

Flag > environment > table ``[server]`` of the config file > default, as everywhere (`precog.config`).
"""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from ipaddress import ip_address
from pathlib import Path
from typing import Literal

from precog.config import CONFIG_FILE, SERVER, Variable, config_file, expanded, home_of, one_of, switch, values_of
from precog.errors import PrecogError, UsageError

LOCAL_USER = "local"
"""Whoever asks a server without keys, unless the request says otherwise."""
_ORIGIN = re.compile(r"https?://(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(:[0-9]{1,5})?")
_MOST = 1 << 40
_PREFIX = "PRECOG_SERVER_"


@dataclass(frozen=True)
class ServerSettings:
    """What holds for one run of the server.

    Attributes:
        data: folder of users' corpora, stored responses, jobs and keys; mode 0700.
        home: home folder of the program: memories are below it, where `precog memory` finds them.
        host: address that is listened on.
        port: of it; 0 for any that is free.
        shared: corpora that everybody may read and nobody may change: name ▸ folder.
        allow_roots: folders whose files may be ingested by path.
        allow_origins: web pages that may ask, as ``https://host`` or ``http://host:port``.
        max_body_bytes: of any request but an upload.
        max_upload_bytes: of an upload.
        max_streams: answers that are worked on at once.
        max_waiting: requests that may wait beyond these.
        requests_per_minute: of one key, or of one address where there are no keys; 0 for no limit.
        keep_responses_sec: how long stored responses are kept.
        grace_sec: how long a server that is told to stop waits for what it has begun.
        has_docs: whether /openapi.json is served.
        log_format: of the lines on stderr.
        log_level: ``info`` has a line for each request.
    """

    data: Path
    home: Path
    host: str = "127.0.0.1"
    port: int = 8642
    shared: Mapping[str, Path] = field(default_factory=dict)
    allow_roots: tuple[Path, ...] = ()
    allow_origins: tuple[str, ...] = ()
    max_body_bytes: int = 4 << 20
    max_upload_bytes: int = 256 << 20
    max_streams: int = 64
    max_waiting: int = 128
    requests_per_minute: int = 600
    keep_responses_sec: float = 30 * 86_400.0
    grace_sec: float = 30.0
    has_docs: bool = True
    log_format: Literal["text", "json"] = "text"
    log_level: Literal["info", "warning", "error"] = "info"

    @property
    def is_loopback(self) -> bool:
        """Whether nobody but this machine can reach the server."""
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Whether a name or an address, without brackets, is this machine's own, as seen by itself alone."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _host(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9.:_-]{1,255}", value):
        raise ValueError("a name or an address, such as 127.0.0.1 or ::1")
    return value


def _folder(value: object) -> Path:
    if not isinstance(value, str | Path) or not str(value):
        raise ValueError("a folder")
    return _expanded(value)


def _expanded(value: str | Path) -> Path:
    try:
        return expanded(value)
    except PrecogError as error:
        raise ValueError(f"a folder: {error.message}") from error


def _several(value: object, what: str) -> list[str]:
    """A list, or a text with commas, as the environment has it."""
    entries = value.split(",") if isinstance(value, str) else value
    if not isinstance(entries, list | tuple) or not all(isinstance(entry, str) and entry for entry in entries):
        raise ValueError(f"{what}, several with commas between them or as a list")
    return list(entries)


def _folders(value: object) -> tuple[Path, ...]:
    return tuple(Path(os.path.realpath(_expanded(entry))) for entry in _several(value, "a folder"))


def _origins(value: object) -> tuple[str, ...]:
    entries = [entry.strip().lower().rstrip("/") for entry in _several(value, "https://HOST or http://HOST:PORT")]
    if not all(_ORIGIN.fullmatch(entry) for entry in entries):
        raise ValueError("https://HOST or http://HOST:PORT, without a path; all of them (*) cannot be allowed")
    return tuple(entries)


def _shared(value: object) -> dict[str, Path]:
    if not isinstance(value, Mapping):
        pairs = [entry.partition("=") for entry in _several(value, "NAME=DIR")]
        value = {name.strip(): folder for name, _, folder in pairs}
        if len(value) < len(pairs):
            raise ValueError("NAME=DIR, each name once")
    if not all(isinstance(folder, str) and name and folder for name, folder in value.items()):
        raise ValueError("NAME=DIR, or a table of names and folders")
    return {str(name): _expanded(folder) for name, folder in value.items()}


def _whole(least: int, most: int) -> Callable[[object], object]:
    def read(value: object) -> int:
        is_number = isinstance(value, int) and not isinstance(value, bool)
        text = str(value) if is_number or isinstance(value, str) else ""
        if not re.fullmatch(r"[0-9]{1,15}", text) or not least <= int(text) <= most:
            raise ValueError(f"a whole number from {least} to {most}")
        return int(text)

    return read


def _seconds(most: float) -> Callable[[object], object]:
    def read(value: object) -> float:
        try:
            number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else -1.0
        except (ValueError, OverflowError):
            number = -1.0
        if not 0 <= number <= most:  # nor is a number that is none
            raise ValueError(f"seconds from 0 to {most:g}")
        return number

    return read


def _variable(key: str, flag: str, meaning: str, read: Callable[[object], object], default: str = "") -> Variable:
    return Variable(key, f"{_PREFIX}{key.upper()}", flag, meaning, read, default)


VARIABLES: tuple[Variable, ...] = (
    _variable("data", "--data", "users' corpora, responses and keys; default: server in PRECOG_HOME", _folder),
    _variable("host", "--host", "address to listen on; only this machine's own without keys", _host, "127.0.0.1"),
    _variable("port", "--port", "port to listen on; 0 for any that is free", _whole(0, 65535), "8642"),
    _variable("shared", "--share", "corpora that everybody may ask and nobody may change: NAME=DIR", _shared),
    _variable("allow_roots", "--allow-root", "folders whose files may be ingested by path; default: none", _folders),
    _variable("allow_origins", "--allow-origin", "web pages that may ask: https://HOST; default: its own", _origins),
    _variable("max_body_bytes", "--max-body", "bytes of a request that is no upload",
              _whole(1024, 1 << 30), str(4 << 20)),
    _variable("max_upload_bytes", "--max-upload", "bytes of an upload", _whole(1024, _MOST), str(256 << 20)),
    _variable("max_streams", "--max-streams", "answers worked on at once", _whole(1, 4096), "64"),
    _variable("max_waiting", "--max-waiting", "requests that may wait beyond these", _whole(0, 65536), "128"),
    _variable("requests_per_minute", "--rate", "requests a minute of one key; 0 for no limit",
              _whole(0, 1_000_000), "600"),
    _variable("keep_responses_sec", "--keep-responses", "seconds that stored responses are kept",
              _seconds(1e10), "2592000"),
    _variable("grace_sec", "--grace", "seconds that stopping waits for what has begun", _seconds(86_400.0), "30"),
    _variable("has_docs", "", "whether /openapi.json is served", switch, "true"),
    _variable("log_format", "--log-format", "text or json", one_of("text", "json"), "text"),
    _variable("log_level", "--log-level", "info has a line for each request",
              one_of("info", "warning", "error"), "info"),
)  # fmt: skip
"""Every setting of the server; each has a key of the table ``[server]`` and an environment variable."""


def resolve_server(
    flags: Mapping[str, object] | None = None, environment: Mapping[str, str] | None = None
) -> ServerSettings:
    """The settings of this run of the server.

    Args:
        flags: what the command line set, by key; None values are not set.
        environment: default the process's own.

    Raises:
        UsageError: an unknown key, or a value that its variable cannot have.
    """
    environment = os.environ if environment is None else environment
    home = home_of(environment)
    known = [variable.environment for variable in VARIABLES]
    for name in environment:
        if name.startswith(_PREFIX) and name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise UsageError("there is no such setting of the server", given=name, hint=hint)
    in_file = config_file(environment).get(SERVER, {})
    assert isinstance(in_file, dict)
    values = values_of(VARIABLES, flags or {}, environment, in_file, f"[{SERVER}] of {home / CONFIG_FILE}")
    values.setdefault("data", home / "server")
    return ServerSettings(home=home, **values)  # type: ignore[arg-type]  # each value was read by its variable


assert {field.name for field in fields(ServerSettings)} == {"home", *(variable.key for variable in VARIABLES)}
