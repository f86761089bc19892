"""The plug-in of ``llm``, as its command line finds and uses it."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import llm
import pytest
from declared import environment

from precog.memory.utterance import Utterance
from precog.plugins.knowledge import Knowledge
from precog.plugins.llm import Precog

Ended = subprocess.CompletedProcess[str]


def test_a_model_answers_and_tells_its_sources(corpus: str) -> None:
    model = Precog()
    answer = model.prompt("Who built the lighthouse?", corpus=corpus, always_answer=True)
    assert answer.text() in "The lighthouse of Marrow was built in 1843 by Ada Quill. Its lamp burns whale oil."
    assert answer.response_json is not None
    assert "Ada Quill" in answer.response_json["sources"][0]["text"]
    pieces = list(model.prompt("Who?", corpus=corpus, free=True))
    assert len(pieces) > 2
    with pytest.raises(llm.ModelError, match="no corpus here"):
        model.prompt("Who?", corpus=corpus + "-none").text()


def test_a_memory_is_asked_too() -> None:
    with Knowledge(user="ana") as knowledge:
        knowledge.remember([Utterance("Clara moved to Lisbon.", None)])
    answer = Precog().prompt("Where did Clara move?", user="ana", always_answer=True)
    assert answer.text()
    assert answer.response_json is not None
    assert answer.response_json["evidence"][0]["text"] == "Clara moved to Lisbon."


def test_a_conversation_is_read_where_the_model_is_asked_alone() -> None:
    conversation = Precog().conversation()
    first = conversation.prompt("Who?")
    assert first.text()
    then = conversation.prompt("Who?")
    assert then.text()
    assert first.response_json is not None
    assert then.response_json is not None
    assert then.response_json["tokens_processed"] > first.response_json["tokens_processed"]


@pytest.fixture
def run(repository: Path, tmp_path: Path) -> Callable[..., Ended]:
    """The program with what pyproject.toml declares, installed or not."""
    found = environment(repository, tmp_path)

    def started(*arguments: str) -> Ended:
        command = [sys.executable, "-m", "llm", *arguments]
        return subprocess.run(command, env=found, stdin=subprocess.DEVNULL, capture_output=True, text=True)

    return started


def test_the_command_line_knows_the_model_and_says_what_is_wrong_in_a_line(
    run: Callable[..., Ended], corpus: str
) -> None:
    asked = run("-m", "precog", "Who built the lighthouse?", "-o", "corpus", corpus, "-o", "always_answer", "1")
    assert asked.returncode == 0, asked.stderr
    assert asked.stdout.strip()
    logged = json.loads(run("logs", "-n", "1", "--json").stdout)
    assert (logged[0]["model"], logged[0]["resolved_model"]) == ("precog", "tiny")
    refused = run("-m", "precog", "Who?", "-o", "corpus", corpus + "-none")
    assert refused.returncode == 1
    assert refused.stderr.count("\n") == 1
    assert "there is no corpus here" in refused.stderr


def test_declaring_the_model_loads_nothing_heavy() -> None:
    program = "import sys, precog.plugins.llm; print({'torch', 'onnxruntime', 'faiss'}.intersection(sys.modules))"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "set()"
