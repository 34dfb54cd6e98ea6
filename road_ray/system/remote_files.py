"""Files at an address: an object store (S3, Google Cloud), the hub, or ``file://``.

A read or write that fails is repeated, with growing pauses, for half a minute; then it raises
``ResourceError``. Files are read in chunks, so none is in memory as a whole.
"""

from __future__ import annotations

import errno
import hashlib
import io
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path, PurePosixPath
from typing import IO, Any, Literal, TypeVar, cast

from fsspec.spec import AbstractBufferedFile
from pyarrow import ArrowException
from pyarrow import fs as arrow

from road_ray.errors import ConfigError, ResourceError, first_line

_log = logging.getLogger(__name__)
T = TypeVar("T")
FAILURES = (OSError, ArrowException)
_CHUNK_BYTES = 8 << 20  # of one request
_FIRST_PAUSE_SECONDS, _GIVE_UP_SECONDS = 0.5, 30.0
_WITHOUT_FOLDERS = ("s3", "gcs", "abfs")
# Errors that a repetition does not cure, as AWS' client and the operating system name them.
_FINAL = ("ACCESS_DENIED", "NO_SUCH_BUCKET", "INVALID_ACCESS_KEY", "SIGNATURE_DOES_NOT_MATCH")
_FINAL_NUMBERS = {errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOSPC, errno.EDQUOT}


def is_address(place: str) -> bool:
    """Return True for an address such as ``s3://bucket/text``, False for a path."""
    return "://" in place


@dataclass(frozen=True)
class Storage:
    """Files below one address."""

    address: str

    @cached_property
    def _opened(self) -> tuple[arrow.FileSystem, str]:
        return open_address(self.address)

    @property
    def base(self) -> str:
        """Path of the address within its file system."""
        return self._opened[1]

    def __str__(self) -> str:
        return self.address.partition("?")[0].rstrip("/")

    def shown(self, path: str) -> str:
        """Return the address of a file below this one, without settings such as an end point."""
        inner = path.removeprefix(self.base).lstrip("/")
        return f"{self}/{inner}" if inner else str(self)

    def list_files(self) -> list[StoredFile]:
        """Return all files below the address, or the file at the address, in order of paths."""
        if file := self.find(self.base):
            return [file]
        selector = arrow.FileSelector(self.base, recursive=True, allow_not_found=True)
        listed = partial(self._opened[0].get_file_info, selector)
        found = map(self._file, retried(listed, f"{self}: cannot be listed"))
        return sorted(filter(None, found), key=lambda file: file.path)

    def find(self, path: str) -> StoredFile | None:
        """Return the file at a path, None if there is none."""
        found = partial(self._opened[0].get_file_info, path)
        return self._file(retried(found, f"{self.shown(path)}: cannot be looked up"))

    def _file(self, info: arrow.FileInfo) -> StoredFile | None:
        if info.type != arrow.FileType.File:
            return None
        return StoredFile(self, info.path, int(info.size or 0), int(info.mtime_ns or 0))

    def read(self, path: str, start: int, count: int) -> bytes:
        """Return ``count`` bytes from ``start`` on, fewer at the end of the file."""

        def read() -> bytes:
            with self._opened[0].open_input_file(path) as file:
                return bytes(file.read_at(count, start))

        return retried(read, f"{self.shown(path)}: cannot be read at byte {start}")

    def write(self, path: str, content: Any) -> None:
        """Write a file; an object store shows it once it is complete."""

        def write() -> None:
            files = self._opened[0]
            if files.type_name not in _WITHOUT_FOLDERS:
                files.create_dir(path.rpartition("/")[0], recursive=True)
            with files.open_output_stream(path, compression=None) as sink:
                sink.write(content)

        retried(write, f"{self.shown(path)}: cannot be written")

    def download(self, path: str, target: IO[bytes], size: int) -> str:
        """Copy a file of ``size`` bytes into ``target``; return the sha256 of the copied bytes."""
        digest = hashlib.sha256()
        for start in range(0, size, _CHUNK_BYTES):
            content = self.read(path, start, min(_CHUNK_BYTES, size - start))
            digest.update(content)
            target.write(content)
        return digest.hexdigest()


def open_address(address: str, key: str = "") -> tuple[arrow.FileSystem, str]:
    """Return the file system of an address or path, and the path in it without a slash at its end.
    The file system is pyarrow's or, for schemes that it does not know, fsspec's.

    Raises ``ConfigError`` if there is no such storage; ``key`` is that of the address.
    """
    if not is_address(address):
        return arrow.LocalFileSystem(), str(Path(address).expanduser().resolve())
    try:
        if address.startswith(("http://", "https://")):  # a page of it could be taken for the text
            raise ValueError("it is of a web server; download the file")
        try:
            files, path = arrow.FileSystem.from_uri(address)
        except ArrowException:
            import fsspec

            known, path = fsspec.core.url_to_fs(address)
            files = arrow.PyFileSystem(arrow.FSSpecHandler(known))
    except (*FAILURES, ValueError, ImportError) as error:
        named = f"{key} = " if key else ""
        raise ConfigError(
            f"{named}{address.partition('?')[0]}: no storage of that address: {error}\n"
            "  allowed: s3://bucket/folder, gs://bucket/folder, hf://datasets/owner/name, "
            "file:///folder, or a scheme of fsspec"
        ) from error
    if files.type_name == "s3":
        # ``retried`` repeats a request and says so. By default the client alone is silent for 100 s
        # with a server that does not answer; an address has no such setting.
        _, (options,) = files.__reduce__()
        twice = arrow.AwsStandardS3RetryStrategy(max_attempts=2)
        files = arrow.S3FileSystem(**options, retry_strategy=twice)
    return files, path.rstrip("/")


def address_below(url: str, place: Path) -> str:
    """Return the address of ``place``, a relative path, below another address, whose query is
    preserved.
    """
    start, mark, settings = url.partition("?") if is_address(url) else (url, "", "")
    return f"{start.rstrip('/')}/{place.as_posix()}{mark}{settings}"


def retried(action: Callable[[], T], failure: str) -> T:
    """Return the result of ``action``; repeat it for half a minute while it fails.

    Raises ``ResourceError`` whose message begins with ``failure``.
    """
    pause, began, attempts = _FIRST_PAUSE_SECONDS, time.monotonic(), 0
    while True:
        attempts += 1
        try:
            return action()
        except FAILURES as error:
            seconds = time.monotonic() - began
            final = getattr(error, "errno", None) in _FINAL_NUMBERS
            final = final or any(word in str(error) for word in _FINAL)
            if final or seconds + pause > _GIVE_UP_SECONDS:
                raise ResourceError(
                    f"{failure}: {first_line(error)[:300]}\n"
                    f"  seen: {attempts} attempts in {seconds:.0f} s\n"
                    "  fix: check the address, the network and the credentials (AWS_* and the "
                    "like)\n  kept: all that was written before; to resume, run the same command"
                ) from error
            _log.warning("%s; it is tried again in %g s: %s", failure, pause, first_line(error))
            time.sleep(pause)
            pause *= 2


@dataclass(frozen=True)
class StoredFile:
    """File of a storage, with the methods of ``Path`` that readers use, and size and time to detect
    changes.
    """

    storage: Storage
    path: str
    size: int
    modified_ns: int

    def __str__(self) -> str:
        return self.storage.shown(self.path)

    @property
    def name(self) -> str:
        """Last part of the path."""
        return PurePosixPath(self.path).name

    def open(self, mode: Literal["rb"] = "rb") -> IO[bytes]:
        """Open the file for reading, seekable, with a chunk in memory."""
        return cast(IO[bytes], io.BufferedReader(_Chunks(self), _CHUNK_BYTES))


class _Chunks(AbstractBufferedFile):  # type: ignore[misc]  # fsspec has no types
    """Bytes of a stored file; each read is one request, repeated when it fails."""

    def __init__(self, file: StoredFile) -> None:
        super().__init__(None, str(file), cache_type="none", size=file.size)
        self._file = file

    def _fetch_range(self, start: int, end: int) -> bytes:
        count = min(end, self._file.size) - start
        content = self._file.storage.read(self._file.path, start, count)
        if len(content) < count:  # readers would take it for the end of the file
            raise OSError(
                errno.EIO,
                f"{len(content)} bytes at byte {start}, {count} were expected: the file is "
                "shorter than when it was listed",
            )
        return content
