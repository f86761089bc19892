"""Corpora, jobs, searches and responses of users with keys of their own: nothing of one reaches another."""

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corpora_of import ended
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st
from remembered import DEPOSITS, ME, bytes_below, counting_services
from served import client_of
from test_isolation import WORDS, check_clean, check_folders, check_metrics

from precog.records import ModelChoice
from precog.server.keys import KeyRing
from precog.server.services import Services


@dataclass
class User:
    """One of those who ask, with a key of the server's.

    Attributes:
        name: whose words are used.
        client: sends the key.
        jobs: ids that were answered to this user.
        responses: likewise.
    """

    name: str
    client: TestClient
    jobs: list[str] = field(default_factory=list)
    responses: list[str] = field(default_factory=list)

    def ask(self, method: str, path: str, **request: Any) -> Any:
        """Asks, and looks through the answer for the words of others."""
        answer = self.client.request(method, path, **request)
        assert answer.status_code < 500, (method, path, answer.text)
        check_clean(self.name, answer.content + str(answer.headers).encode())
        return answer

    def sentence(self, pick: int) -> str:
        first, second = WORDS[self.name]
        return f"My {first} number {pick} lives in the {second}."


@contextlib.contextmanager
def users_of(services: Services) -> Iterator[list[User]]:
    """A user for each of the words, through the guard."""
    ring = KeyRing(services.settings.data)
    with contextlib.ExitStack() as stack:
        found = []
        for name in sorted(WORDS):
            token = ring.create(name, ("read", "write"))[1]
            client = stack.enter_context(client_of(services, Authorization=f"Bearer {token}"))
            found.append(User(name, client))
        yield found


Act = Callable[[User, User, int], object]
"""Of a user, beside another one."""


def make_corpus(user: User, other: User, pick: int) -> None:
    assert user.ask("POST", "/v1/corpora", json={"name": "notes", "chunk_tokens": 32}).status_code in (201, 409)


def ingest(user: User, other: User, pick: int) -> None:
    make_corpus(user, other, pick)
    files = {"files": (f"{user.name}-{pick % 3}.txt", user.sentence(pick))}
    job = user.ask("POST", "/v1/corpora/notes/documents", files=files)
    assert job.status_code == 202
    assert ended(user.client, job.json())["state"] == "done"
    user.jobs.append(job.json()["id"])


def look(user: User, other: User, pick: int) -> None:
    paths = (
        "/v1/corpora",
        "/v1/corpora/notes",
        "/v1/corpora/notes/documents",
        "/v1/corpora/notes/failures",
        "/v1/jobs",
    )
    user.ask("GET", paths[pick % len(paths)])


def search(user: User, other: User, pick: int) -> None:
    asked = {"query": f"Where does animal number {pick} live?"}
    user.ask("POST", "/v1/corpora/notes/search", json=asked)


def ask(user: User, other: User, pick: int) -> None:
    asked = {"question": f"Where does animal number {pick} live?", "always_answer": True, "stream": pick % 2 == 0}
    user.ask("POST", "/v1/corpora/notes/ask", json=asked)


def chat(user: User, other: User, pick: int) -> None:
    extension = ({"corpus": "notes"}, {"memory": True}, {"memory": True, "corpus": "notes"})[pick % 3]
    said = [{"role": "user", "content": user.sentence(pick) if pick % 4 == 0 else "Where does my animal live?"}]
    body = {"model": "tiny", "messages": said, "max_tokens": 4, "precog": {**extension, "always_answer": True}}
    user.ask("POST", "/v1/chat/completions", json=body)


def respond(user: User, other: User, pick: int) -> None:
    previous = user.responses[pick % len(user.responses)] if user.responses and pick % 2 else None
    extension = ({}, {"corpus": "notes"}, {"memory": True})[pick % 3]
    body = {"model": "tiny", "input": user.sentence(pick), "previous_response_id": previous, "max_output_tokens": 4}
    answer = user.ask("POST", "/v1/responses", json={**body, "precog": extension})
    if answer.status_code == 200:
        user.responses.append(answer.json()["id"])


def remember(user: User, other: User, pick: int) -> None:
    assert user.ask("POST", DEPOSITS, json={"text": user.sentence(pick)}).status_code == 200


def take_what_is_anothers(user: User, other: User, pick: int) -> None:
    """What another has answers as what nobody has, word for word."""
    for mine, nobody in (
        *((f"/v1/jobs/{one}", "/v1/jobs/{}") for one in other.jobs[-2:]),
        *((f"/v1/jobs/{one}/events", "/v1/jobs/{}/events") for one in other.jobs[-1:]),
        *((f"/v1/responses/{one}", "/v1/responses/{}") for one in other.responses[-2:]),
        *((f"/v1/responses/{one}/input_items", "/v1/responses/{}/input_items") for one in other.responses[-1:]),
    ):
        method = "GET" if pick % 2 or mine.endswith(("events", "input_items")) else "DELETE"
        identifier = mine.split("/")[3]
        unknown = identifier[:-6] + "000000"
        found, missing = user.ask(method, mine), user.ask(method, nobody.format(unknown))
        assert found.status_code == missing.status_code == 404
        assert found.text.replace(identifier, "") == missing.text.replace(unknown, "")
    if other.responses:
        body = {"model": "tiny", "input": "And?", "previous_response_id": other.responses[-1]}
        assert user.ask("POST", "/v1/responses", json=body).status_code == 404
    for path in ("/v1/corpora/notes", "/v1/jobs", "/v1/responses/resp_0", ME):
        assert user.ask("GET", path, params={"user": other.name}).status_code == 403
    chat = {"model": "tiny", "messages": [{"role": "user", "content": "Where?"}], "precog": {"user": other.name}}
    assert user.ask("POST", "/v1/chat/completions", json=chat).status_code == 403


def forget_document(user: User, other: User, pick: int) -> None:
    user.ask("DELETE", f"/v1/corpora/notes/documents/{user.name}-{pick % 3}.txt")


def delete(user: User, other: User, pick: int) -> None:
    paths = ("/v1/corpora/notes", ME, "/v1/responses", *(f"/v1/responses/{one}" for one in user.responses[:1]))
    user.ask("DELETE", paths[pick % len(paths)])


ACTS: tuple[Act, ...] = (
    ingest,
    ingest,
    look,
    search,
    ask,
    chat,
    chat,
    respond,
    respond,
    remember,
    take_what_is_anothers,
    take_what_is_anothers,
    forget_document,
    delete,
)
acts = st.tuples(st.sampled_from(ACTS), st.integers(0, 2), st.integers(1, 2), st.integers(0, 59))


@settings(max_examples=3)
@given(steps=st.lists(acts, min_size=6, max_size=16))
def test_nothing_of_a_user_reaches_another(choice: ModelChoice, steps: list[tuple[Act, int, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as name, counting_services(Path(name), choice) as services:
        with users_of(services) as users:
            for user in users:  # so that there is always something to reach for
                for act in (ingest, remember, respond):
                    act(user, user, 2)
            for act, who, step, pick in steps:
                act(users[who], users[(who + step) % len(users)], pick)
            for who, user in enumerate(users):
                take_what_is_anothers(user, users[who - 1], 1)
        check_folders(services)
        check_metrics(services)


def test_what_is_reached_for_is_there(choice: ModelChoice, tmp_path: Path) -> None:
    with counting_services(tmp_path, choice) as services, users_of(services) as users:
        user = users[0]
        ingest(user, user, 1)
        respond(user, user, 1)
        assert user.ask("GET", f"/v1/jobs/{user.jobs[0]}").status_code == 200
        assert user.ask("GET", f"/v1/responses/{user.responses[0]}").status_code == 200
        assert WORDS[user.name][0].encode() in bytes_below(services.tenant_of(user.name).corpora).lower()
        assert WORDS[user.name][0] in user.ask("POST", "/v1/corpora/notes/search", json={"query": "animal"}).text
