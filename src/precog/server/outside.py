"""What is forgotten outside of a server, by the command line or a plug-in: the server's stored responses that read it.

Folders of responses may be used by several processes: the server may run meanwhile, and what it answers at the moment
from what is forgotten is not stored.
"""

from os.path import samefile
from pathlib import Path

from precog.server.data_folder import FORMAT_FILE
from precog.server.settings import ServerSettings
from precog.server.tenant import response_folders
from precog.store.responses import ResponseFolder

_USERS, _CORPORA, _RESPONSES = "users", "corpora", "responses"


def forget_responses_of_corpus(settings: ServerSettings, folder: Path) -> int:
    """Removes stored responses that have read a corpus; to be called once what they read is gone.

    Args:
        settings: of the server of this machine. A corpus in the data folder of another one is known by where it is.
        folder: of the corpus: a user's, or one that is shared by the settings.

    Returns:
        How many were removed.

    Raises:
        StorageError: the disk refuses.
    """
    folder = folder.resolve()
    removed = 0
    if _is_users(folder):
        removed += ResponseFolder(folder.parents[1] / _RESPONSES).forget_using("corpus", folder.name)
    for name, shared in settings.shared.items():
        if shared.exists() and samefile(shared, folder):
            removed += sum(ResponseFolder(path).forget_using("corpus", name) for path in response_folders(settings))
    return removed


def forget_responses_of_memory(settings: ServerSettings, folder: Path) -> int:
    """Removes stored responses that have read a memory; to be called once what they read is gone.

    Args:
        settings: of the server of this machine.
        folder: of the memory, or where it was: a user's folders have one name in both places.

    Returns:
        How many were removed.

    Raises:
        StorageError: the disk refuses.
    """
    of_user = settings.data / _USERS / folder.name
    return ResponseFolder(of_user / _RESPONSES).forget_using("memory") if of_user.is_dir() else 0


def _is_users(folder: Path) -> bool:
    """Whether a corpus lies in the data folder of a server, ``DATA/users/…/corpora/NAME``."""
    above = folder.parents
    is_placed = len(above) > 3 and (above[0].name, above[2].name) == (_CORPORA, _USERS)
    return is_placed and (above[3] / FORMAT_FILE).is_file()
