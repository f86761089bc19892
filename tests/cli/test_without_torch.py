"""Commands that need no model start without torch, which takes a second."""

import json
import os
import subprocess
import sys
from pathlib import Path

from ended import Run

PROGRAM = """
import json, sys
from precog.cli.main import main
ended = []
for arguments in json.loads(sys.argv[1]):
    try:
        main(arguments)
    except SystemExit as end:
        ended.append((arguments[:2], end.code, "torch" in sys.modules))
print(json.dumps(ended))
"""


def test_what_needs_no_model_loads_no_torch(tmp_path: Path, corpus: Path, model: Path, run: Run) -> None:
    home = Path(os.environ["PRECOG_HOME"])
    assert run("memory", "remember", "Clara moved to Lisbon.", "--user", "ana", "--model", model).status == 0
    archive = str(tmp_path / "a.jsonl")
    ana = ["--user", "ana", "--json"]
    commands = [
        ["search", "Who built the lighthouse?", "--corpus", str(corpus), "--json"],
        ["list", "--corpus", str(corpus), "--json"],
        ["memory", "recall", "Clara", *ana],
        ["memory", "list", *ana],
        ["memory", "show", "1", *ana],
        ["memory", "stats", *ana],
        ["memory", "--help"],
        ["memory", "export", archive, *ana],
        ["memory", "purge", "--yes", *ana],
    ]
    environment = {**os.environ, "PRECOG_HOME": str(home)}
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(commands)],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
        timeout=120,
    )
    found = json.loads(ended.stdout.splitlines()[-1])
    assert found == [[command[:2], 0, False] for command in commands]


def test_what_is_refused_for_its_words_is_refused_before_torch_is_loaded(tmp_path: Path) -> None:
    words = [[""], ["?"], ["x", "--time", "yesterday"], ["x", "--file", "y"], [], ["--file", "none.txt"]]
    commands = [["memory", "remember", *own, "--user", "ana"] for own in words]
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(commands)],
        capture_output=True,
        text=True,
        env={**os.environ, "PRECOG_HOME": str(tmp_path)},
        check=True,
        timeout=120,
    )
    found = json.loads(ended.stdout.splitlines()[-1])
    assert [entry[2] for entry in found] == [False] * len(words)
    assert all(entry[1] in (1, 2) for entry in found)
    assert len(ended.stderr.splitlines()) == len(words)


def test_what_is_remembered_is_said_where_output_cannot_be_written(model: Path, tmp_path: Path) -> None:
    command = ["memory", "remember", "Clara moved.", "--user", "ana", "--model", str(model), "--json"]
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "precog", *command],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PRECOG_HOME": str(tmp_path)},
            timeout=120,
        )
    assert ended.returncode == 1
    assert "standard output cannot be written; No space left on device; what was said is remembered" in ended.stderr
