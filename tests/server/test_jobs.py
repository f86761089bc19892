"""Jobs: followed, stopped, taken up again, and in turn."""

import json
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from corpora_of import (
    ANTARCTICA,
    FORGETTING,
    MALTA,
    code_of,
    ended,
    events_of,
    files_below,
    filled,
    make,
    upload,
)
from fastapi.testclient import TestClient
from served import USER, client_of, listening, services_of, settings_in, users_of

from precog.encoders import Encoder
from precog.errors import CancelledError, LimitError, StorageError
from precog.records import ModelChoice
from precog.server.corpora import create
from precog.server.job import INGEST, REINDEX, Job, JobRecord
from precog.server.job_folder import new_job_folder
from precog.server.job_work import JobWork
from precog.server.jobs import MOST_UNFINISHED, Jobs
from precog.server.open_corpora import OpenCorpora
from precog.server.principal import Principal
from precog.server.services import Services
from precog.server.tenant import Tenant

LONG = "\n\n".join(
    f"Paragraph {number} tells of island {number}, of its lighthouse, of its keeper and of the ships that pass it by."
    for number in range(60)
)


class Gate:
    """Holds an ingest where it opens a document of some name."""

    def __init__(self) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()

    def wait(self, job: Job) -> None:
        self.reached.set()
        while not self.opened.wait(0.01):
            job.look()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    made, reading = Gate(), Job.reading

    def held(job: Job, document: str) -> None:
        reading(job, document)
        if document == "held.txt":
            made.wait(job)

    monkeypatch.setattr(Job, "reading", held)
    yield made
    made.opened.set()


def test_whoever_is_told_that_a_job_has_ended_finds_nothing_left_of_it(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, tell = [], Job.tell

    def look(job: Job) -> None:
        if job.record.has_ended:
            found.append([path.name for path in job.folder.iterdir()])
        tell(job)

    monkeypatch.setattr(Job, "tell", look)
    filled(client)
    assert found == [["job.json"]]


def test_a_job_is_followed_on_a_port_until_its_report(services: Services, gate: Gate) -> None:
    with listening(services) as url, httpx.Client(base_url=url, timeout=300) as client:
        make(client)
        job = upload(client, long_txt=LONG, held_txt=MALTA)
        with client.stream("GET", f"/v1/jobs/{job['id']}/events") as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            text = ""
            for piece in answer.iter_text():
                text += piece
                if '"document":"held.txt"' in text:
                    gate.opened.set()
        events = events_of(text)
    assert {name for name, _ in events[:-1]} == {"progress"}
    name, last = events[-1]
    assert (name, last["state"], last["report"]["documents"]["new"]) == ("done", "done", 2)
    seen = [data["progress"] for _, data in events]
    assert [one["done"] for one in seen] == sorted(one["done"] for one in seen)
    assert seen[-1]["done"] == seen[-1]["total"] == len(LONG) + len(MALTA)
    assert any(one["tokens"] > 0 and one["tokens_per_sec"] > 0 for one in seen)
    assert all((one["tokens_total"], one["eta_sec"]) == (None, None) for one in seen if not one["tokens"])
    assert all(one["tokens"] <= one["tokens_total"] for one in seen if one["tokens"])
    assert seen[-1]["tokens"] == seen[-1]["tokens_total"] == last["report"]["tokens"]
    assert seen[-1]["eta_sec"] is None


def test_the_events_of_a_job_that_has_ended_are_its_end(client: TestClient) -> None:
    job = filled(client)
    [(name, data)] = events_of(client.get(f"/v1/jobs/{job['id']}/events").text)
    assert (name, data) == ("done", job)
    assert code_of(client.get("/v1/jobs/job_0/events")) == (404, "missing")


def test_whoever_follows_a_job_is_told_that_the_server_stops(services: Services, gate: Gate) -> None:
    with listening(services) as url, httpx.Client(base_url=url, timeout=300) as client:
        make(client)
        job = upload(client, held_txt=MALTA)
        assert gate.reached.wait(300)
        told = []
        with client.stream("GET", f"/v1/jobs/{job['id']}/events") as answer:
            for line in answer.iter_lines():
                told.append(line)
                services.stopping.set()
    events = events_of("\n".join(told))
    assert [name for name, _ in events] == ["progress", "interrupted"]
    assert events[-1][1]["state"] == "running"


def test_a_cancelled_job_keeps_the_documents_it_has_finished(client: TestClient, gate: Gate, tmp_path: Path) -> None:
    make(client)
    job = upload(client, first_txt=LONG.replace("island", "lake"), long_txt=LONG, held_txt=MALTA)
    waiting = upload(client, later_txt=ANTARCTICA)
    assert gate.reached.wait(300)
    assert client.get(f"/v1/jobs/{job['id']}").json()["state"] == "running"
    assert client.delete(f"/v1/jobs/{waiting['id']}").json()["state"] == "cancelled"
    assert client.delete(f"/v1/jobs/{job['id']}").json()["state"] in ("stopping", "cancelled")
    assert ended(client, job)["state"] == "cancelled"
    [found] = client.get("/v1/corpora/papers/documents").json()["data"]
    assert (found["document"], found["status"]) == ("first.txt", "indexed")
    assert client.get("/v1/corpora/papers").json()["chunks"] == found["chunks"] >= 16
    assert [path.name for path in (tmp_path / "data").rglob("jobs/*/*")] == ["job.json"] * 2
    again = ended(client, upload(client, long_txt=LONG))
    assert again["report"]["documents"]["new"] == 1
    assert client.get("/v1/corpora/papers").json()["chunks"] == found["chunks"] + again["report"]["chunks"]
    assert client.delete(f"/v1/jobs/{job['id']}").json()["state"] == "cancelled"
    assert code_of(client.get(f"/v1/jobs/{job['id']}")) == (404, "missing")


def test_what_an_unfinished_document_replaces_stays(client: TestClient, gate: Gate) -> None:
    filled(client, long_txt=MALTA)
    job = upload(client, long_txt=LONG, held_txt=MALTA)
    assert gate.reached.wait(300)
    client.delete(f"/v1/jobs/{job['id']}")
    assert ended(client, job)["state"] == "cancelled"
    [found] = client.get("/v1/corpora/papers/documents").json()["data"]
    assert (found["document"], found["status"], found["bytes"]) == ("long.txt", "indexed", len(MALTA))
    [hit] = client.post("/v1/corpora/papers/search", json={"query": "Valletta", "top_k": 1}).json()["hits"]
    assert "Valletta" in hit["text"]


def test_a_job_that_fails_leaves_no_half_of_a_document(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Job.reading

    def failing(job: Job, document: str) -> None:
        reading(job, document)
        if document == "held.txt":
            raise StorageError("the disk is full")

    monkeypatch.setattr(Job, "reading", failing)
    make(client)
    job = ended(client, upload(client, long_txt=LONG, held_txt=MALTA))
    assert (job["state"], job["error"]["code"]) == ("failed", "storage")
    found = client.get("/v1/corpora/papers").json()
    assert (found["documents"], found["chunks"]) == (0, 0)


def test_a_job_that_is_cancelled_while_it_waits_to_go_on_leaves_nothing(
    choice: ModelChoice, encoder: Encoder, gate: Gate, tmp_path: Path
) -> None:
    settings = settings_in(tmp_path)
    with services_of(settings, choice, encoder) as services, client_of(services) as client:
        make(client)
        job = upload(client, long_txt=LONG, held_txt=MALTA)
        assert gate.reached.wait(300)
        services.jobs.close()  # as a server that stops does
        assert client.get("/v1/corpora/papers").json()["chunks"] >= 16
        assert client.delete(f"/v1/jobs/{job['id']}").json()["state"] == "stopping"
    with services_of(settings, choice, encoder) as services, client_of(services) as client:
        assert ended(client, job)["state"] == "cancelled"
        assert client.get("/v1/corpora/papers").json()["chunks"] == 0


def test_a_job_goes_on_after_the_server_was_killed(
    choice: ModelChoice, encoder: Encoder, gate: Gate, tmp_path: Path
) -> None:
    killed, copy = settings_in(tmp_path / "killed"), settings_in(tmp_path / "copy")
    with services_of(killed, choice, encoder) as services, client_of(services) as client:
        make(client)
        job = upload(client, long_txt=LONG, held_txt=MALTA)
        queued = upload(client, later_txt=ANTARCTICA)
        assert gate.reached.wait(300)
        shutil.copytree(killed.data, copy.data, ignore=shutil.ignore_patterns("lock"))  # what a kill would leave
    orphan = new_job_folder(next(copy.data.glob("users/*/jobs")), "job_orphan")
    (orphan / "000000").write_bytes(b"never acknowledged")
    gate.opened.set()
    with services_of(copy, choice, encoder) as services, client_of(services) as client:
        done = ended(client, job)
        assert (done["state"], done["resumed"]) == ("done", 1)
        assert done["report"]["documents"]["new"] == 2
        assert done["report"]["chunks"] < client.get("/v1/corpora/papers").json()["chunks"]
        assert (ended(client, queued)["state"], ended(client, queued)["resumed"]) == ("done", 0)
    assert not orphan.exists()
    assert {path.name for path in copy.data.rglob("jobs/*/*")} == {"job.json"}


def test_a_job_goes_on_after_the_server_was_stopped(
    choice: ModelChoice, encoder: Encoder, gate: Gate, tmp_path: Path
) -> None:
    settings = settings_in(tmp_path)
    with services_of(settings, choice, encoder) as services, client_of(services) as client:
        make(client)
        job = upload(client, long_txt=LONG, held_txt=MALTA)
        assert gate.reached.wait(300)
    gate.opened.set()
    with services_of(settings, choice, encoder) as services, client_of(services) as client:
        done = ended(client, job)
        assert (done["resumed"], done["report"]["documents"]["new"]) == (1, 2)
        assert client.get("/v1/corpora/papers").json()["documents"] == 2


def test_a_damaged_record_does_not_keep_the_server_from_starting(
    choice: ModelChoice, encoder: Encoder, tmp_path: Path
) -> None:
    settings = settings_in(tmp_path)
    with services_of(settings, choice, encoder) as services, client_of(services) as client:
        job = filled(client)
    [path] = settings.data.rglob("job.json")
    path.write_text('{"id": 3}')
    with services_of(settings, choice, encoder) as services, client_of(services) as client:
        assert client.get(f"/v1/jobs/{job['id']}").status_code == 404


def test_a_corpus_takes_its_jobs_with_it(client: TestClient, gate: Gate, tmp_path: Path) -> None:
    make(client)
    upload(client, held_txt=MALTA)
    upload(client, later_txt=ANTARCTICA)
    assert gate.reached.wait(300)
    assert client.delete("/v1/corpora/papers").status_code == 200
    assert client.get("/v1/jobs").json()["data"] == []
    assert files_below(tmp_path / "data") == FORGETTING


def test_what_waits_to_be_ingested_is_forgotten_too(services: Services, gate: Gate, tmp_path: Path) -> None:
    with users_of(services) as client:
        make(client)
        job = upload(client, held_txt=MALTA)
        assert gate.reached.wait(300)
        queued = upload(client, later_txt=ANTARCTICA, other_txt=MALTA)
        assert code_of(client.delete("/v1/corpora/papers/documents/held.txt")) == (409, "corpus.busy")
        forgotten = client.delete("/v1/corpora/papers/documents/later.txt")
        assert forgotten.json()["forgotten"] == ["later.txt"]
        gate.opened.set()
        ended(client, job)
        assert ended(client, queued)["documents"] == ["other.txt"]
        files = [path for path in (tmp_path / "data").rglob("*") if path.is_file()]
        assert not [path for path in files if b"Amundsen" in path.read_bytes() or b"later.txt" in path.read_bytes()]


def test_too_many_unfinished_jobs_are_refused_for_a_while(services: Services, gate: Gate) -> None:
    with users_of(services) as client:
        make(client)
        jobs = [upload(client, held_txt=MALTA) for _ in range(MOST_UNFINISHED)]
        refused = client.post("/v1/corpora/papers/documents", params={"name": "a"}, content=b"text")
        assert code_of(refused) == (429, "limit")
        assert int(refused.headers["retry-after"]) > 0
        assert client.post("/v1/corpora", json={"name": "papers"}, headers={USER: "bea"}).status_code == 201
        other = client.post(
            "/v1/corpora/papers/documents", params={"name": "a"}, content=b"text", headers={USER: "bea"}
        )
        assert other.status_code == 202
        for job in jobs:
            client.delete(f"/v1/jobs/{job['id']}")


def test_a_job_that_cannot_be_done_says_why(services: Services, client: TestClient) -> None:
    make(client)
    folder = services.tenant_of("local").own_corpus("papers")
    (folder / "000001" / "catalogue.sqlite").write_bytes(b"not a database at all" * 100)
    job = ended(client, upload(client, malta_txt=MALTA))
    assert (job["state"], job["error"]["code"]) == ("failed", "corpus.damaged")
    assert str(folder) not in json.dumps(job)


Queue = Callable[[str, str], Job]


@pytest.fixture
def line(tmp_path: Path) -> Iterator[tuple[Jobs, Queue, list[str], threading.Semaphore]]:
    """A queue whose jobs end one by one as they are let, in the order that is noted."""
    begun: list[str] = []
    let = threading.Semaphore(0)

    def work(job: Job) -> Mapping[str, object]:
        begun.append(f"{job.record.user} {job.record.corpus}")
        while not let.acquire(timeout=0.01):
            job.look()
        return {}

    jobs = Jobs(tmp_path / "users", work, most_running=1)
    jobs.open()

    def add(user: str, corpus: str) -> Job:
        return jobs.add(
            JobRecord.new(INGEST, user, corpus),
            lambda job_id: new_job_folder(tmp_path / "users" / user / "jobs", job_id),
        )

    yield jobs, add, begun, let
    jobs.close()


def test_users_take_turns(line: tuple[Jobs, Queue, list[str], threading.Semaphore]) -> None:
    _, add, begun, let = line
    made = [add("ana", "a"), add("ana", "b"), add("ana", "c"), add("bea", "a"), add("bea", "b")]
    done = threading.Event()
    with made[2].watched(lambda: done.set() if made[2].record.has_ended else None):
        for _ in made:
            let.release()
        assert done.wait(300)
    assert begun == ["ana a", "bea a", "ana b", "bea b", "ana c"]


def test_a_corpus_has_one_job_at_a_time(tmp_path: Path) -> None:
    at_work: list[str] = []
    both, let = threading.Barrier(3), threading.Event()

    def work(job: Job) -> Mapping[str, object]:
        at_work.append(job.record.corpus)
        if len(at_work) <= 2:
            both.wait(300)
        assert let.wait(300)
        return {}

    jobs = Jobs(tmp_path / "users", work, most_running=3)
    jobs.open()
    made = [JobRecord.new(INGEST, "ana", corpus) for corpus in ("a", "a", "b")]
    for record in made:
        jobs.add(record, lambda job_id: new_job_folder(tmp_path / "users" / "ana" / "jobs", job_id))
    both.wait(300)
    assert sorted(at_work) == ["a", "b"]
    assert jobs.find("ana", made[1].id).record.state == "queued"
    let.set()
    jobs.stop_all("ana", "a", 30.0)
    jobs.close()


def test_a_record_comes_back_as_it_was() -> None:
    record = replace(JobRecord.new(INGEST, "ana", "a"), paths=("/a",), report={"failures": [{"document": "x.txt"}]})
    assert JobRecord.from_json(json.loads(json.dumps(record.to_json()))) == record
    assert record.names("x.txt")
    assert not record.names("x")


def test_work_that_breaks_does_not_stop_the_queue(tmp_path: Path) -> None:
    def work(job: Job) -> Mapping[str, object]:
        if job.record.corpus == "a":
            raise ZeroDivisionError
        raise CancelledError("the model stopped by itself")

    jobs = Jobs(tmp_path / "users", work, most_running=1)
    jobs.open()
    codes = []
    for corpus in ("a", "b"):
        job = jobs.add(JobRecord.new(INGEST, "ana", corpus), lambda name: new_job_folder(tmp_path / "jobs", name))
        _wait_for(job)
        assert job.record.error is not None
        codes.append((job.record.state, job.record.error["code"]))
    assert codes == [("failed", "bug"), ("failed", "cancelled")]
    jobs.close()


def test_a_job_waits_for_a_model_that_is_busy(tmp_path: Path, choice: ModelChoice, encoder: Encoder) -> None:
    asked: list[int] = []

    def model(principal: Principal, stopped: threading.Event) -> ModelChoice:
        asked.append(1)
        if len(asked) < 3:
            raise LimitError("too many wait already", retry_after_sec=0.01)
        return choice

    settings = settings_in(tmp_path)
    corpora = OpenCorpora(encoder)
    jobs = Jobs(tmp_path / "users", JobWork(settings, model, encoder, corpora))
    jobs.open()
    create(Tenant(settings, "ana"), "a", choice, encoder, {})
    job = jobs.add(JobRecord.new(REINDEX, "ana", "a"), lambda name: new_job_folder(tmp_path / "jobs", name))
    _wait_for(job)
    assert (job.record.state, len(asked)) == ("done", 3)
    jobs.close()


def _wait_for(job: Job) -> None:
    changed = threading.Event()
    with job.watched(changed.set):
        while not job.record.has_ended:
            assert changed.wait(300)
            changed.clear()


def test_long_jobs_of_one_user_do_not_keep_another_waiting(tmp_path: Path) -> None:
    let, done = threading.Event(), threading.Event()

    def work(job: Job) -> Mapping[str, object]:
        if job.record.user == "ben":
            done.set()
        else:
            assert let.wait(300)
        return {}

    jobs = Jobs(tmp_path / "users", work)
    jobs.open()
    for user, corpus in (("ana", "a"), ("ana", "b"), ("ana", "c"), ("ben", "a")):
        folder = tmp_path / "users" / user / "jobs"
        jobs.add(JobRecord.new(INGEST, user, corpus), lambda job_id, folder=folder: new_job_folder(folder, job_id))  # type: ignore[misc]
    assert done.wait(300)
    assert not let.is_set()
    let.set()
    jobs.close()
