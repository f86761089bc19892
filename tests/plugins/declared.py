"""The entry points of pyproject.toml for processes that tests start, whether the package is installed or not."""

import os
import tomllib
from pathlib import Path


def environment(repository: Path, folder: Path) -> dict[str, str]:
    """Variables of a process that finds them."""
    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))
    lines = [f"{name} = {where}" for name, where in project["project"]["entry-points"]["llm"].items()]
    metadata = folder / "site" / "declared-0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: declared\nVersion: 0\n")
    (metadata / "entry_points.txt").write_text("\n".join(["[llm]", *lines]) + "\n")
    paths = [str(folder / "site"), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "LLM_USER_PATH": str(folder)}
