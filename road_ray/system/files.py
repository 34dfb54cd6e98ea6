"""Files: paths of the configuration, compressed streams, atomic writes of JSON and of directories,
sizes and sha256.

A file or directory is staged beside its final place and renamed into it. What killed processes left
there is told from what others still write, on file systems that several machines share too.
"""

import gzip
import hashlib
import io
import json
import logging
import lzma
import math
import os
import re
import shutil
import socket
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath, PureWindowsPath
from typing import IO, Any, Literal, Protocol, cast

from road_ray.errors import (
    CheckpointError,
    ConfigError,
    ResourceError,
    RoadError,
    did_you_mean,
    shorten,
)
from road_ray.system.operating_system import is_disk_error, process_exists, sync

CACHE = "ROAD_CACHE"
STDIN = "-"  # in place of the path of an input
SUFFIXES = (".gz", ".xz", ".zst")
# Exceptions of a file that cannot be read; those of a damaged compressed stream have no ``errno``.
UNREADABLE = (OSError, EOFError, zlib.error, lzma.LZMAError)
_log = logging.getLogger(__name__)
_MARKED = re.compile(r"\.(?:tmp|old|damaged)-(?:(\w+)-)?(\d+)")
_HOST = re.sub(r"\W", "_", socket.gethostname())
_FOREIGN_SECONDS = 24 * 3600.0  # longer than a checkpoint or a shard is written


def path_of(text: str, key: str) -> Path:
    """Return the path in ``text``, the value of ``key``, with ``~`` expanded.

    Raises ``ConfigError`` if it is inaccessible: too long, no home directory, no permission.
    """
    try:
        place = Path(text).expanduser()
        place.exists()
    except (OSError, RuntimeError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(
            f"{key} = {shorten(text)}: {why}\n  allowed: a path that this user can access"
        ) from error
    return place


def without_places(value: object) -> Any:
    """Return a value without absolute paths of this machine: below the working directory they
    become relative, elsewhere their last two parts remain.
    """
    if isinstance(value, Mapping):
        return {name: without_places(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_places(item) for item in value]
    text = str(value) if isinstance(value, Path) else value
    if not isinstance(text, str) or not (text.startswith("/") or PureWindowsPath(text).drive):
        return value
    path = Path(text)
    with suppress(OSError, ValueError):  # the working directory is gone, or is not above the path
        return path.relative_to(Path.cwd()).as_posix()
    return "/".join(["...", *PureWindowsPath(text).parts[1:][-2:]])


def nearest_path(path: Path) -> str:
    """Return ``; did you mean 'x'?`` for the file of that folder, or the folder beside, whose name
    is nearest to that of a missing file; an empty text without one.
    """
    while path.parent != path and not path.parent.exists():
        path = path.parent
    try:
        return did_you_mean(path.name, [other.name for other in path.parent.iterdir()])
    except OSError:
        return ""


def check_new(path: Path) -> Path:
    """Return ``path`` with ``~`` expanded, as no shell does in ``--output=~/x``. Raises
    ``ConfigError`` if it exists: an output is never overwritten; or if it was an address, of which
    ``s3:/bucket`` is left.
    """
    if re.match(r"[a-z][a-z0-9+.-]+:/", str(path)):
        raise ConfigError(f"output = {path}: is an address\n  allowed: a path")
    if (path := path.expanduser()).exists():
        raise ConfigError(
            f"output = {path}: already exists\n  fix: name another, or move it\n  kept: {path}"
        )
    return path


def check_input(source: str) -> None:
    """Raise ``ConfigError`` if ``source`` is neither a file nor ``-``, which is standard input."""
    path = Path(source).expanduser()
    if source != STDIN and not path.is_file():
        what = "is a folder" if path.is_dir() else f"no such file{nearest_path(path)}"
        raise ConfigError(f"{source}: {what}\n  fix: name a file, or - for lines of standard input")


def cache_home() -> Path:
    """Return ``ROAD_CACHE`` or ``~/.cache/road_ray``. Raises ``ConfigError`` without a home
    directory.
    """
    return path_of(os.environ.get(CACHE) or "~/.cache/road_ray", CACHE)


class ReadableFile(Protocol):
    """A ``Path``, or a file of an object store; ``str`` gives its name for messages."""

    @property
    def name(self) -> str: ...
    def open(self, mode: Literal["rb"]) -> IO[bytes]: ...


def open_bytes(path: ReadableFile) -> IO[bytes]:
    """Open a file as a stream of its uncompressed content."""
    source: Any = path if isinstance(path, Path) else None
    suffix = PurePath(path.name).suffix
    if suffix == ".gz":
        return cast(IO[bytes], gzip.open(source or path.open("rb"), "rb"))
    if suffix == ".xz":
        return cast(IO[bytes], lzma.open(source or path.open("rb"), "rb"))
    if suffix == ".zst":
        import pyarrow as pa

        stream = pa.input_stream(str(source) if source else path.open("rb"), compression="zstd")
        return cast(IO[bytes], io.BufferedReader(stream))
    return path.open("rb")


def read_json(
    path: Path,
    *,
    error: type[RoadError] = CheckpointError,
    fix: str = "restore the file, or make it again with the command that wrote it",
) -> dict[str, Any]:
    """Return the JSON object in ``path``.

    Raises ``error``, which names the file, if it is missing, unreadable, empty, or not a JSON
    object.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as failure:
        raise error(f"{path}: cannot be read: {failure.strerror}\n  fix: {fix}") from failure
    except (ValueError, RecursionError) as failure:
        raise error(f"{path}: not JSON ({failure})\n  fix: {fix}") from failure
    if not isinstance(value, dict):
        seen = shorten(json.dumps(value))
        raise error(f"{path}: holds {seen}\n  allowed: a JSON object\n  fix: {fix}")
    return value


def write_json_atomic(path: Path, value: object, *, ascii_only: bool = True) -> None:
    """Write the JSON of ``value``, as ``write_atomic``; unknown objects become their text."""
    options: Any = {"indent": 2, "default": str, "allow_nan": False, "ensure_ascii": ascii_only}
    text = json.dumps(finite(value), **options)
    write_atomic(path, f"{text}\n")


def write_atomic(path: Path, content: str | bytes | memoryview) -> None:
    """Write a file that has either the old or the new content at any time.

    Raises ``ResourceError`` if it cannot be written.
    """
    content = content.encode() if isinstance(content, str) else content
    staged = staged_beside(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with staged.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        staged.replace(path)
        sync(path.parent)
    except OSError as error:
        with suppress(OSError):
            staged.unlink()
        raise unwritable(path, error) from error


def unwritable(
    place: object, error: Exception, kept: object = "what was there before"
) -> ResourceError:
    """Return the error of a file or directory that cannot be written."""
    return ResourceError(
        f"{place}: cannot be written: {error}\n"
        "  fix: free space there, make it writable, or choose another directory\n"
        f"  kept: {kept}"
    )


def finite(value: Any) -> Any:
    """Return the value with null for every number that JSON cannot express."""
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def sha256_of(path: Path) -> str:
    """Return the sha256 of a file in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hashes_of(
    directory: Path, paths: Iterable[Path], known: Mapping[str, str] | None = None
) -> dict[str, dict[str, Any]]:
    """Return ``bytes`` and ``sha256`` of each file by its name below ``directory``; files whose
    sha256 is ``known`` are not read.
    """
    names = {path.relative_to(directory).as_posix(): path for path in paths}
    return {
        name: {"bytes": path.stat().st_size, "sha256": (known or {}).get(name) or sha256_of(path)}
        for name, path in names.items()
    }


def problems_of(directory: Path, files: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a line for each file that differs from its entry in ``files`` by ``hashes_of``."""
    problems = []
    for name, written in files.items():
        path = directory / name
        try:
            if (size := path.stat().st_size) != written.get("bytes"):
                problems.append(f"{name} has {size} bytes, {written.get('bytes')} were written")
            elif sha256_of(path) != written.get("sha256"):  # or the entry itself is damaged
                problems.append(f"{name} has the right size but other content (sha256 differs)")
        except FileNotFoundError:
            problems.append(f"{name} is missing")
        except (OSError, ValueError) as error:
            problems.append(f"{name} cannot be read: {error}")
    return problems


def staged_beside(path: Path, kind: str = "tmp") -> Path:
    """Return the hidden path beside ``path`` where this process stages it; host and process are the
    end of its name.
    """
    return path.parent / f".{path.name}.{kind}-{_HOST}-{os.getpid()}"


@contextmanager
def staged_directory(final: Path) -> Iterator[Path]:
    """Yield a new directory that, flushed to the disk, becomes ``final`` at the end of the block,
    in the place of what is there; if the block fails, it is removed. What killed processes staged
    for the same place is removed too.
    """
    for left in final.parent.glob(f".{final.name}.*"):
        if is_abandoned(left):
            shutil.rmtree(left, ignore_errors=True)
    staged = staged_beside(final)
    try:
        staged.mkdir(parents=True)
        yield staged
        for path in [*staged.rglob("*"), staged]:
            sync(path)
        if final.exists():
            discard(final)
        os.rename(staged, final)
        sync(final.parent)
    except BaseException as error:
        shutil.rmtree(staged, ignore_errors=True)
        if isinstance(error, OSError) and is_disk_error(error) and error.filename is None:
            error.filename = str(final)  # a write that fails has no name
        raise


def discard(directory: Path) -> None:
    """Rename a directory, then delete it; a kill in between leaves only a leftover."""
    aside = staged_beside(directory, "old")
    try:
        os.rename(directory, aside)
    except OSError as error:
        _log.warning("%s cannot be removed: %s", directory, error)
        return
    shutil.rmtree(aside, ignore_errors=True)


def is_abandoned(path: Path) -> bool:
    """Return True for a staged file or directory whose process has ended. Processes of this host
    are looked up; of another host, it is one that has not changed for a day.
    """
    marked = _MARKED.search(path.name)
    if marked is None:
        return False
    if marked[1] == _HOST:
        # A name with our own id is of an earlier process that had the same id.
        return int(marked[2]) == os.getpid() or not process_exists(int(marked[2]))
    try:
        return time.time() - path.stat().st_mtime > _FOREIGN_SECONDS
    except FileNotFoundError:
        return False
