"""A disk that takes nothing of an upload: the client is told so, and it is no bug."""

import errno
import tempfile

import pytest
from corpora_of import make
from fastapi.testclient import TestClient

LARGE = b"x" * (1 << 21)  # more than is held in memory while it comes


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)  # where a form goes when it is large
    monkeypatch.setattr("precog.server.multipart.TemporaryFile", lambda: _Full())


class _Full(tempfile.SpooledTemporaryFile):  # type: ignore[type-arg]  # of bytes
    def write(self, data: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    "path", ["/v1/corpora/papers/documents", "/v1/memories/me/import", "/v1/memories/me/transcripts"]
)
def test_a_form_that_the_disk_does_not_take_is_told_so(client: TestClient, full: None, path: str) -> None:
    make(client)
    answer = client.post(path, files={"file": ("a.txt", LARGE)})
    assert answer.status_code == 507, answer.text
    assert answer.json()["error"]["code"] == "storage"
    assert answer.json()["error"]["hint"] == "No space left on device"


def test_a_body_that_the_disk_does_not_take_is_told_so(client: TestClient, full: None) -> None:
    make(client)
    answer = client.post("/v1/corpora/papers/documents", params={"name": "a.txt"}, content=b"text")
    assert answer.status_code == 507, answer.text
    assert answer.json()["error"]["message"] == "the upload cannot be kept"
