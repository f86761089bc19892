import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ended import Run, runner
from fastapi.testclient import TestClient
from remembered import DEPOSITS, ME, said

from precog.server.services import Services

USER = ("--user", "local", "--json")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, services: Services) -> Run:
    monkeypatch.setenv("PRECOG_HOME", str(services.settings.home))
    monkeypatch.setenv("PRECOG_MODEL", str(services.choice.name))
    return runner(capsys)


def without(told: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in told.items() if name not in names}


def test_the_command_line_and_the_server_see_one_memory(
    client: TestClient, services: Services, run: Run, tmp_path: Path
) -> None:
    first = said(client, "I moved to Lisbon.", speaker="Ana", time="2024-05-01T10:00:00Z")
    told = run("memory", "remember", "My dog is called Rex.", "--time", "2024-05-02T10:00:00Z", *USER).json
    [second] = told["ids"]
    again = client.post(DEPOSITS, json={"text": "My dog is called Rex.", "time": "2024-05-02T10:00:00Z"}).json()
    assert without(again, "duplicates", "notes") == without(told, "duplicates")
    listed = client.get(DEPOSITS).json()
    assert [entry["id"] for entry in listed["deposits"]] == [first, second]
    assert without(listed, "older") == run("memory", "list", *USER).json
    assert client.get(f"{DEPOSITS}/{first}").json() == run("memory", "show", first, *USER).json
    stats = run("memory", "stats", *USER).json
    over_http = client.get(ME).json()
    assert without(over_http, "disk_bytes", "settings") == without(stats, "disk_bytes", "settings")
    assert over_http["settings"] == {**stats["settings"], "model": Path(stats["settings"]["model"]).name}
    found = client.post(f"{ME}/recall", json={"query": "What is my dog called?"}).json()
    assert without(found, "timings_sec") == without(
        run("memory", "recall", "What is my dog called?", *USER).json, "timings_sec"
    )
    file = tmp_path / "archive.jsonl"
    run("memory", "export", file, *USER)
    assert client.get(f"{ME}/export").content == file.read_bytes()
    drawn = client.get(f"{ME}/map", params={"method": "pca"}).json()
    picture = run("memory", "map", "--out", tmp_path / "map.svg", "--method", "pca", *USER).json
    assert without(drawn, "panels") == without(picture, "file")
    gone = run("memory", "forget", "--id", first, "--proof", *USER).json
    forgotten = client.post(f"{ME}/forget", json={"ids": [second], "proof": True}).json()
    assert set(gone) | {"complete"} == set(forgotten)
    assert json.loads(json.dumps(run("memory", "list", *USER).json["deposits"])) == []
    assert set(run("memory", "purge", "--yes", *USER).json) == set(_purged(client))
    assert client.get(ME).status_code == 404


def test_a_chat_answers_from_a_corpus_along_with_the_memory(
    client: TestClient, services: Services, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "mill.txt").write_text("A mill stands on the river Ouse. Tom Reed made its wheel of oak in 1790.\n")
    assert run("index", tmp_path / "mill.txt", "--corpus", tmp_path / "corpus").status == 0
    services.settings = replace(services.settings, shared={"docs": tmp_path / "corpus"})
    said(client, "I moved to Lisbon.", time="2024-05-01T10:00:00Z")
    asked = {"utterance": "Who made the wheel of the mill?", "corpus": "docs", "options": {"always_answer": True}}
    reply = client.post(f"{ME}/chat", json=asked).json()
    assert reply["evidence"][0]["origin"] == "corpus"
    assert reply["text"] in (tmp_path / "mill.txt").read_text()
    assert {entry["origin"] for entry in reply["evidence"]} == {"corpus", "memory"}
    assert client.post(f"{ME}/chat", json={**asked, "corpus": "other"}).status_code == 404


def _purged(client: TestClient) -> dict[str, Any]:
    said(client, "I moved to Lisbon.")
    told: dict[str, Any] = client.delete(ME).json()
    return told
