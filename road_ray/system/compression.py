"""Byte streams of files that are plain or compressed with gzip, xz or zstandard."""

from __future__ import annotations

import gzip
import io
import lzma
import zlib
from pathlib import Path
from typing import IO, Any, Literal, Protocol, cast

SUFFIXES = (".gz", ".xz", ".zst")
# Exceptions of a damaged compressed stream; ``OSError`` of a plain file is not among them.
DAMAGED = (gzip.BadGzipFile, EOFError, zlib.error, lzma.LZMAError)


class ReadableFile(Protocol):
    """A ``Path``, or a file of an object store; ``str`` gives its name for messages."""

    @property
    def name(self) -> str: ...
    @property
    def suffix(self) -> str: ...
    @property
    def suffixes(self) -> list[str]: ...
    def open(self, mode: Literal["rb"]) -> IO[bytes]: ...


def open_bytes(path: ReadableFile) -> IO[bytes]:
    """Open a file as a stream of its uncompressed content."""
    source: Any = path if isinstance(path, Path) else None
    if path.suffix == ".gz":
        return cast(IO[bytes], gzip.open(source or path.open("rb"), "rb"))
    if path.suffix == ".xz":
        return cast(IO[bytes], lzma.open(source or path.open("rb"), "rb"))
    if path.suffix == ".zst":
        return cast(IO[bytes], io.BufferedReader(cast(Any, _Zstandard(path))))
    return path.open("rb")


class _Zstandard(io.RawIOBase):
    """Zstandard stream decoded by Arrow; damage raises ``EOFError``."""

    def __init__(self, path: ReadableFile) -> None:
        import pyarrow as pa

        source = str(path) if isinstance(path, Path) else path.open("rb")
        self._stream = pa.input_stream(source, compression="zstd")

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
