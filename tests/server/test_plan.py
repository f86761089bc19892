"""What bringing a context in would take."""

from pathlib import Path

import pytest
from corpora_of import code_of, filled, make
from fastapi.testclient import TestClient

from precog.plan.probe import SPEED_FILE


def test_a_plan_for_so_many_tokens_compares_the_ways(client: TestClient, tmp_path: Path) -> None:
    short = client.post("/v1/plan", json={"tokens": 10}).json()
    long = client.post("/v1/plan", json={"tokens": 100_000}).json()
    assert long["estimates_sec"]["in-context"] > short["estimates_sec"]["in-context"]
    assert long["chosen"] == "inject"
    assert long["estimates_sec"]["inject"] < long["estimates_sec"]["in-context"]
    assert long["texts"][0]["num_tokens"] == 100_000
    assert "MB of states takes about" in long["why"]
    assert long["model_speed"] == short["model_speed"]  # measured once
    assert (tmp_path / "home" / SPEED_FILE).exists()


def test_a_plan_for_a_question_is_that_of_asking(client: TestClient) -> None:
    filled(client)
    asked = {"question": "Who reached the South Pole?"}
    plan = client.post("/v1/plan", json={"corpus": "papers", **asked}).json()
    answer = client.post("/v1/corpora/papers/ask", json={**asked, "mode": "auto"}).json()
    assert {key: plan[key] for key in ("chosen", "why", "estimates_sec")} == answer["plan"]
    assert plan["texts"][0]["num_tokens"] > 10
    several = client.post("/v1/plan", json={"corpus": "papers", **asked, "inject": 2, "compose": "replay"}).json()
    assert set(several["estimates_sec"]) == {"resume", "in-context"}
    usual = client.post("/v1/plan", json={"corpus": "papers"}).json()
    assert set(usual["estimates_sec"]) == {"inject", "in-context"}


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"tokens": 0},
        {"tokens": 10, "corpus": "papers"},
        {"tokens": 10, "question": "Who?"},
        {"corpus": "papers", "question": " "},
        {"corpus": "papers", "question": "Who?", "inject": 9},
        {"corpus": "a/b"},
    ],
)
def test_what_cannot_be_planned_is_refused(client: TestClient, wrong: dict[str, object]) -> None:
    make(client)
    assert client.post("/v1/plan", json=wrong).status_code in (400, 422)


def test_an_empty_or_missing_corpus_has_no_plan(client: TestClient) -> None:
    make(client)
    assert code_of(client.post("/v1/plan", json={"corpus": "papers"})) == (409, "corpus")
    assert code_of(client.post("/v1/plan", json={"corpus": "papers", "question": "Who?"})) == (409, "corpus")
    assert code_of(client.post("/v1/plan", json={"corpus": "other"})) == (404, "missing")
