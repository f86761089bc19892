import json
import math
import threading
from collections.abc import Iterator

import openai
import pytest
import torch
from fastapi.testclient import TestClient
from handbook import FACTS, make_corpus, official
from served import listening

from precog.backbones.protocol import Backbone
from precog.engine import DecodedToken, FreeSettings, answer_inject, answer_none, question_segment, speaking
from precog.errors import AccessError, CancelledError
from precog.server.answering import Answering, How
from precog.server.conversation import Conversation, Turn, answered_segment, segments
from precog.server.extension import Precog
from precog.server.principal import Principal
from precog.server.services import Services
from precog.server.work import Job
from precog.state import State
from precog.store.memory import MemoryFolder

QUESTION = "Who found radium?"
ASKED = [{"role": "user", "content": QUESTION}]


@pytest.fixture
def api(services: Services) -> Iterator[openai.OpenAI]:
    with listening(services) as url, official(url) as made:
        yield made


def post(client: TestClient, **body: object) -> tuple[int, dict]:
    sent = json.dumps({"model": "tiny", "messages": ASKED, "max_tokens": 4, **body})
    answer = client.post("/v1/chat/completions", content=sent, headers={"Content-Type": "application/json"})
    return answer.status_code, answer.json()


def test_a_question_alone_is_what_the_model_says_without_context(api: openai.OpenAI, services: Services) -> None:
    model = services.scheduler.backbone
    expected = answer_none(model, question_segment(model, QUESTION), settings=FreeSettings(6))
    answer = api.chat.completions.create(model="tiny", messages=ASKED, max_tokens=6)
    assert answer.choices[0].message.content == model.tokenizer.decode(expected.token_ids).strip()
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == len(question_segment(model, QUESTION))
    assert answer.usage.completion_tokens == 6
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 6
    assert answer.model_extra["precog"]["grounded"] is False


def test_what_was_said_before_is_read_as_segments(api: openai.OpenAI, services: Services) -> None:
    model = services.scheduler.backbone
    read = [
        *model.reading(model.tokenizer.encode("Answer briefly.")),
        *answered_segment(model, "Who are you?", "A model."),
    ]
    state, _ = model.prefill(read)
    expected = answer_inject(model, state.at_boundary(), question_segment(model, QUESTION), settings=FreeSettings(5))
    answer = api.chat.completions.create(
        model="tiny",
        messages=[
            {"role": "developer", "content": "Answer briefly."},
            {"role": "user", "content": [{"type": "text", "text": "Who are you?"}]},
            {"role": "assistant", "content": "A model."},
            *ASKED,
        ],
        max_completion_tokens=5,
    )
    assert answer.choices[0].message.content == model.tokenizer.decode(expected.token_ids).strip()
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == len(read) + len(question_segment(model, QUESTION))


def test_a_stream_says_the_same_with_role_end_usage(api: openai.OpenAI) -> None:
    whole = api.chat.completions.create(model="tiny", messages=ASKED, max_tokens=8)
    chunks = list(
        api.chat.completions.create(
            model="tiny", messages=ASKED, max_tokens=8, stream=True, stream_options={"include_usage": True}
        )
    )
    assert chunks[0].choices[0].delta.role == "assistant"
    said = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(said) == whole.choices[0].message.content
    assert len([piece for piece in said if piece]) > 1
    assert chunks[-2].choices[0].finish_reason == "length"
    assert chunks[-2].model_extra["precog"]["mode"] == "none"
    assert chunks[-1].choices == []
    assert chunks[-1].usage == whole.usage
    assert all(chunk.usage is None for chunk in chunks[:-1])


def test_a_stream_ends_with_done(client: TestClient) -> None:
    sent = {"model": "tiny", "messages": ASKED, "max_tokens": 2, "stream": True}
    answer = client.post("/v1/chat/completions", json=sent)
    assert answer.headers["content-type"].startswith("text/event-stream")
    lines = [line for line in answer.text.split("\n\n") if line]
    assert lines[-1] == "data: [DONE]"
    assert all("usage" not in json.loads(line.removeprefix("data: ")) for line in lines[:-1])


def test_sampling_depends_on_the_seed_alone(api: openai.OpenAI) -> None:
    def said(seed: int) -> str | None:
        answer = api.chat.completions.create(
            model="tiny", messages=ASKED, max_tokens=8, temperature=1.5, top_p=0.95, seed=seed
        )
        return answer.choices[0].message.content

    assert said(1) == said(1)
    assert said(1) != said(2)


def test_a_stop_ends_the_answer_before_it_even_across_tokens(api: openai.OpenAI) -> None:
    whole = api.chat.completions.create(model="tiny", messages=ASKED, max_tokens=8).choices[0].message.content
    assert whole is not None
    stop = whole[5:9]
    kept = whole[: whole.index(stop)].rstrip()
    chunks = list(
        api.chat.completions.create(model="tiny", messages=ASKED, max_tokens=8, stop=["§§", stop], stream=True)
    )
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == kept
    assert chunks[-1].choices[0].finish_reason == "stop"


def test_a_corpus_answers_with_its_sources(api: openai.OpenAI, services: Services) -> None:
    make_corpus(services)
    asked = {"corpus": "handbook", "always_answer": True, "top_k": 2}
    answer = api.chat.completions.create(
        model="tiny",
        messages=[{"role": "system", "content": "Be brief."}, *ASKED],
        temperature=0.7,  # a grounded answer is searched: what clients send by habit does no harm
        extra_body={"precog": asked},
    )
    precog = answer.model_extra["precog"]
    assert "Marie Curie" in precog["sources"][0]["text"]
    assert len(precog["sources"]) == 2
    assert answer.choices[0].message.content in FACTS[0]
    assert precog["text"] == answer.choices[0].message.content
    assert precog["conversation_read"] is False
    assert {"confidence", "abstained", "composition", "tokens_processed", "timings_sec"} <= set(precog)
    assert answer.usage is not None
    model = services.scheduler.backbone
    assert answer.usage.prompt_tokens_details is not None
    cached = answer.usage.prompt_tokens_details.cached_tokens
    assert cached == len(model.tokenizer.encode(FACTS[0]))
    assert answer.usage.prompt_tokens - cached + answer.usage.completion_tokens == precog["tokens_processed"]
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert "grounded" not in precog


@pytest.mark.parametrize("extra", [{}, {"free": True}, {"mode": "in-context"}, {"always_answer": True}])
def test_a_corpus_streams_what_it_says_whole(api: openai.OpenAI, services: Services, extra: dict) -> None:
    make_corpus(services)
    asked = {"precog": {"corpus": "handbook", **extra}}
    whole = api.chat.completions.create(model="tiny", messages=ASKED, max_tokens=6, extra_body=asked)
    chunks = list(
        api.chat.completions.create(model="tiny", messages=ASKED, max_tokens=6, extra_body=asked, stream=True)
    )
    said = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert said == whole.choices[0].message.content
    assert said
    assert chunks[-1].choices[0].finish_reason == whole.choices[0].finish_reason
    told, again = chunks[-1].model_extra["precog"], whole.model_extra["precog"]
    assert {**told, "timings_sec": 0, "mask": 0} == {**again, "timings_sec": 0, "mask": 0}


def test_a_memory_remembers_and_answers(api: openai.OpenAI) -> None:
    def say(text: str, **more: object) -> dict:
        answer = api.chat.completions.create(
            model="tiny",
            messages=[{"role": "user", "content": text}],
            extra_body={"precog": {"memory": True, "always_answer": True, **more}},
        )
        return {"said": answer.choices[0].message.content, "usage": answer.usage, **answer.model_extra["precog"]}

    told = say("My bicycle is green.", speaker="Ada")
    assert told["remembered"] == 1
    assert told["said"] == "remembered"
    asked = say("What colour is my bicycle?")
    assert "green" in asked["evidence"][0]["text"]
    assert asked["evidence"][0]["speaker"] == "Ada"
    assert asked["remembered"] is None
    assert 0 < asked["usage"].prompt_tokens_details.cached_tokens < asked["usage"].prompt_tokens
    assert say("My cat is grey.", remember="nothing")["remembered"] is None


def test_memory_and_corpus_are_asked_together(api: openai.OpenAI, services: Services) -> None:
    make_corpus(services)
    answer = api.chat.completions.create(
        model="tiny",
        messages=ASKED,
        extra_body={"precog": {"memory": True, "corpus": "handbook", "always_answer": True}},
    )
    evidence = answer.model_extra["precog"]["evidence"]
    assert evidence[0]["origin"] == "corpus"
    assert "Marie Curie" in evidence[0]["text"]


def test_another_users_corpus_is_as_missing_as_none(client: TestClient, services: Services) -> None:
    make_corpus(services, user="ada", name="secrets")
    status, theirs = post(client, precog={"corpus": "secrets"})
    assert status == 404
    _, nobodys = post(client, precog={"corpus": "nothing"})
    assert {**theirs["error"], "given": ""} == {**nobodys["error"], "given": ""}
    status, answered = post(client, precog={"corpus": "secrets", "user": "ada"})  # on this machine all scopes are given
    assert status == 200
    assert answered["precog"]["model"] == "tiny"


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({"model": "gpt-4"}, 404, "no such model; expected: tiny"),
        ({"messages": []}, 422, "not as it should be"),
        ({"messages": [{"role": "system", "content": "x"}]}, 400, "no question"),
        ({"messages": [*ASKED, {"role": "assistant", "content": "Curie"}]}, 400, "answered already"),
        ({"messages": [{"role": "user", "content": "  "}]}, 400, "question is empty"),
        ({"messages": [{"role": "user", "content": None}]}, 400, "question is empty"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}, 400, "than text"),
        ({"messages": [{"role": "tool", "content": "x", "tool_call_id": "1"}]}, 400, "role"),
        ({"messages": [{"role": "assistant", "tool_calls": [{}]}, *ASKED]}, 400, "than text"),
        ({"messages": [{"role": "user", "content": "\ud800"}]}, 400, ""),
        ({"messages": [{"role": "system", "content": "\udfff"}, *ASKED]}, 400, ""),
        ({"n": 2}, 400, "n is not offered"),
        ({"n": True}, 400, "n is not offered"),
        ({"logprobs": True}, 400, "logprobs is not offered"),
        ({"tools": [{"type": "function"}]}, 400, "tools is not offered"),
        ({"response_format": {"type": "json_object"}}, 400, "response_format is not offered"),
        ({"modalities": ["audio"]}, 400, "modalities is not offered"),
        ({"frequency_penalty": 0.5}, 400, "frequency_penalty is not offered"),
        ({"temperature": 3}, 422, "not as it should be"),
        ({"temperature": math.nan}, 400, ""),
        ({"seed": 2**64}, 400, ""),
        ({"max_tokens": 0}, 422, "not as it should be"),
        ({"precog": {"corpuss": "x"}}, 422, "not as it should be: precog.corpuss: extra inputs are not permitted"),
        ({"corpus": "x"}, 400, 'corpus belongs into precog: extra_body={"precog": {"corpus": …}}'),
        ({"top_k": 2, "precog": {}}, 400, "top_k belongs into precog"),
        ({"precog": {"corpus": "../x"}}, 400, "no name of a corpus"),
        ({"precog": {"mode": "inject"}}, 400, "which corpus"),
        ({"precog": {"min_confidence": 0.5}}, 400, "no confidence"),
        ({"precog": {"corpus": "x", "inject": 3, "top_k": 2}}, 400, "inject is out of range; expected: 1 to top_k 2"),
        ({"precog": {"memory": True, "mode": "in-context"}}, 400, "injected states"),
        ({"precog": {"memory": True, "compose": "stir"}}, 400, "no such rule"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_what_cannot_be_answered_is_refused(
    client: TestClient, body: dict, status: int, says: str, stream: bool
) -> None:
    given, answer = post(client, stream=stream, **body)
    assert given == status
    assert says in answer["error"]["message"]


@pytest.mark.parametrize(
    "body",
    [
        {"n": 1, "logprobs": False, "tools": [], "response_format": {"type": "text"}, "presence_penalty": 0.0},
        {"user": "u", "metadata": {"a": "b"}, "parallel_tool_calls": True, "store": True, "tool_choice": "auto"},
        {"max_tokens": 10**12, "stop": ["", "a"], "top_p": 0},
        {"messages": [{"role": "user", "content": "nul \0 byte", "name": "x"}]},
        {"seed": -(2**63), "temperature": 2},
    ],
)
def test_what_changes_nothing_is_taken(client: TestClient, body: dict) -> None:
    status, answer = post(client, **body)
    assert status == 200, answer


def test_what_the_user_says_without_an_answer_is_a_text(services: Services) -> None:
    model = services.scheduler.backbone
    made = Conversation.of([Turn("user", "The sky is grey."), Turn("user", "Why?"), Turn("system", "Be brief.")])
    assert made.question == "Why?"
    assert segments(model, made.turns) == [
        *model.reading(model.tokenizer.encode("The sky is grey.")),
        *model.reading(model.tokenizer.encode("Be brief.")),
    ]


def test_whoever_goes_away_stops_the_model(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()

    def endless(
        backbone: Backbone, state: State | None, ids: list[int], settings: FreeSettings
    ) -> Iterator[DecodedToken]:
        batch = backbone.open([backbone.empty_state()])
        word = backbone.tokenizer.encode("sea")[0]
        try:
            while True:
                batch, _ = backbone.read(batch, torch.tensor([[*backbone.opening, word]]))
                yield DecodedToken(word, 0.0, 1)
        except CancelledError:
            ended.set()
            raise

    monkeypatch.setattr(speaking, "decode_freely", endless)
    with listening(services) as url, official(url) as api:
        stream = api.chat.completions.create(model="tiny", messages=ASKED, stream=True)  # type: ignore[call-overload]  # as dicts
        assert next(iter(stream)).choices[0].delta.role == "assistant"
        assert not ended.is_set()
        stream.close()
        assert ended.wait(300)


def test_a_key_that_may_only_read_has_nothing_remembered(services: Services) -> None:
    reader = Principal("ada", frozenset({"read"}))
    asking = Answering.of(services, reader, Job(lambda event: None))
    told = Conversation.of([Turn("user", "My cat is grey.")])
    assert asking.answer(told, How(), Precog(memory=True)).details["remembered"] is None
    with pytest.raises(AccessError, match="write"):
        asking.answer(told, How(), Precog(memory=True, remember="all"))
    assert not MemoryFolder(services.tenant(reader).memory).exists
