"""Files of this machine that are read by their path: whatever becomes of a path meanwhile, nothing else is read."""

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from precog.errors import DocumentError
from precog.text.sources import Source

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a pipe is opened at once, and refused then


@dataclass(frozen=True, slots=True, kw_only=True)
class RootedSource(Source):
    """A file below a folder, which no link leads out of: not even one that is put in its way while it is opened.

    Attributes:
        root: the folder, real.
    """

    root: Path

    def open(self) -> BinaryIO:
        """Its bytes from the beginning.

        Raises:
            DocumentError: it cannot be opened, is no file any more, or a link is in its way.
        """
        assert self.path is not None
        try:
            *folders, name = self.path.relative_to(self.root).parts
            above = os.open(self.root, _FOLDER)
            try:
                for folder in folders:
                    below = os.open(folder, _FOLDER, dir_fd=above)
                    os.close(above)
                    above = below
                opened = os.fdopen(os.open(name, _FILE, dir_fd=above), "rb")
            finally:
                os.close(above)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is elsewhere now"
            raise DocumentError("it cannot be opened", given=self.name, hint=reason) from error
        if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            opened.close()
            raise DocumentError("it cannot be opened", given=self.name, hint="it is no file any more")
        return opened


def rooted(sources: Iterable[Source], roots: Iterable[Path]) -> tuple[Source, ...]:
    """The same files, each held to the folder that it is really below; what is below none is left out.

    Args:
        sources: files.
        roots: folders.
    """
    real = [Path(os.path.realpath(root)) for root in roots]
    found = []
    for source in sources:
        path = Path(os.path.realpath(source.path or ""))
        root = next((root for root in real if path.is_relative_to(root)), None)
        if root is not None and source.path is not None:
            found.append(RootedSource(source.name, path, root=root))
    return tuple(found)
