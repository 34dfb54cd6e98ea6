"""Byte streams of files that are plain or compressed with gzip, xz or zstandard."""

from __future__ import annotations

import gzip
import io
import lzma
import zlib
from pathlib import Path
from typing import IO, Any, cast

SUFFIXES = (".gz", ".xz", ".zst")
# Exceptions of a damaged compressed stream; ``OSError`` of a plain file is not among them.
DAMAGED = (gzip.BadGzipFile, EOFError, zlib.error, lzma.LZMAError)


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file as a stream of its uncompressed content."""
    if path.suffix == ".gz":
        return cast(IO[bytes], gzip.open(path, "rb"))
    if path.suffix == ".xz":
        return cast(IO[bytes], lzma.open(path, "rb"))
    if path.suffix == ".zst":
        return cast(IO[bytes], io.BufferedReader(cast(Any, _Zstandard(path))))
    return path.open("rb")


class _Zstandard(io.RawIOBase):
    """Zstandard stream decoded by Arrow; damage raises ``EOFError``."""

    def __init__(self, path: Path) -> None:
        import pyarrow as pa

        self._stream = pa.input_stream(str(path), compression="zstd")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            content = self._stream.read(len(buffer))
        except OSError as error:
            raise EOFError(str(error)) from error
        buffer[: len(content)] = content
        return len(content)

    def close(self) -> None:
        self._stream.close()
        super().close()
