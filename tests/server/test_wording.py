"""Errors over HTTP: in the words of a request, whichever layer has raised them."""

import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from corpora_of import filled
from fastapi.testclient import TestClient

from precog.corpus.ask import AskOptions
from precog.engine import Composing
from precog.engine.sampling import Sampling
from precog.errors import AccessError, BusyError, CorpusError, InputError, PrecogError, StorageError, UsageError
from precog.server.failure import body_of
from precog.server.routes.asking import Asking
from precog.server.routes.memory_chat import ChatOptions
from precog.server.wording import in_requests_words, reworded
from precog.session import SessionOptions

WRONG: dict[str, tuple[Callable[..., object], dict[str, Any]]] = {
    "mode": (AskOptions, {"mode": "x"}),
    "top_k": (AskOptions, {"top_k": 0}),
    "inject": (AskOptions, {"inject": 4, "top_k": 3}),
    "compose": (AskOptions, {"compose": "x"}),
    "compose_temperature": (AskOptions, {"compose_temperature": 0.0}),
    "compose_renorm": (AskOptions, {"compose_renorm": "x"}),
    "min_confidence": (AskOptions, {"min_confidence": 2.0}),
    "free": (AskOptions, {"min_confidence": 0.5, "free": True}),
    "sampling": (AskOptions, {"sampling": Sampling(temperature=1.0)}),
    "max_tokens": (AskOptions, {"max_tokens": 0}),
    "temperature": (Sampling, {"temperature": -1.0}),
    "top_p": (Sampling, {"top_p": 2.0}),
    "sample_top_k": (Sampling, {"top_k": -1}),
}
WRONG_IN_A_SESSION: dict[str, tuple[Callable[..., object], dict[str, Any]]] = {
    "top_k": (SessionOptions, {"top_k": 0}),
    "inject": (SessionOptions, {"inject": 4, "top_k": 3}),
    "compose": (Composing, {"rule": "x"}),
    "compose_temperature": (Composing, {"temperature": 0.0}),
    "min_confidence": (SessionOptions, {"min_confidence": 2.0}),
    "free": (SessionOptions, {"min_confidence": 0.5, "free": True}),
    "remember": (SessionOptions, {"remember": "x"}),
}
HARMLESS = {"layers", "always_answer", "speaker", "composing"}
"""Options that no value is out of range of, or that are looked at with the model."""


def told(make: Callable[..., object], wrong: dict[str, Any]) -> str:
    """All that a client reads of what is wrong."""
    with pytest.raises(PrecogError) as raised:
        make(**wrong)
    return str(body_of(raised.value, 400)["error"])


@pytest.mark.parametrize(
    ("field", "make", "wrong", "asked"),
    [
        *((name, *case, Asking) for name, case in WRONG.items()),
        *((name, *case, ChatOptions) for name, case in WRONG_IN_A_SESSION.items()),
    ],
)
def test_an_option_out_of_range_is_called_as_its_field(
    field: str, make: Callable[..., object], wrong: dict[str, Any], asked: type[Any]
) -> None:
    text = told(make, wrong)
    assert "--" not in text
    names = ("temperature", "top_p", "sample_top_k", "seed") if field == "sampling" else (field,)
    for name in names:
        assert name in asked.model_fields
        assert re.search(rf"\b{name}\b", text), text


def test_no_option_is_left_out() -> None:
    assert {field.name for field in fields(AskOptions)} <= {*WRONG, *HARMLESS}
    assert {field.name for field in fields(SessionOptions)} <= {*WRONG_IN_A_SESSION, *HARMLESS}


@pytest.mark.parametrize(
    ("extension", "field"),
    [
        ({"compose": "x"}, "compose"),
        ({"inject": 4}, "inject"),
        ({"layers": "sideways:3"}, "layers"),
        ({"min_confidence": 0.5, "free": True}, "min_confidence"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses", "/v1/corpora/papers/ask"])
def test_every_route_says_it_alike(client: TestClient, extension: dict[str, object], field: str, path: str) -> None:
    filled(client)
    said = {"messages": [{"role": "user", "content": "Where?"}], "input": "Where?"}
    body = {"model": "tiny", **said, "precog": {"corpus": "papers", **extension}}
    answer = client.post(path, json={"question": "Where?", **extension} if path.endswith("ask") else body)
    assert answer.status_code in (400, 422), answer.text
    assert field in answer.text
    assert "--" not in answer.text


@pytest.mark.parametrize(
    ("error", "message", "given", "hint"),
    [
        (CorpusError("it is damaged", given="/srv/a/b/papers", hint="precog reindex --corpus DIR"), "", "papers", None),
        (StorageError("disk full: /srv/a/b/c.db", hint="run the same command again"), "disk full: c.db", None, "send"),
        (BusyError("in use", given="/srv/a/b, process 42", hint="wait"), "in use", "b", "wait"),
        (InputError("no such file", given="/srv/a/b"), "no such file", "/srv/a/b", None),
        (InputError("no such document", given="--my-file"), "", "--my-file", None),
        (UsageError("they differ", given="--top-k 3"), "", "top_k 3", None),
        (UsageError("no", hint="say where it is: --model DIR"), "", None, None),
        (AccessError("not there", hint="start it with --allow-root"), "", None, "--allow-root"),
    ],
)
def test_what_only_the_machine_knows_is_left_out(
    error: PrecogError, message: str, given: str | None, hint: str | None
) -> None:
    told = reworded(error)
    assert message in told.message
    assert told.given == given
    assert hint in (told.hint or "") if hint is not None else told.hint is None
    assert reworded(told).to_json() == told.to_json()
    assert type(told) is type(error)


def test_what_is_gone_is_told_as_that(tmp_path: Path) -> None:
    with pytest.raises(PrecogError, match="deleted meanwhile") as raised, in_requests_words(tmp_path / "x", "papers"):
        raise CorpusError("cannot be opened", given=tmp_path / "x")
    assert raised.value.given == "papers"
    with pytest.raises(CorpusError) as found, in_requests_words(tmp_path, "papers"):
        raise CorpusError("cannot be opened", given=tmp_path)
    assert found.value.given == "papers"
