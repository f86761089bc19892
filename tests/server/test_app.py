import openai
import pytest
from fastapi.testclient import TestClient
from served import listening

from precog.server.services import Services


def test_health_names_the_model(client: TestClient) -> None:
    assert client.get("/healthz").json() == {"status": "ok", "model": "tiny"}


def test_an_unknown_model_is_told_in_the_shape_of_all_errors(client: TestClient) -> None:
    answer = client.get("/v1/models/gpt-4")
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "missing"
    assert answer.json()["error"]["given"] == "gpt-4"


def test_an_unknown_path_is_no_web_page(client: TestClient) -> None:
    assert client.get("/nowhere").json()["error"]["code"] == "http"


@pytest.mark.parametrize(
    ("path", "hint"),
    [("/models", "below /v1"), ("/corpora/x/documents", "below /v1"), ("/v1/nowhere", "openapi")],
)
def test_a_path_without_its_beginning_is_recognised(client: TestClient, path: str, hint: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert hint in answer.json()["error"]["hint"]


def test_the_official_client_lists_models(services: Services) -> None:
    with listening(services) as url, openai.OpenAI(base_url=f"{url}/v1", api_key="none") as client:
        assert [model.id for model in client.models.list()] == ["tiny", "all-MiniLM-L6-v2"]
        whole = services.encoder.name
        assert whole != "all-MiniLM-L6-v2"  # it says what its numbers are, too
        assert client.models.retrieve("all-MiniLM-L6-v2") == client.models.retrieve(whole)
        with pytest.raises(openai.NotFoundError, match="no such model"):
            client.models.retrieve("other")
