import json
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import openai
import pytest
from fastapi.testclient import TestClient
from handbook import make_corpus, official
from served import client_of, listening, services_of, settings_in

from precog.backbones.tenns.backbone import TennsBackbone
from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.model import build
from precog.encoders import Encoder
from precog.engine import FreeSettings, answer_inject, question_segment
from precog.errors import StorageError
from precog.records import ModelChoice
from precog.server import expiry
from precog.server.conversation import answered_segment
from precog.server.responding import state_of
from precog.server.services import Services
from precog.server.tenant import Tenant
from precog.store.responses import ResponseFolder

TURNS = ("Who found radium?", "And where was that?", "What came after it?")


@pytest.fixture
def api(services: Services) -> Iterator[openai.OpenAI]:
    with listening(services) as url, official(url) as made:
        yield made


def folder_of(services: Services, user: str = "local") -> ResponseFolder:
    return ResponseFolder(Tenant(services.settings, user).responses)


def bytes_below(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def make(client: TestClient, text: str = TURNS[0], **more: object) -> dict:
    sent = {"model": "tiny", "input": text, "max_output_tokens": 4, **more}
    answer = client.post("/v1/responses", json=sent)
    assert answer.status_code == 200, answer.text
    found: dict = answer.json()
    return found


def test_a_chain_across_a_restart_is_one_reading(tmp_path: Path, choice: ModelChoice, encoder: Encoder) -> None:
    model = choice.loaded
    assert model is not None
    read: list[int] = []
    previous = None
    for turn in TURNS:  # each turn has a server of its own
        settings = settings_in(tmp_path)
        with (
            services_of(settings, choice, encoder) as services,
            listening(services) as url,
            official(url) as api,
        ):
            made = api.responses.create(model="tiny", input=turn, max_output_tokens=5, previous_response_id=previous)
        state = model.prefill(read)[0].at_boundary() if read else model.empty_state()
        expected = answer_inject(model, state, question_segment(model, turn), settings=FreeSettings(5))
        assert made.output_text == model.tokenizer.decode(expected.token_ids).strip()
        assert made.usage is not None
        assert made.usage.input_tokens == len(read) + len(question_segment(model, turn))
        assert made.usage.input_tokens_details.cached_tokens == len(read)
        # the question and its answer, to say it and to keep it: nothing of what came before
        segment = answered_segment(model, turn, made.output_text)
        assert made.model_extra["precog"]["tokens_processed"] == len(question_segment(model, turn)) + 5 + len(segment)
        read += segment
        previous = made.id


def test_a_chain_says_what_the_whole_conversation_says(api: openai.OpenAI) -> None:
    messages: list[dict] = [{"role": "system", "content": "The sky is grey."}]
    previous = None
    for number, turn in enumerate(TURNS):
        given = [*messages, {"role": "user", "content": turn}] if number == 0 else turn
        made = api.responses.create(
            model="tiny",
            input=given,  # type: ignore[arg-type]  # messages
            max_output_tokens=5,
            previous_response_id=previous,
        )
        messages.append({"role": "user", "content": turn})
        whole = api.chat.completions.create(model="tiny", messages=messages, max_tokens=5)  # type: ignore[arg-type]  # as dicts
        assert made.output_text == whole.choices[0].message.content
        messages.append({"role": "assistant", "content": made.output_text})
        previous = made.id


def test_a_stored_state_is_that_of_one_pass(client: TestClient, services: Services) -> None:
    first = make(client)
    second = make(client, TURNS[1], previous_response_id=first["id"])
    model = services.scheduler.backbone
    read = [
        *answered_segment(model, TURNS[0], first["output"][0]["content"][0]["text"]),
        *answered_segment(model, TURNS[1], second["output"][0]["content"][0]["text"]),
    ]
    stored = folder_of(services).get(second["id"])
    state, expected = state_of(stored, model), model.prefill(read)[0].at_boundary()
    assert state.num_tokens == len(read)
    assert (state.recurrent - expected.recurrent).abs().max() < 1e-4
    assert (state.decay_time - expected.decay_time).abs().max() < 1e-3


def test_instructions_hold_for_one_answer(client: TestClient, services: Services) -> None:
    plain = make(client)
    told = make(client, instructions="Answer as a sailor would, at length.")
    assert told["instructions"] == "Answer as a sailor would, at length."
    assert told["usage"]["input_tokens"] > plain["usage"]["input_tokens"]
    assert told["output"] != plain["output"]
    model = services.scheduler.backbone
    segment = answered_segment(model, TURNS[0], told["output"][0]["content"][0]["text"])
    assert folder_of(services).get(told["id"]).num_tokens == len(segment)


def test_a_response_is_kept_with_all_that_was_said(api: openai.OpenAI) -> None:
    made = api.responses.create(
        model="tiny",
        input=[
            {"role": "user", "content": "The harbour was built in 1811."},
            {"role": "assistant", "content": "I see."},
            {"role": "user", "content": [{"type": "input_text", "text": TURNS[0]}]},
        ],
        metadata={"case": "7"},
        max_output_tokens=4,
    )
    again = api.responses.retrieve(made.id)
    assert again == made
    assert again.metadata == {"case": "7"}
    assert again.status == "incomplete"
    items = list(api.responses.input_items.list(made.id, order="asc"))
    assert [item.content[0].text for item in items] == ["The harbour was built in 1811.", "I see.", TURNS[0]]  # type: ignore[union-attr,index]  # messages
    paged = list(api.responses.input_items.list(made.id, limit=2))
    assert [item.id for item in paged] == [item.id for item in reversed(items)]


def test_a_stream_has_the_documented_events(api: openai.OpenAI) -> None:
    whole = api.responses.create(model="tiny", input=TURNS[0], max_output_tokens=6)
    events = list(api.responses.create(model="tiny", input=TURNS[0], max_output_tokens=6, stream=True))
    kinds = [event.type for event in events]
    assert kinds[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert kinds[-4:] == [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.incomplete",
    ]
    deltas = kinds[4:-4]
    assert len(deltas) > 1
    assert set(deltas) == {"response.output_text.delta"}
    said = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert said == whole.output_text
    assert [event.sequence_number for event in events] == list(range(len(events)))
    last = events[-1].response  # type: ignore[union-attr]  # as its type says
    assert last.output_text == said
    assert api.responses.retrieve(last.id) == last


def test_a_whole_answer_completes(api: openai.OpenAI, services: Services) -> None:
    make_corpus(services)
    asked = {"precog": {"corpus": "handbook", "always_answer": True}}
    with api.responses.stream(model="tiny", input=TURNS[0], extra_body=asked) as events:
        made = events.get_final_response()
    assert made.status == "completed"
    assert made.output_text
    assert "Marie Curie" in made.model_extra["precog"]["sources"][0]["text"]
    following = api.responses.create(model="tiny", input=TURNS[1], previous_response_id=made.id, max_output_tokens=3)
    assert following.usage is not None
    model = services.scheduler.backbone
    kept = len(answered_segment(model, TURNS[0], made.output_text))
    assert following.usage.input_tokens_details.cached_tokens == kept


def test_what_is_not_stored_is_not_there(api: openai.OpenAI, services: Services) -> None:
    made = api.responses.create(model="tiny", input=TURNS[0], store=False, max_output_tokens=2)
    assert made.model_extra["store"] is False
    with pytest.raises(openai.NotFoundError, match="no such response"):
        api.responses.retrieve(made.id)
    assert not folder_of(services).path.exists()


def test_a_deleted_response_leaves_no_byte(client: TestClient, services: Services) -> None:
    first = make(client, "Wombats dig burrows.", metadata={"note": "quokka"})
    second = make(client, TURNS[1], previous_response_id=first["id"])
    folder = folder_of(services)
    state = folder.get(first["id"]).state
    assert b"Wombats" in bytes_below(services.settings.data)
    assert state in bytes_below(services.settings.data)
    assert client.delete(f"/v1/responses/{first['id']}").json()["deleted"] is True
    left = bytes_below(services.settings.data)
    for needle in (b"Wombats", b"quokka", state[64:128], state):
        assert needle not in left
    assert make(client, TURNS[2], previous_response_id=second["id"])["status"]  # that one has a state of its own


def test_those_that_went_on_can_go_with_it(client: TestClient) -> None:
    first = make(client)
    second = make(client, TURNS[1], previous_response_id=first["id"])
    third = make(client, TURNS[2], previous_response_id=second["id"])
    other = make(client, TURNS[2])
    gone = client.delete(f"/v1/responses/{second['id']}", params={"following": True}).json()
    assert gone["count"] == 2
    assert [client.get(f"/v1/responses/{one['id']}").status_code for one in (first, second, third, other)] == [
        200,
        404,
        404,
        200,
    ]


def test_all_of_mine_go_and_nobody_elses(client: TestClient, services: Services) -> None:
    mine = [make(client)["id"] for _ in range(2)]
    theirs = make(client, precog={"user": "ada"})["id"]
    assert client.delete("/v1/responses").json()["count"] == 2
    assert all(client.get(f"/v1/responses/{one}").status_code == 404 for one in mine)
    assert client.get(f"/v1/responses/{theirs}", params={"user": "ada"}).status_code == 200
    assert client.delete("/v1/responses").json()["count"] == 0


def test_unknown_deleted_expired_and_foreign_are_one_answer(client: TestClient, services: Services) -> None:
    deleted, expired = make(client)["id"], make(client)["id"]
    client.delete(f"/v1/responses/{deleted}")
    folder = folder_of(services)
    folder.add(replace(folder.get(expired), expires=1.0), begun_at=folder.num_forgets)
    theirs = make(client, precog={"user": "ada"})["id"]
    answers = []
    for one in (deleted, expired, theirs, "resp_" + "0" * 48, "resp_..%2f", "x" * 300):
        for answer in (
            client.get(f"/v1/responses/{one}"),
            client.delete(f"/v1/responses/{one}"),
            client.get(f"/v1/responses/{one}/input_items"),
            client.post("/v1/responses", json={"model": "tiny", "input": "Why?", "previous_response_id": one[:200]}),
        ):
            assert answer.status_code == 404
            answers.append({**answer.json()["error"], "given": ""})
    told = [answer for answer in answers if answer["code"] == "missing"]
    assert len(told) >= 4 * 5
    assert all(answer == told[0] for answer in told)
    assert client.get(f"/v1/responses/{theirs}", params={"user": "ada"}).status_code == 200


def test_what_has_expired_is_swept_away(client: TestClient, services: Services) -> None:
    kept, over = make(client, "Wombats dig burrows.")["id"], make(client, "Quokkas smile.")["id"]
    folder = folder_of(services)
    folder.add(replace(folder.get(over), expires=1.0), begun_at=folder.num_forgets)
    (folder.path / f"resp_{'a' * 48}.state.tmp").write_bytes(b"Echidnas")  # of a killed writer
    assert expiry.sweep(services.settings) == 1
    left = bytes_below(services.settings.data)
    assert b"Wombats" in left
    assert b"Quokkas" not in left
    assert b"Echidnas" not in left
    assert client.get(f"/v1/responses/{kept}").status_code == 200


def test_responses_are_kept_as_long_as_the_settings_say(tmp_path: Path, choice: ModelChoice, encoder: Encoder) -> None:
    settings = settings_in(tmp_path, keep_responses_sec=-1.0)
    with services_of(settings, choice, encoder) as services, client_of(services) as client:
        made = make(client)
        assert client.get(f"/v1/responses/{made['id']}").status_code == 404
        assert list(folder_of(services).path.glob("resp_*")) == []


@pytest.mark.parametrize("at", [0, 5, 6, 20, 50, 80, 105, 115, 121, 129, 133, 141, 150, 400, -2000, -1])
def test_a_flipped_byte_is_noticed(client: TestClient, services: Services, at: int) -> None:
    made = make(client)
    path = folder_of(services).path / f"{made['id']}.state"
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)
    for answer in (
        client.get(f"/v1/responses/{made['id']}"),
        client.post("/v1/responses", json={"model": "tiny", "input": TURNS[1], "previous_response_id": made["id"]}),
    ):
        assert answer.json()["error"]["code"] == "state.damaged"
    assert client.delete(f"/v1/responses/{made['id']}").status_code == 200


@pytest.mark.parametrize("size", [0, 3, 60, 200])
def test_a_file_cut_short_is_noticed(client: TestClient, services: Services, size: int) -> None:
    made = make(client)
    path = folder_of(services).path / f"{made['id']}.state"
    path.write_bytes(path.read_bytes()[:size])
    assert client.get(f"/v1/responses/{made['id']}").json()["error"]["code"] == "state.damaged"


def test_a_file_under_another_name_is_refused(client: TestClient, services: Services) -> None:
    one, other = make(client)["id"], make(client)["id"]
    folder = folder_of(services).path
    (folder / f"{one}.state").write_bytes((folder / f"{other}.state").read_bytes())
    assert client.get(f"/v1/responses/{one}").json()["error"]["code"] == "state.damaged"


def test_another_model_does_not_go_on(tmp_path: Path, choice: ModelChoice, encoder: Encoder) -> None:
    settings = settings_in(tmp_path)
    with services_of(settings, choice, encoder) as services, client_of(services) as client:
        made = make(client)
    assert choice.loaded is not None
    other = TennsBackbone.random("tiny-outer", choice.loaded.tokenizer, seed=1)
    with (
        services_of(settings, ModelChoice(name="other", loaded=other), encoder) as services,
        client_of(services) as client,
    ):
        sent = {"model": services.model_name, "input": TURNS[1], "previous_response_id": made["id"]}
        answer = client.post("/v1/responses", json=sent)
        assert answer.status_code == 409
        assert answer.json()["error"]["code"] == "state.foreign"
        assert "new conversation" in answer.json()["error"]["hint"]
        assert client.get(f"/v1/responses/{made['id']}").json() == made


def test_what_was_made_from_a_corpus_or_a_memory_goes_with_it(client: TestClient, services: Services) -> None:
    make_corpus(services)
    plain = make(client)
    asked = make(client, precog={"corpus": "handbook", "always_answer": True})
    following = make(client, TURNS[1], previous_response_id=asked["id"])
    told = make(client, "My cat is grey.", precog={"memory": True})
    folder = folder_of(services)
    assert folder.forget_using("corpus", "other") == 0
    assert folder.forget_using("corpus", "handbook") == 2
    gone = [client.get(f"/v1/responses/{one['id']}").status_code for one in (plain, asked, following, told)]
    assert gone == [200, 404, 404, 200]
    assert folder.forget_using("memory") == 1
    assert client.get(f"/v1/responses/{told['id']}").status_code == 404
    assert client.get(f"/v1/responses/{plain['id']}").status_code == 200


def test_a_damaged_response_goes_with_whatever_is_forgotten(client: TestClient, services: Services) -> None:
    damaged, sound = make(client, "Wombats dig burrows.")["id"], make(client)["id"]
    folder = folder_of(services)
    path = folder.path / f"{damaged}.state"
    path.write_bytes(path.read_bytes().replace(b'"uses":[]', b'"uses":{}'))  # nobody can tell what it has read
    assert folder.forget_using("corpus", "handbook") == 1
    assert b"Wombats" not in bytes_below(services.settings.data)
    assert folder.get(sound).id == sound


def test_what_is_forgotten_while_it_is_answered_is_not_stored(
    client: TestClient, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_of(services)
    add = ResponseFolder.add

    def forgotten_first(self: ResponseFolder, *given: object, **how: object) -> None:
        folder.forget_using("memory")
        add(self, *given, **how)  # type: ignore[arg-type]  # as it was called

    monkeypatch.setattr(ResponseFolder, "add", forgotten_first)
    sent = {"model": "tiny", "input": "My cat is grey.", "precog": {"memory": True}}
    answer = client.post("/v1/responses", json=sent)
    assert answer.status_code == 409
    assert "forgotten" in answer.json()["error"]["message"]
    assert list(folder.path.glob("resp_*")) == []


def test_an_error_after_the_first_words_is_told_in_the_stream(
    api: openai.OpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: ResponseFolder, *given: object, **how: object) -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr(ResponseFolder, "add", full)
    kinds = []
    with pytest.raises(openai.APIError, match="the disk is full"):  # noqa: PT012  # the stream breaks off within
        for event in api.responses.create(model="tiny", input=TURNS[0], max_output_tokens=4, stream=True):
            kinds.append(event.type)  # noqa: PERF401  # those before the error are looked at
    assert kinds[-1] == "response.output_text.delta"


def test_nothing_acknowledged_is_lost_when_the_server_is_killed(tmp_path: Path, choice: ModelChoice) -> None:
    script = f"""
import sys
sys.path[:0] = {sys.path!r}
from pathlib import Path
from served import client_of, services_of, settings_in
from precog.encoders import load_encoder
from precog.errors import StorageError
from precog.records import ModelChoice
choice = ModelChoice(name={str(choice.name)!r})
choice = ModelChoice(name=choice.name, loaded=choice.load("once"))
with services_of(settings_in(Path({str(tmp_path)!r})), choice, load_encoder(None)) as services:
    with client_of(services) as client:
        while True:
            sent = {{"model": "tiny", "input": "Who found radium?", "max_output_tokens": 1}}
            print(client.post("/v1/responses", json=sent).json()["id"], flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        acknowledged = [process.stdout.readline().strip() for _ in range(5)]
        os.kill(process.pid, signal.SIGKILL)
        acknowledged += process.stdout.read().split()
    folder = ResponseFolder(Tenant(settings_in(tmp_path), "local").responses)
    assert all(folder.get(one).response["status"] == "incomplete" for one in acknowledged if len(one) == 53)
    folder.sweep()
    assert not list(folder.path.glob("*.tmp"))


def test_folders_and_files_are_the_owners_alone(client: TestClient, services: Services) -> None:
    made = make(client)
    path = folder_of(services).path / f"{made['id']}.state"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for folder in (path.parent, path.parent.parent, path.parent.parent.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_many_go_on_from_one_at_once(client: TestClient) -> None:
    first = make(client)
    made: list[dict] = []

    def go_on() -> None:
        made.append(make(client, TURNS[1], previous_response_id=first["id"]))

    threads = [threading.Thread(target=go_on) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({one["id"] for one in made}) == 6
    assert len({json.dumps(one["output"][0]["content"]) for one in made}) == 1


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({"model": "gpt-4"}, 404, "no such model"),
        ({"input": ""}, 400, "question is empty"),
        ({"input": []}, 422, "not as it should be"),
        ({"input": [{"role": "assistant", "content": "x"}]}, 400, "no question"),
        ({"input": [{"type": "function_call_output", "call_id": "1", "output": "x"}]}, 400, "no message"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, 400, "than text"),
        ({"input": "\ud800"}, 400, ""),
        ({"instructions": "\ud800"}, 400, ""),
        ({"metadata": {"\ud800": "x"}}, 400, ""),
        ({"metadata": {str(n): "x" for n in range(17)}}, 422, "not as it should be"),
        ({"tools": [{"type": "web_search"}]}, 400, "tools is not offered"),
        ({"background": True}, 400, "background is not offered"),
        ({"conversation": "conv_1"}, 400, "conversation is not offered"),
        ({"text": {"format": {"type": "json_schema"}}}, 400, "text.format is not offered"),
        ({"include": ["message.output_text.logprobs"]}, 400, "log-probabilities"),
        ({"max_output_tokens": 0}, 422, "not as it should be"),
        ({"precog": {"corpus": "none"}}, 404, "no such corpus"),
        ({"memory": True}, 400, "memory belongs into precog"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_what_cannot_be_answered_is_refused(
    client: TestClient, services: Services, body: dict, status: int, says: str, stream: bool
) -> None:
    sent = json.dumps({"model": "tiny", "input": TURNS[0], "stream": stream, **body})
    answer = client.post("/v1/responses", content=sent, headers={"Content-Type": "application/json"})
    assert answer.status_code == status
    assert says in answer.json()["error"]["message"]
    assert not folder_of(services).path.exists()


def test_a_page_of_the_input_is_checked(client: TestClient) -> None:
    made = make(client)
    items = f"/v1/responses/{made['id']}/input_items"
    assert client.get(items, params={"limit": 0}).status_code == 422
    assert client.get(items, params={"after": "msg_none"}).status_code == 400
    page = client.get(items).json()
    beyond = client.get(items, params={"after": page["last_id"]}).json()
    assert (beyond["data"], beyond["first_id"], beyond["has_more"]) == ([], None, False)
    assert client.get(f"/v1/responses/{made['id']}", params={"stream": True}).status_code == 400


def test_a_state_that_carries_its_window_is_kept_with_it(tmp_path: Path, choice: ModelChoice, encoder: Encoder) -> None:
    assert choice.loaded is not None
    config = replace(TennsConfig.preset("tiny-outer"), conv_boundary="carried")
    model = TennsBackbone.wrap(build(config, 0), choice.loaded.tokenizer, name="tiny")
    assert model.spec.carries_tail
    chosen = ModelChoice(name="tiny", loaded=model)
    with services_of(settings_in(tmp_path), chosen, encoder) as services, client_of(services) as client:
        messages, previous = [], None
        for turn in TURNS:
            made = make(client, turn, previous_response_id=previous)
            messages.append({"role": "user", "content": turn})
            whole = client.post(
                "/v1/chat/completions", json={"model": "tiny", "messages": messages, "max_tokens": 4}
            ).json()
            said = whole["choices"][0]["message"]["content"]
            assert made["output"][0]["content"][0]["text"] == said
            messages.append({"role": "assistant", "content": said})
            previous = made["id"]
