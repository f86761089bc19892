"""Zstandard frames as a stream of bytes."""

import io

import zstandard


class ZstdFile(io.RawIOBase):
    """The bytes of a .zst file's frames; the library's own reader takes a file cut short for a whole one.

    Raises:
        EOFError: the file ends within a frame.
        OSError: a frame is damaged.
    """

    def __init__(self, raw: io.BufferedReader) -> None:
        self._raw, self._frame, self._begun = raw, zstandard.ZstdDecompressor().decompressobj(), False
        self._pending, self._ready = b"", b""

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # the base class allows more buffers
        """Fill a buffer with decompressed bytes; 0 at the end."""
        while not self._ready:
            if self._frame.eof:
                self._pending = self._frame.unused_data
                self._frame, self._begun = zstandard.ZstdDecompressor().decompressobj(), False
            data = self._pending or self._raw.read(1 << 17)
            self._pending = b""
            if not data:
                if self._begun:
                    raise EOFError("the file ends within a compressed frame")
                return 0
            self._begun = True
            try:
                self._ready = self._frame.decompress(data)
            except zstandard.ZstdError as error:
                raise OSError(str(error)) from error
        count = min(len(buffer), len(self._ready))
        buffer[:count], self._ready = self._ready[:count], self._ready[count:]
        return count
