"""Files for running the server elsewhere, and the page of the HTTP API: what they name exists."""

import ast
import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest
from fastapi import FastAPI

from precog.cli.main import COMMANDS, main
from precog.server.app import ROUTES

_METHODS = "GET|POST|PUT|PATCH|DELETE"


def instructions(repository: Path) -> list[list[str]]:
    """Lines of the Dockerfile as words, comments out and continuations joined."""
    text = (repository / "deploy" / "Dockerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return [line.split() for line in "\n".join(lines).replace("\\\n", " ").splitlines() if line.strip()]


def check_command(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A command of ours has the options that are given to it."""
    assert arguments[0] in COMMANDS
    with pytest.raises(SystemExit):
        main([arguments[0], "--help"])
    shown = capsys.readouterr().out
    for option in (word for word in arguments if word.startswith("--")):
        assert re.search(rf"{re.escape(option)}\b", shown), option


def test_the_image_is_made_of_what_is_there(repository: Path) -> None:
    ignore = (repository / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert ignore[0] == "*"
    let_in = {line[1:] for line in ignore if line.startswith("!")}
    copied = set()
    for name, *words in instructions(repository):
        if name == "COPY" and not words[0].startswith("--from"):
            copied.update(words[:-1])
    assert copied == let_in
    assert all((repository / name).exists() for name in copied)
    project = (repository / "pyproject.toml").read_text(encoding="utf-8")
    readme, licences = re.search(r'readme = "(.+)"', project), re.search(r"license-files = (\[.+\])", project)
    assert readme is not None
    assert licences is not None
    assert {readme[1], *ast.literal_eval(licences[1])} <= copied


def test_the_image_installs_the_tested_torch_and_extras_that_there_are(repository: Path) -> None:
    text = (repository / "deploy" / "Dockerfile").read_text(encoding="utf-8")
    setup = (repository / "scripts" / "setup").read_text(encoding="utf-8")
    version = re.search(r"torch_version=(\S+)", setup)
    index = re.search(r"torch_cpu_index=(\S+)", setup)
    assert version is not None
    assert index is not None
    assert f"torch=={version[1]}" in text
    assert index[1] in text
    project = (repository / "pyproject.toml").read_text(encoding="utf-8")
    extras = re.search(r'"\.\[(.+?)\]"', text)
    assert extras is not None
    assert "server" in extras[1].split(",")
    assert all(re.search(rf"^{extra} = \[", project, re.MULTILINE) for extra in extras[1].split(","))
    for path in re.findall(r"\./(weights/\S+)", text):
        assert (repository / path / "pyproject.toml").exists()


def test_the_image_runs_as_nobody_special_and_needs_keys(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = instructions(repository)
    names = [words[0] for words in found]
    assert found[names.index("USER")][1:] == ["precog"]
    assert names.index("USER") < names.index("CMD")
    command = ast.literal_eval(" ".join(found[names.index("CMD")][1:]))
    assert ast.literal_eval(" ".join(found[names.index("ENTRYPOINT")][1:])) == ["precog"]
    check_command(command, capsys)
    assert command[command.index("--host") + 1] == "0.0.0.0"  # where the server refuses to start without keys
    (volume,) = found[names.index("VOLUME")][1:]
    assert command[command.index("--data") + 1].startswith(f"{volume}/")  # a folder below it can be renamed
    assert found[names.index("EXPOSE")][1] == command[command.index("--port") + 1]
    (check,) = [" ".join(words) for words in found if words[0] == "HEALTHCHECK"]
    assert f":{found[names.index('EXPOSE')][1]}/healthz" in check
    text = (repository / "deploy" / "Dockerfile").read_text(encoding="utf-8").lower()
    assert not re.search(r"pk-[0-9a-f]|password|secret|token=", text)


def test_the_unit_starts_the_server_and_gives_it_one_folder(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (repository / "deploy" / "precog.service").read_text(encoding="utf-8")
    entries = dict(line.split("=", 1) for line in text.splitlines() if re.match(r"[A-Z]\w+=", line))
    assert re.findall(r"^\[(\w+)\]", text, re.MULTILINE) == ["Unit", "Service", "Install"]
    program, *arguments = shlex.split(entries["ExecStart"])
    assert Path(program).name == "precog"
    check_command(arguments, capsys)
    home = f"/var/lib/{entries['StateDirectory']}"
    assert entries["Environment"] == f"PRECOG_HOME={home}"
    assert arguments[arguments.index("--data") + 1].startswith(f"{home}/")
    assert arguments[arguments.index("--host") + 1] == "127.0.0.1"
    assert (entries["User"], entries["StateDirectoryMode"], entries["UMask"]) == ("precog", "0700", "0077")
    for name in ("NoNewPrivileges", "PrivateTmp", "ProtectHome", "RestrictSUIDSGID", "LockPersonality"):
        assert entries[name] == "yes", name
    assert entries["ProtectSystem"] == "strict"
    assert entries["CapabilityBoundingSet"] == ""
    assert int(entries["TimeoutStopSec"]) > 30


def served() -> set[str]:
    """Method and path of every route."""
    app = FastAPI()
    for name in ROUTES:
        app.include_router(import_module(f"precog.server.routes.{name}").router)
    paths = app.openapi()["paths"]
    return {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}


def described(repository: Path) -> list[str]:
    page = (repository / "docs" / "http-api.md").read_text(encoding="utf-8")
    return re.findall(rf"^### `((?:{_METHODS}) /\S*)`$", page, re.MULTILINE)


def test_every_route_stands_on_the_page_of_the_api(repository: Path) -> None:
    found = described(repository)
    assert len(found) == len(set(found))
    assert served() - set(found) == set()


def test_every_route_on_the_page_is_served(repository: Path) -> None:
    assert set(described(repository)) - served() == set()


def test_every_route_on_the_page_has_an_example_of_its_own(repository: Path) -> None:
    page = (repository / "docs" / "http-api.md").read_text(encoding="utf-8")
    sections = re.split(r"^#{2,3} ", page, flags=re.MULTILINE)
    for route in described(repository):
        (section,) = [part for part in sections if part.startswith(f"`{route}`\n")]
        method, path = route.split()
        pattern = re.sub(r"\\\{\w+\\\}", r"[^/\\s\"?]+", re.escape(path))
        calls = [line for line in section.replace("\\\n", " ").splitlines() if line.startswith("curl ")]
        assert any(re.search(rf"\$URL{pattern}[\s\"?]|\$URL{pattern}$", call) for call in calls), route
        if method == "DELETE":
            assert all("-X DELETE" in call for call in calls), route


def test_json_on_the_page_can_be_read(repository: Path) -> None:
    import json

    page = (repository / "docs" / "http-api.md").read_text(encoding="utf-8")
    bodies = re.findall(r"-d '\s*(\{.*?\})'", page, re.DOTALL)
    assert len(bodies) > 10
    for body in [*bodies, *re.findall(r"^```json\n(.*?)^```", page, re.MULTILINE | re.DOTALL)]:
        json.loads(body)
    for block in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        ast.parse(block)


def test_codes_on_the_page_are_codes(repository: Path) -> None:
    page = (repository / "docs" / "http-api.md").read_text(encoding="utf-8")
    guide = (repository / "docs" / "architecture.md").read_text(encoding="utf-8")
    known = set(re.findall(r"^\| `([a-z.]+)` \|", guide, re.MULTILINE)) | {"http", "bug"}
    rows = re.findall(r"^\| (\d{3}) \| (.+?) \|", page, re.MULTILINE)
    assert len(rows) > 10
    for status, codes in rows:
        assert set(re.findall(r"`([^`]+)`", codes)) <= known, status
