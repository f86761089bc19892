"""A corpus and a memory of the shipped model behind a server, made through its API."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
from corpora_of import ended

CORPUS = "factbook"
QUESTION = "Who was named king of Bhutan in 1907?"
ANSWER = "Ugyen WANGCHUCK"
SCRIPT = "<img src=x onerror=\"document.title='broken into'\"><script>document.title='broken into'</script>"
SAID = (
    "I moved from Porto to Lisbon in May.",
    "My sister Clara is getting married in October.",
    "I am allergic to peanuts.",
    "I bought a used bicycle for 120 euros.",
    "My dentist appointment is on the fourteenth of November.",
)
TRUNCATED = b"%PDF-1.4\n"
BEGUN = datetime(2026, 5, 1, 9, tzinfo=UTC)


def demo_files(repository: Path, *names: str) -> list[tuple[str, bytes]]:
    folder = repository / "demo" / "documents"
    return [(name, (folder / name).read_bytes()) for name in names]


def fill(url: str, files: list[tuple[str, bytes]], said: Sequence[str]) -> None:
    """Makes the corpus and the memory, and waits for them."""
    with httpx.Client(base_url=url, timeout=300) as client:
        assert client.post("/v1/corpora", json={"name": CORPUS}).status_code == 201
        answer = client.post(f"/v1/corpora/{CORPUS}/documents", files=[("files", file) for file in files])
        assert answer.status_code == 202, answer.text
        assert ended(client, answer.json())["state"] == "done"
    remember(url, said)


def remember(url: str, said: Sequence[str]) -> None:
    """Deposits what was said, three things a day."""
    with httpx.Client(base_url=url, timeout=300) as client:
        for number, text in enumerate(said):
            at = BEGUN + timedelta(days=number // 3, hours=4 * (number % 3))
            entry = {"text": text, "speaker": "Ana", "time": f"{at:%Y-%m-%dT%H:%M:%SZ}"}
            answer = client.post("/v1/memories/me/deposits", json=entry)
            assert answer.status_code == 200, answer.text


def diary() -> list[str]:
    """Some eighty things to remember, of all domains and among them a group that emerges; always in the same order."""
    lines = Path(__file__).with_name("diary.txt").read_text(encoding="utf-8").splitlines()
    said = [line for line in lines if line and not line.startswith("#")]
    random.Random(0).shuffle(said)
    return said
