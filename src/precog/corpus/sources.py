"""Where the documents of a corpus stand on the disk today."""

import os
import re

_ESCAPE = re.compile(rb"\\(?:\\|x([0-9a-f]{2}))")
STDIN = "stdin"


def path_of(source: str) -> bytes | None:
    r"""The file of a source's printable name (backslashes doubled, ``\xNN`` for bytes); None for standard input."""
    if source == STDIN:
        return None
    return _ESCAPE.sub(lambda m: b"\\" if m[1] is None else bytes([int(m[1], 16)]), source.encode())


def title_of(source: str) -> str:
    """The words of a document's file name, without its ending; "" for standard input."""
    path = path_of(source)
    if path is None:
        return ""
    name = os.path.splitext(os.path.basename(path))[0].decode("utf-8", "replace")
    return " ".join(name.replace("_", " ").replace("-", " ").split())


def has_vanished(source: str) -> bool:
    """Whether a document was read from a file that is no longer there; what has no absolute path came from no file."""
    path = path_of(source)
    return path is not None and os.path.isabs(path) and not os.path.lexists(path)
