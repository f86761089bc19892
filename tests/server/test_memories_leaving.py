from pathlib import Path

import httpx
from fastapi.testclient import TestClient
from remembered import DEPOSITS, ME, counting_services, texts
from served import client_of, listening

from precog.records import ModelChoice

MANY = 2000


def test_a_client_that_leaves_stops_what_it_asked_for(tmp_path: Path, choice: ModelChoice) -> None:
    lines = "".join(f"Ana: word{n} was said\n" for n in range(MANY))
    with counting_services(tmp_path, choice) as services, client_of(services) as inside, listening(services) as url:
        form = {"files": {"file": ("talk.txt", lines)}, "data": {"stream": "true"}}
        with httpx.stream("POST", f"{url}{ME}/transcripts", timeout=300, **form) as answer:  # type: ignore[arg-type]
            assert next(answer.iter_lines()).startswith("event: progress")
        # whoever writes next waits for the one before, which stops at once
        assert httpx.post(f"{url}{DEPOSITS}", json={"text": "I like rain."}, timeout=300).status_code == 200
        check(inside)  # before the server stops


def check(client: TestClient) -> None:
    said = client.get(ME).json()["num_deposits"]
    assert 1 <= said < MANY
    assert "I like rain." in texts(client)
    assert 'route="/v1/memories/me/transcripts",status="499"} 1.0' in client.get("/metrics").text
