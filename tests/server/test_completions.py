import json
from collections.abc import Iterator

import openai
import pytest
from fastapi.testclient import TestClient
from handbook import official
from served import listening

from precog.engine import decode
from precog.server.services import Services

PROMPT = "Radium was found by"


@pytest.fixture
def api(services: Services) -> Iterator[openai.OpenAI]:
    with listening(services) as url, official(url) as made:
        yield made


def test_a_text_is_gone_on_with(api: openai.OpenAI, services: Services) -> None:
    model = services.scheduler.backbone
    ids = [*model.opening, *model.tokenizer.encode(PROMPT)]
    tokens = [one.token_id for one in decode(model, None, ids, max_tokens=6, whole_sentences=False)]
    made = api.completions.create(model="tiny", prompt=PROMPT, max_tokens=6, echo=True)
    assert made.choices[0].text == model.tokenizer.decode([*ids, *tokens])
    assert made.choices[0].finish_reason == "length"
    assert made.usage is not None
    assert (made.usage.prompt_tokens, made.usage.completion_tokens) == (len(ids), 6)
    alone = api.completions.create(model="tiny", prompt=PROMPT, max_tokens=6)
    assert PROMPT + alone.choices[0].text == made.choices[0].text


def test_several_prompts_each_as_if_alone(api: openai.OpenAI) -> None:
    both = api.completions.create(model="tiny", prompt=[PROMPT, "The sea"], max_tokens=4)
    assert [choice.index for choice in both.choices] == [0, 1]
    for prompt, choice in zip([PROMPT, "The sea"], both.choices, strict=True):
        alone = api.completions.create(model="tiny", prompt=prompt, max_tokens=4)
        assert choice.text == alone.choices[0].text


def test_a_stream_says_the_same(api: openai.OpenAI) -> None:
    how = {"model": "tiny", "prompt": [PROMPT, "The sea"], "max_tokens": 5, "echo": True}
    whole = api.completions.create(**how)  # type: ignore[call-overload]  # as a dict
    texts, ends = ["", ""], {}
    *chunks, last = api.completions.create(**how, stream=True, stream_options={"include_usage": True})  # type: ignore[call-overload]  # as a dict
    for chunk in chunks:
        choice = chunk.choices[0]
        texts[choice.index] += choice.text
        if choice.finish_reason is not None:
            ends[choice.index] = choice.finish_reason
    assert texts == [choice.text for choice in whole.choices]
    assert ends == {0: "length", 1: "length"}
    assert last.choices == []
    assert last.usage == whole.usage


def test_a_stop_ends_it(api: openai.OpenAI) -> None:
    whole = api.completions.create(model="tiny", prompt=PROMPT, max_tokens=8).choices[0].text
    stop = whole[4:7]
    made = api.completions.create(model="tiny", prompt=PROMPT, max_tokens=8, stop=stop)
    assert made.choices[0].text == whole[: whole.index(stop)]
    assert made.choices[0].finish_reason == "stop"


def test_sampling_depends_on_the_seed_alone(api: openai.OpenAI) -> None:
    def said(seed: int) -> str:
        made = api.completions.create(model="tiny", prompt=PROMPT, max_tokens=8, temperature=1, seed=seed)
        return made.choices[0].text

    assert said(7) == said(7)
    assert said(7) != said(8)


def test_nothing_more_is_said_than_asked_for(api: openai.OpenAI) -> None:
    made = api.completions.create(model="tiny", prompt=PROMPT, max_tokens=0, echo=True)
    assert made.choices[0].text == PROMPT
    assert len(api.completions.create(model="tiny", prompt="").choices[0].text) > 0


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({"model": "other"}, 404, "no such model"),
        ({"prompt": [1, 2, 3]}, 400, "token ids"),
        ({"prompt": [[1], [2]]}, 400, "token ids"),
        ({"prompt": []}, 400, "too many prompts, or none"),
        ({"prompt": ["x"] * 129}, 400, "too many prompts, or none"),
        ({"prompt": None}, 422, "not as it should be"),
        ({"prompt": "\ud800"}, 400, ""),
        ({"max_tokens": -1}, 422, "not as it should be"),
        ({"best_of": 3}, 400, "best_of is not offered"),
        ({"suffix": "end"}, 400, "suffix is not offered"),
        ({"logprobs": 5}, 400, "logprobs is not offered"),
        ({"precog": {"corpus": "x"}}, 400, "precog is not offered"),
    ],
)
def test_what_cannot_be_done_is_refused(client: TestClient, body: dict, status: int, says: str) -> None:
    sent = json.dumps({"model": "tiny", "prompt": PROMPT, **body})
    answer = client.post("/v1/completions", content=sent, headers={"Content-Type": "application/json"})
    assert answer.status_code == status
    assert says in answer.json()["error"]["message"]
