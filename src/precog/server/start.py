"""What must hold before a server takes requests; everything that can be wrong is told at once, in one line."""

import asyncio
import errno
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from precog.errors import CorpusError, PrecogError, UsageError
from precog.server.data_folder import data_folder
from precog.server.keys import KEYS_FILE, KeyRing
from precog.server.settings import ServerSettings
from precog.server.tenant import check_name
from precog.store.folder import CorpusFolder

_NOT_OURS = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, socket.EAI_NONAME, socket.EAI_AGAIN)


@contextmanager
def prepared(settings: ServerSettings, *, say: Callable[[str], None] = lambda line: None) -> Iterator[None]:
    """Inside, the data folder is this server's alone, of the present format, and its settings make sense.

    Args:
        settings: of the server.
        say: told in a line what is done to an older data folder.

    Raises:
        UsageError: an address that others can reach, and no key; a folder that is none.
        CorpusError: something shared is no corpus; or the data folder has a newer format.
        BusyError: another server uses the data folder.
        StorageError: the data folder cannot be used, or the keys are damaged.
        PortError: the address cannot be listened on.
    """
    for name, folder in settings.shared.items():
        check_name(name)
        _check_shared(name, CorpusFolder(folder))
    for root in settings.allow_roots:
        if not root.is_dir():
            raise UsageError("--allow-root: it is no folder", given=root, expected="a folder")
    if settings.is_loopback:
        asyncio.run(_probe(settings))
    with data_folder(settings.data, say=say):
        check_listening(settings)
        yield


def check_listening(settings: ServerSettings) -> None:
    """Whether the address may be listened on, and can be.

    Raises:
        UsageError: others can reach it, and there is no key.
        StorageError: the keys are damaged.
        PortError: it cannot be listened on.
    """
    ring = KeyRing(settings.data)
    if not settings.is_loopback and not ring.usable:
        raise UsageError(
            "an address that others can reach needs keys, and there are none",
            given=f"--host {settings.host}, keys in {settings.data / KEYS_FILE}",
            hint="`precog keys create --user NAME` makes one; or listen on 127.0.0.1",
        )
    asyncio.run(_probe(settings))


def _check_shared(name: str, folder: CorpusFolder) -> None:
    try:
        _ = folder.current
    except CorpusError as error:
        given = f"{name}={folder.path} (--share, or shared among the settings of the server)"
        raise CorpusError(f"what is shared is no corpus: {error.message}", given=given, hint=error.hint) from error


async def _probe(settings: ServerSettings) -> None:
    """Whether the address can be listened on: before anything is made or loaded."""
    try:
        probe = await asyncio.get_running_loop().create_server(
            asyncio.Protocol, settings.host, settings.port, start_serving=False
        )
    except (OSError, UnicodeError) as error:
        given = f"--host {settings.host} --port {settings.port} ({getattr(error, 'strerror', None) or error})"
        hint = "another program may listen there: choose another --port, or 0 for any that is free"
        if not isinstance(error, OSError) or error.errno in _NOT_OURS:
            hint = "--host is an address or a name of this machine: 127.0.0.1 for itself alone, 0.0.0.0 for all"
        elif error.errno == errno.EACCES:
            hint = "low ports are the administrator's: choose another --port, 1024 or more"
        raise PortError("this address cannot be listened on", given=given, hint=hint) from error
    probe.close()
    await probe.wait_closed()


class PortError(PrecogError):
    """An address that is taken, or is none of this machine's."""

    code = "port"
