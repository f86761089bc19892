from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from remembered import DEPOSITS, ME, counting_services, said, texts
from served import client_of

from precog.records import ModelChoice

KEPT = "I moved to Lisbon."
BIG = 10**400


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, choice: ModelChoice) -> Iterator[TestClient]:
    folder: Path = tmp_path_factory.mktemp("bad")
    with counting_services(folder, choice) as services, client_of(services) as made:
        said(made, KEPT)
        yield made


def refused(answer: Any, client: TestClient) -> None:
    assert 400 <= answer.status_code < 500, answer.text
    error = answer.json()["error"]
    assert error["code"]
    assert error["message"]
    assert texts(client) == [KEPT]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b"\xff\xfe",
        b'{"text": ""}',
        b'{"text": "   "}',
        b'{"text": "?!"}',
        b'{"text": "\\u0000"}',
        b'{"text": "\\ud800 half"}',
        b'{"text": 5}',
        b'{"text": "a", "speaker": "\\udc00"}',
        b'{"text": "a", "\\ud800": 1}',
        b'{"text": "a", "importance": NaN}',
        b'{"text": "a", "importance": Infinity}',
        b'{"text": "a", "importance": 1' + b"0" * 400 + b"}",
        b'{"text": "a", "importance": 1' + b"0" * 5000 + b"}",
        b'{"text": "a", "time": "soon"}',
        b'{"text": "a", "time": ""}',
        b'{"text": "a", "time": NaN}',
        b'{"text": "a", "time": 1e300}',
        b'{"text": "a", "time": 1' + b"0" * 400 + b"}",
        b'{"text": "a", "time": "0001-01-01T00:00:00+14:00"}',
        b'{"text": "a", "unknown": 1}',
        b"[" * 100_000,
    ],
)
def test_what_cannot_be_remembered_is_refused(client: TestClient, body: bytes) -> None:
    refused(client.post(DEPOSITS, content=body, headers={"Content-Type": "application/json"}), client)


@pytest.mark.parametrize("number", [0, -1, 99, 2**63 - 1, 2**63, BIG, "x", "1.5", "%00"])
def test_numbers_that_no_deposit_has(client: TestClient, number: object) -> None:
    refused(client.get(f"{DEPOSITS}/{number}"), client)
    if isinstance(number, int):
        refused(client.post(f"{ME}/supersede", json={"old": number, "new": 1}), client)
        refused(client.post(f"{ME}/forget", json={"ids": [number]}), client)


@pytest.mark.parametrize(
    "parameters",
    [
        {"limit": 0},
        {"limit": BIG},
        {"before": -1},
        {"before": 2**63},
        {"domain": "nowhere"},
        {"user": " "},
        {"user": "a" * 300},
    ],
)
def test_lists_that_there_are_not(client: TestClient, parameters: dict[str, object]) -> None:
    refused(client.get(DEPOSITS, params={key: str(value) for key, value in parameters.items()}), client)


@pytest.mark.parametrize(
    "asked",
    [
        {"query": ""},
        {"query": " "},
        {"query": "a", "top_k": 0},
        {"query": "a", "top_k": BIG},
        {"query": "a", "probes": -1},
        {"query": "a", "probes": 2**63},
    ],
)
def test_questions_that_ask_nothing(client: TestClient, asked: dict[str, object]) -> None:
    refused(client.post(f"{ME}/recall", json=asked), client)


@pytest.mark.parametrize(
    "asked",
    [
        {"utterance": ""},
        {"utterance": "\n"},
        {"utterance": "Where?", "corpus": "../../etc"},
        {"utterance": "Where?", "corpus": "none"},
        {"utterance": "Where?", "options": {"top_k": 2, "inject": 3}},
        {"utterance": "Where?", "options": {"compose": "stir"}},
        {"utterance": "Where?", "options": {"compose_temperature": 0}},
        {"utterance": "Where?", "options": {"free": True, "min_confidence": 0.5}},
        {"utterance": "Where?", "options": {"baseline": 2}},
        {"utterance": "Where?", "options": {"remember": "some"}},
    ],
)
def test_utterances_that_cannot_be_answered(client: TestClient, asked: dict[str, object]) -> None:
    answer = client.post(f"{ME}/chat", json=asked)
    refused(answer, client)
    assert "--" not in answer.json()["error"]["message"]


EMPTY = (b"", b"\n\n", b"\x00" * 100, b'{"text": ""}', b"\x1f\x8b\x08broken", b"(\xb5/\xfdcut")


@pytest.mark.parametrize("path", ["transcripts", "import"])
def test_files_that_hold_nothing(client: TestClient, path: str) -> None:
    for data in EMPTY:
        refused(client.post(f"{ME}/{path}", files={"file": ("talk.txt", data)}), client)
    for name in ("a\x00b.txt", "\xed\xa0\x80.txt", "", "../x"):
        refused(client.post(f"{ME}/{path}", files={"file": (name, b"\n")}), client)


def test_a_file_has_to_be_there(client: TestClient) -> None:
    refused(client.post(f"{ME}/transcripts", data={"importance": "1"}), client)
    refused(client.post(f"{ME}/import", content=b"no form"), client)
    file = {"file": ("a.txt", b"Ana: hello")}
    refused(client.post(f"{ME}/transcripts", files=file, data={"importance": "nan"}), client)
