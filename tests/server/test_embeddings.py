import base64
import json
from collections.abc import Iterator

import numpy as np
import openai
import pytest
from fastapi.testclient import TestClient
from handbook import official
from served import listening

from precog.server.services import Services

ENCODER = "all-MiniLM-L6-v2"
TEXTS = ["Who found radium?", "The harbour of Oban.", "Ünïcode ☉ \0"]


@pytest.fixture
def api(services: Services) -> Iterator[openai.OpenAI]:
    with listening(services) as url, official(url) as made:
        yield made


@pytest.mark.parametrize("encoding_format", [None, "float", "base64"])
def test_embeddings_are_the_encoders_keys(api: openai.OpenAI, services: Services, encoding_format: str | None) -> None:
    how = {} if encoding_format is None else {"encoding_format": encoding_format}
    made = api.embeddings.create(model=ENCODER, input=TEXTS, **how)  # type: ignore[arg-type]  # one of both
    assert [one.index for one in made.data] == [0, 1, 2]
    for text, one in zip(TEXTS, made.data, strict=True):
        raw = one.embedding
        key = np.frombuffer(base64.b64decode(raw), "<f4") if isinstance(raw, str) else np.asarray(raw, np.float32)
        assert np.array_equal(key, services.encoder.encode_query(text))
    assert made.model == ENCODER
    tokenizer = services.scheduler.backbone.tokenizer
    assert made.usage.prompt_tokens == sum(len(tokenizer.encode(text)) for text in TEXTS)


def test_a_long_text_is_the_mean_of_its_windows(api: openai.OpenAI, services: Services) -> None:
    text = " ".join(f"Ship {n} sailed to port {7 * n}." for n in range(200))
    keys = services.encoder.encode_passages([text])[0]
    assert len(keys) > 1
    mean = keys.mean(axis=0)
    made = api.embeddings.create(model=services.encoder.name, input=text, dimensions=services.encoder.dim)
    assert np.allclose(made.data[0].embedding, mean / np.linalg.norm(mean), atol=1e-6)


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({"model": "tiny"}, 404, f"no such encoder; expected: {ENCODER}"),
        ({"input": []}, 400, "too many texts, or none"),
        ({"input": ["a"] * 2049}, 400, "too many texts, or none"),
        ({"input": ["a", " "]}, 400, "a text is blank"),
        ({"input": ""}, 400, "a text is blank"),
        ({"input": [1, 2]}, 400, "token ids"),
        ({"input": [[1], [2]]}, 400, "token ids"),
        ({"input": "\udc80"}, 400, ""),
        ({"dimensions": 12}, 400, "keys are not cut"),
        ({"dimensions": 0}, 422, "not as it should be"),
        ({"encoding_format": "hex"}, 422, "not as it should be"),
    ],
)
def test_what_cannot_be_embedded_is_refused(
    client: TestClient, services: Services, body: dict, status: int, says: str
) -> None:
    sent = json.dumps({"model": services.encoder.name, "input": "a", **body})
    answer = client.post("/v1/embeddings", content=sent, headers={"Content-Type": "application/json"})
    assert answer.status_code == status
    assert says in answer.json()["error"]["message"]


def test_a_text_that_would_take_minutes_is_refused(client: TestClient, services: Services) -> None:
    texts = ["short", "a " * (1 << 17)]
    answer = client.post("/v1/embeddings", json={"model": services.encoder.name, "input": texts})
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["message"] == "a text is too long; expected: at most 131072 characters"
    assert answer.json()["error"]["given"] == "text 1"
