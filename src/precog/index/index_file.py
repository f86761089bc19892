"""Index files: named arrays with a checksum, a commit of the catalogue and a tag, written atomically.

::

    0   magic "PRECOGIX"
    8   format version (u32), CRC32 of everything from byte 16 (u32)
    16  bytes of the JSON header (u32)
    20  JSON header {"kind", "generation", "commit", "tag", "parts": [[name, dtype, shape], …]}, then the parts,
        little-endian

An index can always be rebuilt from the catalogue, so whatever is wrong with a file is one error: ``StaleIndexError``.
"""

import json
import math
import os
import struct
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from precog.errors import CorpusError, StorageError
from precog.writing import open_new

_MAGIC = b"PRECOGIX"
_VERSION = 1
_HEAD = struct.Struct("<8sII")
_LENGTH = struct.Struct("<I")
_BLOCK_BYTES = 1 << 20


class StaleIndexError(CorpusError):
    """An index file is missing, damaged, or belongs to another encoder or corpus; rebuild it."""

    code = "corpus.index"


class _CheckedWriter:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.crc = 0

    def write(self, data: bytes | memoryview) -> int:
        view = memoryview(data)
        self.crc = zlib.crc32(view, self.crc)
        while view:
            view = view[os.write(self._descriptor, view) :]
        return len(data)


Part = npt.NDArray[np.generic] | Callable[[Callable[[bytes], int]], None]
"""An array, or a function that streams bytes into the ``write`` it is given; only the last part may stream."""
CommitOf = Callable[[int], str | None]
"""The id of the commit that made a generation of the catalogue: "" where it has none, None where nobody knows."""


def without_ids(generation: int) -> str | None:
    """Of a catalogue that gives its commits no ids: its generations alone are told apart."""
    return ""


def write_index_file(
    path: Path, *, kind: str, generation: int, commit: str, tag: str, parts: Mapping[str, Part]
) -> None:
    """Writes an index file of mode 0600; the old one stays until the new one is complete on the disk.

    Raises:
        StorageError: the disk is full or refuses.
    """
    described = [
        [n, p.dtype.str, list(p.shape)] if isinstance(p, np.ndarray) else [n, "", []] for n, p in parts.items()
    ]
    named = {"kind": kind, "generation": generation, "commit": commit, "tag": tag, "parts": described}
    header = json.dumps(named).encode()
    temporary = path.with_name(path.name + ".tmp")
    try:
        temporary.unlink(missing_ok=True)  # of a killed writer: there is one writer at a time
        descriptor = open_new(temporary)
        try:
            os.write(descriptor, bytes(_HEAD.size))
            writer = _CheckedWriter(descriptor)
            writer.write(_LENGTH.pack(len(header)))
            writer.write(header)
            for part in parts.values():
                if isinstance(part, np.ndarray):
                    writer.write(np.ascontiguousarray(part).data.cast("B"))
                else:
                    part(writer.write)
            os.pwrite(descriptor, _HEAD.pack(_MAGIC, _VERSION, writer.crc), 0)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        hint = "nothing acknowledged was lost; free some space and run the same command again"
        raise StorageError("the index cannot be written", given=f"{path} ({error.strerror})", hint=hint) from error


class IndexFile:
    """A checked index file, open to read its parts in order.

    Attributes:
        generation: of the catalogue when the file was written.
    """

    def __init__(self, path: Path, *, kind: str, tag: str, commit_of: CommitOf = without_ids) -> None:
        """Opens and checks every byte.

        Raises:
            StaleIndexError: the file is missing, damaged, of another kind, made with another tag, or of a commit that
                the catalogue does not know: of a copy of the folder that went its own way.
        """
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise StaleIndexError("the index file is missing", given=f"{path} ({error.strerror})") from error
        try:
            self._check(path, kind, tag, commit_of)
        except BaseException:
            self._file.close()
            raise

    def _check(self, path: Path, kind: str, tag: str, commit_of: CommitOf) -> None:
        head = self._file.read(_HEAD.size)
        magic, version, expected = _HEAD.unpack(head) if len(head) == _HEAD.size else (b"", 0, 0)
        crc = 0
        while block := self._file.read(_BLOCK_BYTES):
            crc = zlib.crc32(block, crc)
        if magic != _MAGIC or version != _VERSION or crc != expected:
            raise StaleIndexError("the index file is damaged or of another version", given=path)
        self._file.seek(_HEAD.size)
        (header_bytes,) = _LENGTH.unpack(self._file.read(_LENGTH.size))
        header = json.loads(self._file.read(header_bytes))
        if header["kind"] != kind or header["tag"] != tag:
            given = f"{header['kind']} of {header['tag']}"
            raise StaleIndexError("the index file belongs to something else", given=given, expected=f"{kind} of {tag}")
        self.generation = int(header["generation"])
        if header.get("commit", "") != commit_of(self.generation):  # files of older versions name none
            given = f"{path}, generation {self.generation}"
            raise StaleIndexError("the index file belongs to another state of the catalogue", given=given)
        self._parts = list(header["parts"])

    def array(self, name: str) -> npt.NDArray[np.generic]:
        """The next part, which must have this name."""
        found, dtype, shape = self._parts.pop(0)
        assert found == name, f"parts are read in order: {found} comes before {name}"
        return np.fromfile(self._file, dtype, math.prod(shape)).reshape(shape)

    def read(self, num_bytes: int) -> bytes:
        """Bytes of the streamed last part."""
        return self._file.read(num_bytes)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
