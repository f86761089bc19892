"""Corpora over HTTP: uploads, and jobs that are waited for."""

import json
from pathlib import Path
from typing import Any

from httpx import Client

ANTARCTICA = "Roald Amundsen reached the South Pole on 14 December 1911.\n\nThe ice is four kilometres thick there.\n"
MALTA = "Malta lies south of Sicily.\n\nIts capital is Valletta, which was built by the Knights.\n"


def make(client: Client, name: str = "papers", **settings: Any) -> dict[str, Any]:
    answer = client.post("/v1/corpora", json={"name": name, "chunk_tokens": 32, **settings})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def upload(client: Client, name: str = "papers", **files: str) -> dict[str, Any]:
    """Sends files, ``report_txt="…"`` as report.txt, and returns the job."""
    form = [("files", (key.replace("_", "."), text.encode())) for key, text in files.items()]
    answer = client.post(f"/v1/corpora/{name}/documents", files=form)
    assert answer.status_code == 202, answer.text
    job: dict[str, Any] = answer.json()
    return job


def ended(client: Client, job: dict[str, Any]) -> dict[str, Any]:
    """The job when it has ended."""
    answer = client.get(f"/v1/jobs/{job['id']}/events")
    assert answer.status_code == 200, answer.text
    _, found = events_of(answer.text)[-1]
    assert found["ended"] is not None, found
    return found


def filled(client: Client, name: str = "papers", **files: str) -> dict[str, Any]:
    """Uploads two texts, or those that are given, into a new corpus, and returns the job at its end."""
    make(client, name)
    job = ended(client, upload(client, name, **(files or {"antarctica_txt": ANTARCTICA, "malta_txt": MALTA})))
    assert job["state"] == "done", job
    return job


def code_of(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


def events_of(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Name and data of every event of a stream."""
    found = []
    for block in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line and not line.startswith(":"))
        if lines:
            found.append((lines["event"], json.loads(lines["data"])))
    return found


FORGETTING = ["forgets", "lock"]
"""What is left where stored responses were told to forget: a number, and a lock."""


def files_below(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())
