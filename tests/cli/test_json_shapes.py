"""The shapes of what commands print, as scripts rely on them: fields may be added, never renamed."""

from pathlib import Path
from typing import Any

import pytest
from ended import Run

Shape = dict[str, Any]

SOURCE: Shape = {"document": str, "page": (int, type(None)), "span": [int], "score": float, "text": str}
INDEX: Shape = {
    "documents": {"new": int, "changed": int, "unchanged": int, "failed": int, "missing": int},
    "chunks": int,
    "tokens": int,
    "bytes": int,
    "tokens_per_sec": float,
    "failures": [{"document": str, "reason": str}],
    "passed_over": [{"document": str, "reason": str}],
    "studied": int,
    "refined": int,
    "kept_as_read": dict,
}
ASK: Shape = {
    "question": str,
    "text": str,
    "sources": [SOURCE],
    "citation": {"source": int, "document": str, "page": (int, type(None)), "span": [int]},
    "model": str,
    "mode": str,
    "composition": {"rule": str, "exact": bool, "refined": bool, "members": [{"source": int, "weight": float}]},
    "confidence": (float, type(None)),
    "abstained": bool,
    "looked_at": [SOURCE],
    "tokens_processed": int,
    "timings_sec": {
        "startup": float,
        "encode": float,
        "search": float,
        "load": float,
        "inject": float,
        "first_token": float,
        "per_token": float,
        "injection_overhead": float,
        "ttft": float,
        "total": float,
    },
}
VERIFY: Shape = {
    "ok": bool,
    "model": str,
    "fingerprint": str,
    "max_abs_logit_error": {"fp32": float, "fp16": float},
    "bound": {"fp32": float, "fp16": float},
    "cuts": int,
    "records_checked": int,
    "records_refined": int,
    "violations": [str],
}
FORGET: Shape = {
    "forgotten": [str],
    "files_searched": int,
    "bytes_searched": int,
    "hits": int,
    "outside": [dict],
    "responses": int,
}
LIST: Shape = {"documents": [{"document": str, "status": str, "chunks": int, "reason": (str, type(None))}]}
INFO: Shape = {"documents": int, "failed": int, "chunks": int, "states": int, "tokens": int, "fingerprint": str}
ERROR: Shape = {
    "error": {
        "code": str,
        "message": str,
        "given": (str, type(None)),
        "expected": (str, type(None)),
        "hint": (str, type(None)),
    }
}


def check(value: object, shape: object, place: str = "") -> None:
    if isinstance(shape, dict):
        assert isinstance(value, dict), place
        for key, inner in shape.items():
            assert key in value, f"{place}.{key}"
            check(value[key], inner, f"{place}.{key}")
    elif isinstance(shape, list):
        assert isinstance(value, list), place
        for number, entry in enumerate(value):
            check(entry, shape[0], f"{place}[{number}]")
    else:
        types = shape if isinstance(shape, tuple) else (shape,)
        assert type(value) in types or (float in types and type(value) is int), f"{place}: {value!r}"


def test_index_search_ask_verify_forget(tmp_path: Path, docs: Path, model: Path, run: Run) -> None:
    (docs / "empty.txt").write_text("")
    where = ("--corpus", tmp_path / "c")
    first = run("index", docs, *where, "--model", model, "--json")
    check(first.json, INDEX)
    assert first.status == 0
    assert first.json["documents"] == {"new": 2, "changed": 0, "unchanged": 0, "failed": 1, "missing": 0}
    assert first.json["failures"] == [{"document": str(docs / "empty.txt"), "reason": "the file is empty"}]

    found = run("search", "Who made the wheel of the mill?", *where, "--json")
    check(found.json, {"hits": [SOURCE]})
    assert found.json["hits"][0]["document"].endswith("mill.txt")

    for mode in ("inject", "in-context"):
        asked = run("ask", "Who made the wheel of the mill?", *where, "--mode", mode, "--json")
        assert asked.status == 0
        check(asked.json, ASK)
        assert asked.json["mode"] == mode
        times = asked.json["timings_sec"]
        parts = sum(times[name] for name in ("encode", "search", "load", "inject"))
        assert times["injection_overhead"] == pytest.approx(parts, abs=5e-6)
        assert times["ttft"] == pytest.approx(parts + times["first_token"], abs=5e-6)
    free = run("ask", "Who?", *where, "--free", "--max-tokens", 3, "--json").json
    assert free["citation"] is None
    check({**free, "citation": asked.json["citation"]}, ASK)
    none = run("ask", "Who?", "--mode", "none", "--model", model, "--max-tokens", 3, "--json").json
    assert (none["sources"], none["composition"]["members"]) == ([], [])

    verified = run("verify", *where, "--chunks", 1, "--json")
    assert verified.status == 0
    check(verified.json, VERIFY)
    assert verified.json["ok"] is True

    check(run("list", *where, "--json").json, LIST)
    check(run("info", *where, "--json").json, INFO)
    check(run("models", "--json").json, {"models": [dict]})
    check(run("reindex", *where, "--json").json, INDEX)

    forgotten = run("forget", *where, "--document", docs / "mill.txt", "--json")
    assert forgotten.status == 0
    check(forgotten.json, FORGET)
    assert forgotten.json["forgotten"] == [str(docs / "mill.txt")]
    assert forgotten.json["hits"] == 0


@pytest.mark.parametrize(
    ("arguments", "status", "code"),
    [
        (["ask", "", "--corpus", "x", "--json"], 2, "usage"),
        (["ask", "Who?", "--corpus", "nowhere", "--json"], 1, "corpus"),
        (["ask", "Who?", "--json"], 2, "usage"),
        (["index", "--corpus", "x", "--json"], 2, "usage"),
        (["index", "nowhere", "--corpus", "x", "--json"], 1, "input"),
        (["verify", "--corpus", "nowhere", "--json"], 1, "corpus"),
        (["forget", "--corpus", "nowhere", "--document", "d", "--json"], 1, "corpus"),
        (["search", "--json"], 2, "usage"),
        (["search", "a", "--retrieval", "magic", "--json"], 2, "usage"),
        (["ask", "Who?", "--no-such-option", "--json"], 2, "usage"),
        (["no-such-command", "--json"], 2, "usage"),
        (["index", ".", "--corpus", "x", "--chunk-tokens", "many", "--json"], 2, "usage"),
    ],
)
def test_errors(
    arguments: list[str], status: int, code: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = run(*arguments)
    assert ended.status == status
    check(ended.json, ERROR)
    assert ended.json["error"]["code"] == code
    [line] = ended.err.splitlines()
    assert line.startswith("precog: ")
    assert list(tmp_path.iterdir()) == []
