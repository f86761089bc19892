"""Requests to memories of a server whose keys count words: quick, and the same on every machine."""

import contextlib
from pathlib import Path

from fastapi.testclient import TestClient
from made_keys import CountingEncoder
from served import USER, services_of, settings_in

from precog.records import ModelChoice
from precog.server.services import Services

ME = "/v1/memories/me"
DEPOSITS = f"{ME}/deposits"


def counting_services(folder: Path, choice: ModelChoice) -> contextlib.AbstractContextManager[Services]:
    return services_of(settings_in(folder), choice, CountingEncoder())


def said(client: TestClient, text: str, user: str = "local", **fields: object) -> int:
    """Remembers, and returns the number."""
    answer = client.post(DEPOSITS, json={"text": text, **fields}, headers={USER: user})
    assert answer.status_code == 200, answer.text
    [number] = answer.json()["ids"]
    return int(number)


def texts(client: TestClient, user: str = "local") -> list[str]:
    """All that is remembered."""
    answer = client.get(DEPOSITS, params={"limit": 1000}, headers={USER: user})
    return [] if answer.status_code == 404 else [entry["text"] for entry in answer.json()["deposits"]]


def bytes_below(folder: Path) -> bytes:
    """Names and bytes of all files of a folder."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return b"\n".join(str(path.relative_to(folder)).encode() + b"\n" + path.read_bytes() for path in files)
