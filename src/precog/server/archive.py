"""The file of a backup: one compressed tar, written and read as a stream.

::

    backup.json                          {"backup": "precog", "format": 1}
    data/0001/segments/000000.seg@4096   records of a segment file, and where they stand in it
    data/0001/catalogue.sqlite           of the same folder
    data/0002                            any other file
    home/0003/…                          of a memory
    manifest.json                        where everything belongs, and the sha256 of every entry before
    manifest.sha256                      of that

Names in the tar are numbers: nothing in it says a path that is written to before the manifest has been checked.
"""

import contextlib
import gzip
import hashlib
import io
import json
import re
import tarfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, BinaryIO, cast

import zstandard

from precog.errors import CorpusError, InputError

FORMAT = 1
HEAD, MANIFEST, SEAL = "backup.json", "manifest.json", "manifest.sha256"
ENTRY = re.compile(r"(data|home)/([0-9]{4,9})(?:/(?:catalogue\.sqlite|segments/([0-9]{6,12}\.seg)@([0-9]{1,15})))?")
_MOST_JSON_BYTES = 1 << 30
_GZIP_MAGIC, _ZSTD_MAGIC = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_BLOCK = 1 << 20
_DAMAGED = (tarfile.TarError, zstandard.ZstdError, zlib.error, EOFError, gzip.BadGzipFile)


class ArchiveWriter:
    """Writes entries, and at the end what there was; its block closes what compresses.

    Args:
        file: to write to.
        is_gzip: whether it is compressed with gzip, else with Zstandard.
    """

    def __init__(self, file: BinaryIO, *, is_gzip: bool) -> None:
        if is_gzip:
            packed: object = gzip.GzipFile(fileobj=file, mode="wb", compresslevel=1, mtime=0)
        else:
            packer = zstandard.ZstdCompressor(level=1, write_checksum=True)
            packed = packer.stream_writer(file, closefd=False)
        self._packed = cast(IO[bytes], packed)
        self._entries: dict[str, dict[str, object]] = {}
        self._add(HEAD, json.dumps({"backup": "precog", "format": FORMAT}).encode())

    def __enter__(self) -> "ArchiveWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):  # after an error; whoever made the file drops it
            self._packed.close()

    def add(self, name: str, data: bytes) -> None:
        """One entry."""
        self._entries[name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        self._add(name, data)

    def add_file(self, name: str, path: Path) -> int:
        """The bytes of a file that nobody writes to any more; returns how many."""
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            size = file.tell()
            self._entries[name] = {"bytes": size, "sha256": digest}
            file.seek(0)
            self._begin(name, size)
            while block := file.read(_BLOCK):
                self._packed.write(block)
            self._pad(size)
        return size

    def close(self, manifest: dict[str, object]) -> None:
        """Writes what belongs where, and ends the archive."""
        text = json.dumps({**manifest, "format": FORMAT, "entries": self._entries}, sort_keys=True).encode()
        self._add(MANIFEST, text)
        self._add(SEAL, hashlib.sha256(text).hexdigest().encode())
        self._packed.write(bytes(2 * tarfile.BLOCKSIZE))
        self._packed.close()

    def _add(self, name: str, data: bytes) -> None:
        self._begin(name, len(data))
        self._packed.write(data)
        self._pad(len(data))

    def _begin(self, name: str, size: int) -> None:
        made = tarfile.TarInfo(name)
        made.size, made.mode = size, 0o600
        self._packed.write(made.tobuf())

    def _pad(self, size: int) -> None:
        self._packed.write(bytes(-size % tarfile.BLOCKSIZE))


@dataclass(frozen=True)
class Entry:
    """One entry of an archive that is being read.

    Attributes:
        name: of it; matches `ENTRY`.
        blocks: its bytes; to be taken before the next entry is.
    """

    name: str
    blocks: Iterator[bytes]


class ArchiveReader:
    """Reads an archive from front to back, and compares every byte with what was written.

    Attributes:
        manifest: what the archive says of itself, once `entries` has been taken to the end.
    """

    def __init__(self, path: Path, on_bytes: Callable[[int], None] = lambda done: None) -> None:
        self._path, self._on_bytes = path, on_bytes
        self._seen: dict[str, dict[str, object]] = {}
        self.manifest: dict[str, object] = {}

    def entries(self) -> Iterator[Entry]:
        """All entries before the manifest, then the checks of everything.

        Raises:
            InputError: it is no backup, or damaged, or cut short, or holds what no backup holds.
            CorpusError: it was written by a newer version.
        """
        with self._reading(), self._path.open("rb") as file, _unpacked(file, self._path) as stream:
            with tarfile.open(fileobj=stream, mode="r|") as tar:
                yield from self._read(tar, file)
            while stream.read(_BLOCK):  # to the end, so that the checksum of the stream is compared, too
                pass

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except _DAMAGED as error:
            raise self._damaged(" ".join(str(error).split()) or type(error).__name__) from error
        except OSError as error:
            raise InputError("the backup cannot be read", given=f"{self._path}: {error.strerror or error}") from error

    def _read(self, tar: tarfile.TarFile, file: BinaryIO) -> Iterator[Entry]:
        seal, text, is_first = "", b"", True
        for found in tar:
            self._on_bytes(file.tell())
            if not found.isreg() or seal:
                raise self._damaged(f"it holds what no backup holds: {found.name[:80]}")
            content = tar.extractfile(found)
            assert isinstance(content, io.BufferedReader)
            if is_first:
                is_first = False
                self._check_head(found, content)
            elif text:
                seal = content.read(100).decode("ascii", "replace") if found.name == SEAL else "none"
            elif found.name == MANIFEST and found.size <= _MOST_JSON_BYTES:
                text = content.read()
            elif ENTRY.fullmatch(found.name) and found.name not in self._seen:
                yield Entry(found.name, self._blocks(found, content))
                if found.name not in self._seen:
                    raise AssertionError("the bytes of an entry were not taken")
            else:
                raise self._damaged(f"it holds what no backup holds: {found.name[:80]}")
        if not seal or seal != hashlib.sha256(text).hexdigest():
            raise self._damaged("it ends before its manifest" if not seal else "the checksum of its manifest differs")
        try:
            manifest = json.loads(text)
            written = manifest["entries"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise self._damaged("its manifest cannot be read") from error
        if written != self._seen:
            raise self._damaged("its entries are not those that were written")
        self.manifest = manifest

    def _blocks(self, found: tarfile.TarInfo, content: io.BufferedReader) -> Iterator[bytes]:
        digest, size = hashlib.sha256(), 0
        while True:
            with self._reading():
                block = content.read(_BLOCK)
            if not block:
                break
            digest.update(block)
            size += len(block)
            yield block
        if size != found.size:
            raise self._damaged("it is cut short")
        self._seen[found.name] = {"bytes": size, "sha256": digest.hexdigest()}

    def _check_head(self, found: tarfile.TarInfo, content: io.BufferedReader) -> None:
        try:
            head = json.loads(content.read(10_000)) if found.name == HEAD else {}
            is_ours, version = head.get("backup") == "precog", int(head.get("format", 0))
        except (ValueError, TypeError, AttributeError, RecursionError):
            is_ours, version = False, 0
        if not is_ours or version < 1:
            raise InputError("this is no backup", given=self._path, expected="a file that `precog backup` made")
        if version > FORMAT:
            hint = "install a newer version of PRECOG"
            raise CorpusError("the backup has a newer format", given=version, expected=f"≤ {FORMAT}", hint=hint)

    def _damaged(self, reason: str) -> InputError:
        hint = "nothing was restored; take another backup"
        return InputError(f"the backup is damaged: {reason}", given=self._path, hint=hint)


@contextlib.contextmanager
def _unpacked(file: BinaryIO, path: Path) -> Iterator[IO[bytes]]:
    magic = file.read(4)
    file.seek(0)
    if magic == _ZSTD_MAGIC:
        with zstandard.ZstdDecompressor().stream_reader(file, closefd=False) as stream:
            yield cast(IO[bytes], stream)
    elif magic[:2] == _GZIP_MAGIC:
        with gzip.GzipFile(fileobj=file, mode="rb") as unzipped:
            yield cast(IO[bytes], unzipped)
    else:
        raise InputError("this is no backup", given=path, expected="a file that `precog backup` made")
