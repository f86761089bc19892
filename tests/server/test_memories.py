import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from corpora_of import events_of
from fastapi.testclient import TestClient
from remembered import DEPOSITS, ME, counting_services, said, texts
from served import USER, client_of, users_of

from precog.backbones import registry
from precog.errors import BusyError, CancelledError, DamagedCorpusError, MissingError, StorageError
from precog.memory.deposit import UNIT_DEPOSITS
from precog.memory.place import memory_folder
from precog.memory.utterance import Utterance
from precog.records import ModelChoice
from precog.server import remembering as remembering_module
from precog.server import user_memory
from precog.server.principal import SCOPES, Principal
from precog.server.remembering import remember_all
from precog.server.services import Services
from precog.server.user_memory import UserMemory
from precog.server.work import Job
from precog.store.memory import MemoryStore


@pytest.fixture
def remembering(tmp_path: Path, choice: ModelChoice) -> Iterator[Services]:
    with counting_services(tmp_path, choice) as made:
        yield made


@pytest.fixture
def client(remembering: Services) -> Iterator[TestClient]:
    with client_of(remembering) as made:
        yield made


def folder_of(services: Services, user: str = "local") -> Path:
    return memory_folder(services.settings.home, user)


def test_where_nothing_is_remembered_there_is_no_memory(client: TestClient, remembering: Services) -> None:
    for path in (ME, DEPOSITS, f"{DEPOSITS}/1", f"{ME}/map", f"{ME}/export"):
        answer = client.get(path)
        assert answer.status_code == 404, path
        assert answer.json()["error"]["message"] == "nothing is remembered"
    assert client.post(f"{ME}/recall", json={"query": "what?"}).status_code == 404
    assert client.post(f"{ME}/forget", json={"all": True}).status_code == 404
    assert client.delete(ME).status_code == 404
    assert not folder_of(remembering).exists()


def test_what_is_said_is_listed_shown_and_recalled(client: TestClient) -> None:
    first = said(client, "I moved to Lisbon.", speaker="Ana", place="Porto", time="2024-05-01T10:00:00Z", importance=2)
    second = said(client, "My dog is called Rex.", speaker="Ben", time=1_714_557_600)
    listed = client.get(DEPOSITS).json()
    assert [entry["id"] for entry in listed["deposits"]] == [first, second]
    assert listed["total"] == 2
    assert listed["older"] is None
    shown = client.get(f"{DEPOSITS}/{first}").json()
    assert shown["speaker"] == "Ana"
    assert "Ana" in shown["header"]
    assert shown["positions"]
    found = client.post(f"{ME}/recall", json={"query": "my dog is called", "top_k": 1}).json()
    assert [entry["id"] for entry in found["evidence"]] == [second]
    assert client.get(ME).json()["num_deposits"] == 2


def test_stats_name_the_model_but_not_where_it_lies(client: TestClient, choice: ModelChoice) -> None:
    said(client, "I moved to Lisbon in May.")
    answer = client.get(ME)
    assert answer.json()["settings"]["model"] == Path(choice.name).name
    assert choice.name not in answer.text


def test_a_memory_and_a_corpus_name_their_model_as_it_is_installed(
    client: TestClient, choice: ModelChoice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "installed_models", lambda: {"small-1": Path(choice.name)})
    said(client, "I moved to Lisbon in May.")
    assert client.get(ME).json()["settings"]["model"] == "small-1"
    assert client.post("/v1/corpora", json={"name": "papers"}).json()["model"] == "small-1"


def test_the_same_is_remembered_once(client: TestClient) -> None:
    words = {"text": "I moved to Lisbon.", "time": "2024-05-01T10:00:00Z"}
    answers = [client.post(DEPOSITS, json=words).json() for _ in range(2)]
    assert answers[0]["ids"] == answers[1]["ids"]
    assert [answer["duplicates"] for answer in answers] == [0, 1]


def test_lists_have_pages_that_lead_to_the_first_deposit(client: TestClient) -> None:
    numbers = [said(client, f"Word{n} was said.", speaker="Ana" if n % 2 else "Ben") for n in range(5)]
    seen: list[int] = []
    before = None
    while True:
        page = client.get(DEPOSITS, params={"limit": 2, **({"before": before} if before else {})}).json()
        assert page["total"] == 5
        seen = [entry["id"] for entry in page["deposits"]] + seen
        before = page["older"]
        if before is None:
            break
    assert seen == numbers
    assert [entry["id"] for entry in client.get(DEPOSITS, params={"speaker": "Ana"}).json()["deposits"]] == numbers[
        1::2
    ]


def test_a_transcript_is_remembered_and_tells_how_far_it_is(client: TestClient) -> None:
    file = {"file": ("talk.txt", "Ana: hello there\nBen: good morning to you\nAna: the train is late\n")}
    done = client.post(f"{ME}/transcripts", files=file).json()
    assert len(done["ids"]) == 3
    again = client.post(f"{ME}/transcripts", files=file, data={"stream": "true"})
    events = events_of(again.text)
    assert [data for name, data in events if name == "progress"][-1] == {"turns": 3, "total": 3}
    assert dict(events)["done"]["duplicates"] == 3


def test_a_file_that_is_no_transcript_changes_nothing(client: TestClient) -> None:
    said(client, "I moved to Lisbon.")
    file = {"file": ("talk.bin", b"\x00\x01\x02\xff" * 50)}
    assert client.post(f"{ME}/transcripts", files=file).status_code == 400
    assert client.post(f"{ME}/transcripts", files=file, data={"stream": "true"}).status_code == 400
    assert texts(client) == ["I moved to Lisbon."]


def test_chat_answers_from_what_was_said_and_remembers_statements(client: TestClient) -> None:
    told = client.post(f"{ME}/chat", json={"utterance": "I moved to Lisbon."}).json()
    assert told["remembered"] == 1
    asked = client.post(f"{ME}/chat", json={"utterance": "Where did I move to?", "options": {"always_answer": True}})
    reply = asked.json()
    assert reply["remembered"] is None
    assert reply["evidence"][0]["text"] == "I moved to Lisbon."
    assert reply["text"] in "I moved to Lisbon."
    assert reply["start"]["domain"]
    again = client.post(f"{ME}/chat", json={"utterance": "Where did I move to?", "options": {"always_answer": True}})
    same = ("text", "evidence", "composition", "confidence", "tokens_processed")
    assert {key: reply[key] for key in same} == {key: again.json()[key] for key in same}


def test_a_free_answer_comes_in_pieces_that_make_the_whole(client: TestClient) -> None:
    said(client, "I moved to Lisbon.")
    asked = {"utterance": "Where did I move to?", "options": {"free": True}, "stream": True}
    events = events_of(client.post(f"{ME}/chat", json=asked).text)
    pieces = [data["text"] for name, data in events if name == "delta"]
    whole = events[-1][1]
    assert events[-1][0] == "done"
    assert len(pieces) > 1
    assert whole["text"].startswith("".join(pieces).strip()[:10])
    assert client.post(f"{ME}/chat", json={"utterance": "Where?", "stream": True}).status_code == 400


def test_chat_forgets_at_once_what_is_forgotten(client: TestClient) -> None:
    number = said(client, "I moved to Lisbon.")
    said(client, "I like rain.")
    client.post(f"{ME}/forget", json={"ids": [number]})
    reply = client.post(f"{ME}/chat", json={"utterance": "Where did I move to?", "options": {"always_answer": True}})
    assert "Lisbon" not in reply.text


def test_what_is_superseded_is_history(client: TestClient) -> None:
    old, new = said(client, "I live in Porto."), said(client, "I live in Lisbon.")
    assert client.post(f"{ME}/supersede", json={"old": old, "new": new}).json() == {"superseded": old, "by": new}
    found = client.post(f"{ME}/recall", json={"query": "I live in Porto."}).json()
    assert [entry["id"] for entry in found["evidence"]] == [new]
    assert client.get(f"{DEPOSITS}/{old}").json()["superseded_by"] == new
    assert client.post(f"{ME}/supersede", json={"old": old, "new": new}).status_code == 400
    assert client.post(f"{ME}/supersede", json={"old": 9, "new": new}).status_code == 400


@pytest.mark.parametrize("compressed", [False, True])
def test_an_archive_goes_out_and_in_again(client: TestClient, compressed: bool) -> None:
    said(client, "I moved to Lisbon.", speaker="Ana")
    said(client, "My dog is called Rex.", speaker="Ben")
    before = client.get(DEPOSITS).json()["deposits"]
    archive = client.get(f"{ME}/export", params={"compressed": compressed}).content
    assert client.delete(ME).json()["purged"] is True
    assert client.get(ME).status_code == 404
    file = {"file": ("memory.jsonl", archive)}
    assert client.post(f"{ME}/import", files=file).json()["duplicates"] == 0
    assert client.get(DEPOSITS).json()["deposits"] == before
    assert client.post(f"{ME}/import", files=file).json()["duplicates"] == 2


def test_a_damaged_archive_changes_nothing(client: TestClient, remembering: Services) -> None:
    said(client, "I moved to Lisbon.")
    archive = client.get(f"{ME}/export").content
    client.delete(ME)
    for damaged in (
        archive[:-20],
        b"",
        b"{}",
        archive.replace(b'"deposits": 1', b'"deposits": 7'),
        b"\x1f\x8b" + archive,
    ):
        answer = client.post(f"{ME}/import", files={"file": ("memory.jsonl", damaged)})
        assert answer.status_code == 400, answer.text
    assert not folder_of(remembering).exists()


def test_a_map_lays_out_what_is_remembered(client: TestClient) -> None:
    for text in ("I moved to Lisbon.", "My dog is called Rex.", "I am worried about my exam."):
        said(client, text)
    drawn = client.get(f"{ME}/map", params={"method": "pca"}).json()
    assert sum(drawn["deposits"].values()) == 3
    assert sum(len(panel["points"]) for panel in drawn["panels"]) == 3
    assert client.get(f"{ME}/map", params={"domain": "nowhere"}).status_code == 400


def test_without_scikit_learn_a_map_says_what_is_missing(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    said(client, "I moved to Lisbon.")
    monkeypatch.setitem(__import__("sys").modules, "sklearn.cluster", None)
    answer = client.get(f"{ME}/map")
    assert answer.status_code == 400
    assert "precog-ssm[memory]" in answer.json()["error"]["hint"]


def test_of_two_writers_at_once_nothing_is_lost(client: TestClient) -> None:
    said(client, "The first of all.")
    answers: list[int] = []

    def write(name: str) -> None:
        answers.extend(said(client, f"{name} says number {n}.") for n in range(4))

    threads = [threading.Thread(target=write, args=(name,)) for name in ("Ana", "Ben")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(answers)) == 8
    assert sorted(texts(client)) == sorted(
        ["The first of all.", *(f"{name} says number {n}." for name in ("Ana", "Ben") for n in range(4))]
    )


def test_a_writer_that_waits_too_long_is_told_to_come_again(
    client: TestClient, remembering: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    said(client, "I moved to Lisbon.")
    monkeypatch.setattr(user_memory, "WAIT_SEC", 0.1)
    with MemoryStore.open(folder_of(remembering), write=True):
        answer = client.post(DEPOSITS, json={"text": "Something else."})
        assert answer.status_code == 409
        assert answer.headers["Retry-After"] == "1"
        assert str(remembering.settings.home) not in answer.text
        assert texts(client) == ["I moved to Lisbon."]
    said(client, "Something else.")


def test_users_have_memories_of_their_own(remembering: Services) -> None:
    with users_of(remembering, "read", "write") as client:
        number = said(client, "My secret is zebra.", "ana")
        assert texts(client, "ben") == []
        said(client, "I like rain.", "ben")
        ben = {USER: "ben"}
        assert client.get(f"{DEPOSITS}/{number + 1}", headers=ben).status_code == 404
        assert "zebra" not in client.post(f"{ME}/recall", json={"query": "My secret is"}, headers=ben).text
        for answer in (
            client.get(ME, params={"user": "ana"}, headers=ben),
            client.delete(f"{ME}?user=ana", headers=ben),
        ):
            assert answer.status_code == 403
        assert client.delete(ME, headers=ben).status_code == 200
        assert texts(client, "ana") == ["My secret is zebra."]


def test_an_administrator_may_name_another_user(remembering: Services) -> None:
    with users_of(remembering) as client:
        said(client, "My secret is zebra.", "ana")
        found = client.get(DEPOSITS, params={"user": "ana"}, headers={USER: "root"}).json()
        assert [entry["text"] for entry in found["deposits"]] == ["My secret is zebra."]


def test_a_key_that_only_reads_changes_nothing(remembering: Services) -> None:
    with users_of(remembering) as client:
        said(client, "I moved to Lisbon.", "ana")
    with users_of(remembering, "read") as client:
        ana = {USER: "ana"}
        asks = [
            client.post(DEPOSITS, json={"text": "More."}, headers=ana),
            client.post(f"{ME}/forget", json={"all": True}, headers=ana),
            client.post(f"{ME}/chat", json={"utterance": "I like rain."}, headers=ana),
            client.delete(ME, headers=ana),
        ]
        assert [answer.status_code for answer in asks] == [403] * 4
        quiet = {"utterance": "Where did I move to?", "options": {"remember": "nothing"}}
        assert client.post(f"{ME}/chat", json=quiet, headers=ana).status_code == 200
        assert texts(client, "ana") == ["I moved to Lisbon."]


def test_an_import_that_its_client_leaves_keeps_whole_units_and_goes_on(remembering: Services) -> None:
    memory = UserMemory(remembering, Principal("local", frozenset(SCOPES)))
    turns = [Utterance(f"Word{n} was said.", None, "Ana") for n in range(2 * UNIT_DEPOSITS)]
    job = Job(lambda event: None)

    def leave(count: int) -> None:
        if count == UNIT_DEPOSITS + 5:
            job.cancelled.set()

    with pytest.raises(CancelledError):
        remember_all(memory, job, turns, 0.0, on_turn=leave)
    with memory.reading() as store:
        assert len(list(store.deposits())) == UNIT_DEPOSITS
    done = remember_all(memory, Job(lambda event: None), turns, 0.0)
    assert done.duplicates == UNIT_DEPOSITS
    with memory.reading() as store:
        assert [entry.info.text for entry in store.deposits()] == [turn.text for turn in turns]


def test_readers_do_not_hinder_forgetting(client: TestClient) -> None:
    kept = said(client, "I like rain.")
    statuses: set[int] = set()
    stopped = threading.Event()

    def read() -> None:
        while not stopped.is_set():
            statuses.add(client.get(DEPOSITS).status_code)
            statuses.add(client.post(f"{ME}/recall", json={"query": "What do I like?"}).status_code)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        for n in range(4):
            number = said(client, f"Secret number {n}.")
            done = client.post(f"{ME}/forget", json={"ids": [number], "proof": True})
            assert done.status_code == 200, done.text
            assert done.json()["complete"] is True
    finally:
        stopped.set()
        thread.join()
    assert statuses == {200}
    assert [entry["id"] for entry in client.get(DEPOSITS).json()["deposits"]] == [kept]


def test_what_is_purged_under_a_reader_reads_like_nothing(client: TestClient, remembering: Services) -> None:
    memory = UserMemory(remembering, Principal("local", frozenset(SCOPES)))

    def read_while(change: Callable[[], object]) -> None:
        with memory.reading():
            change()
            raise DamagedCorpusError("as what is gone reads")

    said(client, "I moved to Lisbon.")
    with pytest.raises(MissingError, match="nothing is remembered"):
        read_while(lambda: client.delete(ME))
    said(client, "I like rain.")
    with pytest.raises(BusyError, match="replaced meanwhile"):
        read_while(lambda: (client.delete(ME), said(client, "I like snow.")))
    with pytest.raises(DamagedCorpusError):
        read_while(lambda: None)


def test_work_that_fails_half_way_says_so_in_its_stream(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr(remembering_module, "told_of", fail)
    file = {"file": ("talk.txt", "Ana: hello there\nBen: good morning to you\n")}
    events = events_of(client.post(f"{ME}/transcripts", files=file, data={"stream": "true"}).text)
    assert [name for name, _ in events] == ["progress", "progress", "error"]
    assert events[-1][1]["error"]["message"] == "the disk is full"
