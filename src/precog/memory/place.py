"""Where a user's memory is: a folder of its own, whose name does not say whose it is (law 10)."""

import hashlib
from pathlib import Path

from precog.errors import CorpusError, UsageError
from precog.store.failure import guarded
from precog.store.folder import make_folder

_NAME_CHARS = 32


def memory_folder(home: Path, user: str) -> Path:
    """The folder of a user's memory below the home folder of the program.

    Raises:
        UsageError: the user has no name.
    """
    if not user.strip():
        raise UsageError("whose memory?", given=repr(user), expected="--user NAME")
    return home / "memory" / hashlib.sha256(user.encode("utf-8", "surrogatepass")).hexdigest()[:_NAME_CHARS]


def existing_folder(home: Path, user: str) -> Path:
    """The folder of a memory that is there.

    Raises:
        CorpusError: nothing has been remembered for that user.
    """
    folder = memory_folder(home, user)
    if not folder.is_dir():
        hint = "remember something first: precog memory remember TEXT --user NAME"
        raise CorpusError("there is no memory of this user", given=user, hint=hint)
    return folder


def make_place(folder: Path) -> None:
    """Makes what is above a memory's folder, readable by its owner alone.

    Raises:
        StorageError: the disk refuses.
    """
    with guarded(folder.parent):
        folder.parent.parent.mkdir(parents=True, exist_ok=True)
        make_folder(folder.parent)
