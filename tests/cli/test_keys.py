"""`--keys`: what chunks are found by, from the command line."""

import json
from pathlib import Path

import pytest
from ended import Run


def test_a_corpus_keeps_its_keys_and_reindex_changes_them(run: Run, model: Path, docs: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "c"
    assert run("index", docs, "--corpus", corpus, "--model", model, "--keys", "text").status == 0
    assert "keys" not in run("info", "--corpus", corpus, "--json").json["settings"]  # as in every older corpus
    refused = run("index", docs, "--corpus", corpus, "--model", model, "--keys", "questions")
    assert refused.status == 2
    [line] = refused.err.splitlines()
    assert "made with another --keys; given: questions; expected: text" in line
    assert run("reindex", "--corpus", corpus, "--keys", "questions").status == 0
    told = run("info", "--corpus", corpus, "--json").json
    assert told["settings"]["keys"] == "questions"
    assert "found by its text and title, and the words of questions made from it" in " ".join(
        run("info", "--corpus", corpus).out.split()
    )
    assert run("index", docs, "--corpus", corpus, "--model", model).status == 0
    found = run("search", "Who built the lighthouse?", "--corpus", corpus, "--json").json
    assert found["hits"][0]["document"].endswith("lighthouse.md")


def test_a_new_corpus_is_found_by_titles(run: Run, model: Path, docs: Path, tmp_path: Path) -> None:
    assert run("index", docs, "--corpus", tmp_path / "c", "--model", model).status == 0
    assert run("info", "--corpus", tmp_path / "c", "--json").json["settings"]["keys"] == "title"
    (docs / "windmill.txt").write_text("It was painted blue.\n")
    assert run("index", docs, "--corpus", tmp_path / "c", "--model", model).status == 0
    found = run("search", "windmill", "--corpus", tmp_path / "c", "--retrieval", "bm25", "--json").json
    assert [hit["document"].rpartition("/")[2] for hit in found["hits"]] == ["windmill.txt"]


@pytest.mark.parametrize("command", ["index", "reindex"])
def test_keys_that_there_are_not_are_refused_before_anything_is_made(
    run: Run, model: Path, docs: Path, tmp_path: Path, command: str
) -> None:
    ended = run(command, *([docs] if command == "index" else []), "--corpus", tmp_path / "c", "--keys", "answers")
    assert ended.status == 2
    [line] = ended.err.splitlines()
    assert "--keys: no such choice; given: answers; expected: text, title, questions" in line
    assert not (tmp_path / "c").exists()


ROWS = [
    {"id": "a", "title": "t", "context": "Ada Quill built the lighthouse in 1843.", "question": "Who built it?"},
    {"id": "b", "title": "t", "context": "The river Ouse turns the mill.", "question": "What turns the mill?"},
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    lines = [json.dumps({**row, "context_detok": row["context"], "answers": ["Ada Quill"]}) for row in ROWS]
    (tmp_path / "q.jsonl").write_text("\n".join(lines))
    return tmp_path / "q.jsonl"


@pytest.mark.parametrize("form", ["squad", "nq"])
def test_eval_keys_in_json_and_in_a_table(run: Run, data: Path, tmp_path: Path, form: str) -> None:
    arguments = ["eval", "keys", "--data", data, "--form", form, "--limit", 2, "--keys-folder", tmp_path]
    ended = run(*arguments, "--json")
    assert ended.status == 0, ended.err
    assert ended.json["n"] == 2
    assert {row["retrieval"] for row in ended.json["rows"]} == {"dense", "bm25", "hybrid"}
    assert list(tmp_path.glob("keys-*.npz"))
    shown = run(*arguments)
    assert "2 questions, 2 paragraphs" in shown.out
    assert "title+questions: " in shown.out


def test_eval_keys_of_another_form_is_one_line(run: Run, data: Path) -> None:
    ended = run("eval", "keys", "--data", data, "--form", "trec")
    assert ended.status == 2
    assert "--form: no such file; given: trec; expected: squad or nq" in ended.err
