"""Without the extra ``server`` the command line says what to install, and backups work all the same."""

import json
import os
import subprocess
import sys
from pathlib import Path

from ended import Run

PROGRAM = """
import json, sys
for name in ("fastapi", "starlette", "uvicorn", "python_multipart", "prometheus_client"):
    sys.modules[name] = None
from precog.cli.main import main
ended = []
for arguments in json.loads(sys.argv[1]):
    try:
        main(arguments)
    except SystemExit as end:
        ended.append((arguments[0], end.code, "torch" in sys.modules))
print(json.dumps(ended))
"""


def test_serve_says_what_to_install_and_backups_need_neither_it_nor_torch(
    tmp_path: Path, model: Path, run: Run
) -> None:
    assert run("memory", "remember", "Clara moved to Lisbon.", "--user", "ana", "--model", model).status == 0
    backup = str(tmp_path / "b.tar.zst")
    commands = [
        ["backup", "--out", backup, "--json"],
        ["restore", backup, "--data", str(tmp_path / "data"), "--json"],
        ["serve"],
    ]
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(commands)],
        capture_output=True,
        text=True,
        env={**os.environ},
        check=True,
        timeout=120,
    )
    found = json.loads(ended.stdout.splitlines()[-1])
    assert found[0] == ["backup", 0, False], ended.stderr
    assert found[1] == ["restore", 1, False]  # the memory is still there
    assert found[2][:2] == ["serve", 2]
    refused = ended.stderr.splitlines()[-1]
    assert refused.startswith("precog: `precog serve` needs a package that is not installed; given: ")
    assert refused.endswith("pip install 'precog-ssm[server]'")
