"""What belongs to one user: nothing outside these folders is ever theirs."""

import hashlib
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from precog.errors import InputError, MissingError
from precog.memory.place import memory_folder
from precog.server.settings import ServerSettings
from precog.store.folder import CorpusFolder, make_folder

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


def check_name(name: str) -> str:
    """A name that may become a folder.

    Raises:
        InputError: it may not.
    """
    if not NAME.fullmatch(name):
        expected = "1 to 63 of a–z, 0–9, - and _, the first a letter or digit"
        raise InputError("this is no name of a corpus", given=name[:80], expected=expected)
    return name


def folder_name(user: str) -> str:
    """Name of the folder of a user, which does not say who it is."""
    return hashlib.sha256(user.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def make_private(folder: Path) -> None:
    """Makes a folder and those above it that are missing, all of mode 0700, so that nobody may so much as list them."""
    for path in (*reversed([parent for parent in folder.parents if not parent.exists()]), folder):
        make_folder(path)


def remove_leftovers(users: Path) -> None:
    """Removes what was being deleted when the server was killed."""
    for folder in users.glob("*/removed"):
        shutil.rmtree(folder, ignore_errors=True)


def response_folders(settings: ServerSettings) -> list[Path]:
    """Folders of stored responses, of all users."""
    return sorted((settings.data / "users").glob("*/responses"))


@dataclass(frozen=True)
class Tenant:
    """The folders of one user.

    Attributes:
        settings: of the server.
        user: who.
    """

    settings: ServerSettings
    user: str

    @property
    def folder(self) -> Path:
        """Below which everything but the memory is; its name does not say whose it is (law 10)."""
        return self.settings.data / "users" / folder_name(self.user)

    @property
    def has_things(self) -> bool:
        """Whether anything of the user's is kept."""
        return self.memory.exists() or any(path.is_file() for path in self.folder.glob("**/*"))

    @property
    def corpora(self) -> Path:
        """Folder of the user's corpora."""
        return self.folder / "corpora"

    @property
    def jobs(self) -> Path:
        """Folder of the user's jobs, with the uploads that wait to be ingested."""
        return self.folder / "jobs"

    @property
    def removed(self) -> Path:
        """Folder of what is being deleted; a crash leaves it for the next start."""
        return self.folder / "removed"

    @property
    def memory(self) -> Path:
        """Folder of the user's memory, where `precog memory` has it too; there or not."""
        return memory_folder(self.settings.home, self.user)

    @property
    def responses(self) -> Path:
        """Folder of the user's stored responses."""
        return self.folder / "responses"

    def own_corpus(self, name: str) -> Path:
        """Folder of a corpus of the user's, there or not.

        Raises:
            InputError: that is no name.
        """
        return self.corpora / check_name(name)

    def corpus(self, name: str) -> Path:
        """Folder of a corpus that the user may read: the user's own, else one that is shared.

        Raises:
            MissingError: there is none.
        """
        own = self.own_corpus(name)
        if CorpusFolder(own).exists:
            return own
        if name in self.settings.shared:
            return self.settings.shared[name]
        raise MissingError("there is no such corpus", given=name, hint="GET /v1/corpora lists yours")
