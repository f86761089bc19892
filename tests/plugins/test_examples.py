"""Every example runs as it stands, and is short."""

import subprocess
import sys
from pathlib import Path

import pytest
from declared import environment

SAID = {
    "mcp_client.py": "forgotten: deposit 1",
    "with_langchain.py": "lighthouse.txt",
    "with_llamaindex.py": "Clara moved to Lisbon in May.",
    "with_haystack.py": "lighthouse.txt",
    "with_llm.py": "lighthouse.txt",
}
MOST_LINES = 25


def test_every_example_is_run_and_documented(repository: Path) -> None:
    files = {path.name for path in (repository / "examples").glob("*.py")}
    assert files == set(SAID)
    guide = (repository / "docs" / "plugins.md").read_text(encoding="utf-8")
    assert not [name for name in files if f"examples/{name}" not in guide]


@pytest.mark.parametrize("name", SAID)
def test_an_example_runs(name: str, repository: Path, corpus: str, tmp_path: Path) -> None:
    script = repository / "examples" / name
    assert script.read_text(encoding="utf-8").count("\n") <= MOST_LINES
    ended = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:__main__", script, corpus],
        env=environment(repository, tmp_path),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert SAID[name] in ended.stdout
