"""Files as bytes, whatever they are compressed with: gzip, xz, zstandard or not at all."""

from __future__ import annotations

import gzip
import io
import lzma
import zlib
from pathlib import Path
from typing import IO, Any, cast

SUFFIXES = (".gz", ".xz", ".zst")
# What a damaged stream raises while it is read; an ``OSError`` of a plain file is none of these.
DAMAGED = (gzip.BadGzipFile, EOFError, zlib.error, lzma.LZMAError)


def open_bytes(path: Path) -> IO[bytes]:
    """The uncompressed content of a file, as a stream."""
    if path.suffix == ".gz":
        return cast(IO[bytes], gzip.open(path, "rb"))
    if path.suffix == ".xz":
        return cast(IO[bytes], lzma.open(path, "rb"))
    if path.suffix == ".zst":
        return cast(IO[bytes], io.BufferedReader(cast(Any, _Zstandard(path))))
    return path.open("rb")


class _Zstandard(io.RawIOBase):
    """Zstandard through Arrow, which is here anyway; its damage is an ``EOFError`` here."""

    def __init__(self, path: Path) -> None:
        import pyarrow as pa

        self._stream = pa.input_stream(str(path), compression="zstd")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            found = self._stream.read(len(buffer))
        except OSError as error:
            raise EOFError(str(error)) from error
        buffer[: len(found)] = found
        return len(found)

    def close(self) -> None:
        self._stream.close()
        super().close()
