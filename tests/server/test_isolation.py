"""Whatever users do, in whatever order: nothing of one is ever in an answer to another, or in another's folder.

Each user speaks with words of their own. What a user may do is a list of acts, so that further ones are a line each.
"""

import json
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st
from remembered import DEPOSITS, ME, bytes_below, counting_services
from served import USER, users_of

from precog.records import ModelChoice
from precog.server.principal import Principal
from precog.server.services import Services

WORDS = {"ana": ("quokka", "zephyr"), "ben": ("walrus", "indigo"), "cyd": ("ocelot", "marzipan")}
"""Of each user, and of nobody else."""
TIMES = ("2021-03-04T05:06:07Z", "2022-03-04T05:06:07Z", None)


@dataclass
class Traffic:
    """One server, and what its users have been answered.

    Attributes:
        client: asks it.
        archives: what each user has exported last.
        said: how many things.
    """

    client: TestClient
    archives: dict[str, bytes] = field(default_factory=dict)
    said: int = 0

    def ask(self, user: str, method: str, path: str, **request: Any) -> Any:
        """Asks, and looks through the answer for the words of others."""
        answer = self.client.request(method, path, headers={USER: user}, **request)
        assert answer.status_code < 500, (method, path, answer.text)
        check_clean(user, answer.content + json.dumps(dict(answer.headers)).encode())
        return answer

    def sentence(self, user: str, pick: int) -> str:
        self.said += 1
        word = WORDS[user][pick % 2]
        return f"My {word} number {self.said} lives in the {WORDS[user][(pick + 1) % 2]}."


def check_clean(user: str, data: bytes) -> None:
    """That nothing of anybody else's is in it."""
    found = data.lower()
    for other, words in WORDS.items():
        for word in words if other != user else ():
            assert word.encode() not in found, (user, other, data[:500])


Act = Callable[[Traffic, str, int], object]


def remember(traffic: Traffic, user: str, pick: int) -> None:
    words = {"text": traffic.sentence(user, pick), "speaker": user, "time": TIMES[pick % 3]}
    assert traffic.ask(user, "POST", DEPOSITS, json=words).status_code == 200


def remember_the_same_day(traffic: Traffic, user: str, pick: int) -> None:
    lines = f"speaker: {traffic.sentence(user, pick)}\nother: {traffic.sentence(user, pick + 1)}\n"
    traffic.ask(user, "POST", f"{ME}/transcripts", files={"file": ("talk.txt", lines)})


def recall(traffic: Traffic, user: str, pick: int) -> None:
    other = sorted(WORDS)[pick % 3]  # of somebody's, whoever it is, by what anybody might say
    asked = {"query": f"My animal number {pick} lives in the {'house' if other != user else WORDS[user][0]}."}
    traffic.ask(user, "POST", f"{ME}/recall", json=asked)


def chat(traffic: Traffic, user: str, pick: int) -> None:
    free = pick % 2 == 0
    asked: dict[str, Any] = {
        "utterance": "Where does my animal live?" if pick % 3 else traffic.sentence(user, pick),
        "options": {"free": free, "always_answer": not free, "speaker": "me"},
        "stream": free and pick % 4 == 0,
    }
    traffic.ask(user, "POST", f"{ME}/chat", json=asked)


def look(traffic: Traffic, user: str, pick: int) -> None:
    path = (ME, DEPOSITS, f"{DEPOSITS}/{pick}", f"{ME}/map?method=pca", f"{DEPOSITS}?speaker=ana", "/v1/models")[
        pick % 6
    ]
    traffic.ask(user, "GET", path)


def look_at_another(traffic: Traffic, user: str, pick: int) -> None:
    other = sorted(WORDS)[pick % 3]
    if other != user:
        method, path = (("GET", DEPOSITS), ("GET", f"{ME}/export"), ("DELETE", ME))[pick % 3]
        assert traffic.ask(user, method, path, params={"user": other}).status_code == 403


def forget(traffic: Traffic, user: str, pick: int) -> None:
    ways: tuple[dict[str, Any], ...] = (
        {"ids": [1 + pick % 5]},
        {"all": True},
        {"before": "2021-12-31"},
        {"query": WORDS[user][0]},
    )
    traffic.ask(user, "POST", f"{ME}/forget", json={**ways[pick % len(ways)], "proof": pick % 3 == 0})


def supersede(traffic: Traffic, user: str, pick: int) -> None:
    traffic.ask(user, "POST", f"{ME}/supersede", json={"old": 1 + pick % 3, "new": 1 + pick % 4})


def export(traffic: Traffic, user: str, pick: int) -> None:
    answer = traffic.ask(user, "GET", f"{ME}/export")
    if answer.status_code == 200:
        traffic.archives[user] = answer.content


def load(traffic: Traffic, user: str, pick: int) -> None:
    if user in traffic.archives:
        file = {"file": ("memory.jsonl", traffic.archives[user])}
        assert traffic.ask(user, "POST", f"{ME}/import", files=file).status_code in (200, 400)


def purge(traffic: Traffic, user: str, pick: int) -> None:
    traffic.ask(user, "DELETE", ME)


ACTS: tuple[Act, ...] = (
    remember,
    remember,
    remember_the_same_day,
    recall,
    chat,
    look,
    look_at_another,
    forget,
    supersede,
    export,
    load,
    purge,
)
FOLDERS: tuple[Callable[[Services, str], Path], ...] = (
    lambda services, user: services.tenant(Principal(user, frozenset())).memory,
    lambda services, user: services.tenant(Principal(user, frozenset())).folder,
)
"""Of one user each: all that is ever written for them."""


@contextmanager
def traffic_of(folder: Path, choice: ModelChoice) -> Iterator[tuple[Services, Traffic]]:
    with counting_services(folder, choice) as services, users_of(services, "read", "write") as client:
        yield services, Traffic(client)


def check_folders(services: Services) -> None:
    for user in WORDS:
        for folder_of in FOLDERS:
            check_clean(user, bytes_below(folder_of(services, user)))
    everywhere = str([path.name for path in services.settings.home.rglob("*")])
    for user in WORDS:
        assert user not in everywhere


def check_metrics(services: Services) -> None:
    check_clean("nobody", services.metrics.text())
    for user in WORDS:
        assert f'"{user}"'.encode() not in services.metrics.text()


acts = st.tuples(st.sampled_from(ACTS), st.sampled_from(sorted(WORDS)), st.integers(0, 59))


@settings(max_examples=6)
@given(steps=st.lists(acts, min_size=4, max_size=14))
def test_nothing_of_a_user_reaches_another(choice: ModelChoice, steps: list[tuple[Act, str, int]]) -> None:
    with tempfile.TemporaryDirectory() as name, traffic_of(Path(name), choice) as (services, traffic):
        for act, user, pick in steps:
            act(traffic, user, pick)
        for user in WORDS:
            for path in (ME, DEPOSITS, f"{ME}/export"):
                traffic.ask(user, "GET", path)
        check_folders(services)
        check_metrics(services)


of_a_user = st.lists(st.tuples(st.sampled_from(ACTS), st.integers(0, 59)), min_size=3, max_size=8)


@settings(max_examples=3)
@given(steps=st.tuples(of_a_user, of_a_user, of_a_user))
def test_nothing_of_a_user_reaches_another_at_the_same_time(
    choice: ModelChoice, steps: tuple[list[tuple[Act, int]], ...]
) -> None:
    def go(traffic: Traffic, user: str, own: list[tuple[Act, int]]) -> None:
        for act, pick in own:
            act(traffic, user, pick)

    with tempfile.TemporaryDirectory() as name, traffic_of(Path(name), choice) as (services, traffic):
        with ThreadPoolExecutor(len(WORDS)) as pool:
            done = [pool.submit(go, traffic, user, own) for user, own in zip(sorted(WORDS), steps, strict=True)]
        for one in done:
            one.result()
        check_folders(services)
        check_metrics(services)


def test_what_leaks_would_be_found(choice: ModelChoice, tmp_path: Path) -> None:
    with traffic_of(tmp_path, choice) as (services, traffic):
        remember(traffic, "ana", 0)
        found = traffic.ask("ana", "GET", DEPOSITS)
        for leaked in (found.content, bytes_below(FOLDERS[0](services, "ana"))):
            for user, is_own in (("ana", True), ("ben", False)):
                try:
                    check_clean(user, leaked)
                except AssertionError:
                    assert not is_own
                else:
                    assert is_own
