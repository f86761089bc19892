"""The proof that nothing of something is left in a folder: every byte of every file is searched for it.

What is found is then looked for in what stays: a sentence that somebody else has said, too, or a state that another
deposit shares is told apart, and only what nothing accounts for is a hit.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
from jaxtyping import Int64

from precog.errors import CorpusError
from precog.store.belongings import refuse_links
from precog.store.needles import Needles

OnBytes = Callable[[int, int], None]
"""So many bytes of so many are searched."""
Left = Iterable[tuple[str, npt.NDArray[np.generic] | bytes]]
"""What stays: whose it is, "" for what is not to be named, and its bytes."""


@dataclass(frozen=True)
class SearchReport:
    """What a search of a folder has read and found.

    Attributes:
        files_searched: every regular file below the folder.
        bytes_searched: their sizes, summed.
        searched_for: distinct byte strings.
        hits: how many of them are still somewhere, and nothing that stays accounts for it.
        hit_files: where.
        also: who says some of the same, and how many of the byte strings.
    """

    files_searched: int
    bytes_searched: int
    searched_for: int
    hits: int
    hit_files: list[str] = field(default_factory=list)
    also: dict[str, int] = field(default_factory=dict)


def search_folder(
    folder: Path,
    needles: Needles,
    left: Callable[[], Left] = tuple,
    on_bytes: OnBytes = lambda done, total: None,
) -> SearchReport:
    """Looks for all of the needles in every byte of every file below ``folder``.

    Args:
        folder: with all that is below it.
        needles: what must not be there.
        left: what stays in the folder; asked for only where something was found.
        on_bytes: told how far it is.

    Raises:
        CorpusError: a file cannot be read, or a link is in the place of one, so that it lies elsewhere.
    """
    refuse_links(folder, "folder")
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()]
    total = sum(_size(path) for path in paths)
    found: dict[str, Int64[np.ndarray, " k"]] = {}
    num_files = num_bytes = 0
    for path in paths:
        try:
            numbers, size = needles.numbers_in_file(path, partial(_told, on_bytes, num_bytes, total))
        except FileNotFoundError:  # SQLite's log, which goes with the last reader
            continue
        except OSError as error:
            raise CorpusError(f"a file cannot be searched: {path} ({error.strerror})") from error
        num_files, num_bytes = num_files + 1, num_bytes + size
        if len(numbers):
            found[str(path)] = numbers
    suspects = np.unique(np.concatenate([*found.values(), np.empty(0, np.int64)]))
    accounted, also = _accounted(needles.only(suspects), left) if len(suspects) else (np.empty(0, np.bool_), {})
    hits = suspects[~accounted]
    hit_files = [name for name, numbers in found.items() if np.isin(numbers, hits).any()]
    return SearchReport(num_files, num_bytes, len(needles), len(hits), hit_files, also)


def _accounted(suspects: Needles, left: Callable[[], Left]) -> tuple[npt.NDArray[np.bool_], dict[str, int]]:
    """Which of them belong to what stays, and to whom: numbers of a part of the needles rise as theirs do."""
    accounted = np.zeros(len(suspects), np.bool_)
    whose: dict[str, set[int]] = {}
    for name, data in left():
        numbers = suspects.numbers_in(data)
        if len(numbers):
            accounted[numbers] = True
            if name:
                whose.setdefault(name, set()).update(numbers.tolist())
    return accounted, {name: len(numbers) for name, numbers in whose.items()}


def _told(on_bytes: OnBytes, before: int, total: int, done: int) -> None:
    on_bytes(before + done, total)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
