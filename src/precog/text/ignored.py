"""The `.gitignore` files that apply to a folder, as git applies them."""

import os
from pathlib import Path

from pathspec import GitIgnoreSpec


class IgnoreRules:
    """The rules for everything below ``root``, from its own `.gitignore` files and those of the repository around it.

    The deepest file that says anything about a path decides. A root that the repository itself ignores was named on
    purpose: the files above it are then left out. A pattern that cannot be read is passed over.
    """

    def __init__(self, root: Path) -> None:
        self._root = Path(os.path.abspath(root))
        self._specs: dict[Path, GitIgnoreSpec | None] = {}
        self._top = self._root
        around = (self._root, *self._root.parents)
        repository = next((folder for folder in around if os.path.exists(folder / ".git")), None)
        if repository is not None and not self._ignored_above(repository):
            self._top = repository

    def ignores(self, path: Path, is_folder: bool) -> bool:
        """Whether a path whose parent folder is not ignored is."""
        path = Path(os.path.abspath(path))
        return self._decide(path, is_folder, self._top)

    def _ignored_above(self, repository: Path) -> bool:
        steps = [self._root, *self._root.parents]
        between = steps[: steps.index(repository)]
        return any(self._decide(folder, True, repository) for folder in between)

    def _decide(self, path: Path, is_folder: bool, top: Path) -> bool:
        for folder in path.parents:
            spec = self._spec(folder)
            if spec is not None:
                relative = path.relative_to(folder).as_posix() + ("/" if is_folder else "")
                verdict = spec.check_file(relative).include
                if verdict is not None:
                    return verdict
            if folder == top:
                break
        return False

    def _spec(self, folder: Path) -> GitIgnoreSpec | None:
        if folder not in self._specs:
            self._specs[folder] = _read(folder / ".gitignore")
        return self._specs[folder]


def _read(path: Path) -> GitIgnoreSpec | None:
    try:
        lines = path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    try:
        return GitIgnoreSpec.from_lines(lines)
    except ValueError:
        return GitIgnoreSpec.from_lines(line for line in lines if _is_readable(line))


def _is_readable(line: str) -> bool:
    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True
