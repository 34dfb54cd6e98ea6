"""Files of stored rows: written atomically, immutable, with their sha256 in the name.

A shard is one Arrow IPC file of two columns, ``key`` (16 bytes) and ``logits`` (a list of numbers),
memory-mapped on reading. Writers do not change each other's files.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import signal
import socket
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from road_ray.data.features.examples_and_features import Longs
from road_ray.distillation.logit_store.row_keys import KEY_BYTES, Keys, Values
from road_ray.system.operating_system import process_exists, sync

_log = logging.getLogger(__name__)
_SHARD = re.compile(r"shard-[0-9a-f]{16}-([0-9a-f]{64})\.arrow")
_STAGED = re.compile(r"\.staged-(\d+)-([^/]*)-[0-9a-f]{32}")
DAMAGED = ".damaged"  # suffix of a shard that does not verify
_LEFTOVER_SECONDS = 86400.0  # of another machine, whose processes cannot be checked


@dataclass(frozen=True)
class Shard:
    """Rows of one file: ``keys`` ``[N, 2]``; row r has ``counts[r]`` numbers from ``starts[r]``."""

    keys: Keys
    starts: Longs
    counts: Longs
    values: Values


def write_shard(directory: Path, keys: Keys, counts: Longs, values: Values) -> Path:
    """Write rows to a new file and return its path; a failure leaves no file."""
    bounds = np.concatenate([[0], np.cumsum(counts)])
    packed = np.ascontiguousarray(keys).tobytes()
    key = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(KEY_BYTES), len(keys), [None, pa.py_buffer(packed)]
    )
    logits = pa.LargeListArray.from_arrays(pa.array(bounds, pa.int64()), pa.array(values))
    batch = pa.record_batch([key, logits], names=["key", "logits"])

    def write(staged: Path) -> None:
        with pa.OSFile(str(staged), "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
            writer.write_batch(batch)

    # The time comes first in the name, so that the older of two answers to a row is read.
    return commit(
        directory, write, lambda sha: f"shard-{time.time_ns():016x}-{sha}.arrow", fault="store"
    )


def read_shard(path: Path) -> Shard:
    """Return the rows of a file, memory-mapped. Raises ``ValueError`` for a damaged file,
    ``OSError`` if this user cannot read it.
    """
    match = _SHARD.fullmatch(path.name)
    if match is None:
        raise ValueError("the name is not that of a shard")
    if path.stat().st_size == 0 or not path.is_file():
        raise ValueError("it is empty" if path.is_file() else "it is no file")
    mapped = pa.memory_map(str(path), "r")
    digest = hashlib.sha256(memoryview(mapped.read_buffer())).hexdigest()
    if digest != match[1]:
        raise ValueError(f"its sha256 is {digest[:16]}..., its name says {match[1][:16]}...")
    mapped.seek(0)
    batch = pa.ipc.open_file(mapped).get_batch(0)
    key, logits = batch.column("key"), batch.column("logits")
    keys = np.frombuffer(key.buffers()[1], np.uint64, 2 * len(key)).reshape(-1, 2)
    bounds = logits.offsets.to_numpy()
    return Shard(keys, bounds[:-1], np.diff(bounds), logits.values.to_numpy())


def shards_in(directory: Path) -> list[Path]:
    """Return the committed shards, oldest first."""
    return sorted(path for path in directory.iterdir() if _SHARD.fullmatch(path.name))


def quarantine(path: Path, problem: str) -> None:
    """Rename a damaged shard; its rows will be requested from the teachers again."""
    _log.warning("%s is damaged (%s); its rows are computed again", path, problem)
    try:
        path.rename(path.with_name(path.name + DAMAGED))
    except OSError as error:  # another process did it, or the directory is read-only
        _log.warning("%s cannot be put aside: %s", path, error)


def remove_leftovers(directory: Path) -> None:
    """Remove staged files of processes that no longer run."""
    for path in directory.iterdir():
        staged = _STAGED.fullmatch(path.name)
        if staged and _is_leftover(path, int(staged[1]), staged[2]):
            path.unlink(missing_ok=True)


def commit(
    directory: Path,
    write: Callable[[Path], Any],
    name: Callable[[str], str],
    *,
    fault: str = "",
) -> Path:
    """Write a staged file by ``write``, sync it, and rename it to ``name(sha256)``; return it."""
    host = re.sub(r"[^\w.]", "_", socket.gethostname())
    staged = directory / f".staged-{os.getpid()}-{host}-{uuid.uuid4().hex}"
    try:
        write(staged)
        _fault(fault, staged)
        with staged.open("rb") as file:
            os.fsync(file.fileno())
            final = directory / name(hashlib.file_digest(file, "sha256").hexdigest())
        staged.replace(final)
        sync(directory)
    finally:
        staged.unlink(missing_ok=True)
    return final


def _fault(fault: str, staged: Path) -> None:
    """Inject a fault for tests: ``RR_FAULT=store:after_bytes=N`` truncates the file and kills."""
    name, _, value = os.environ.get("RR_FAULT", "").partition("=")
    if not fault or name != f"{fault}:after_bytes" or int(value) > staged.stat().st_size:
        return
    os.truncate(staged, int(value))
    os.kill(os.getpid(), signal.SIGKILL)


def _is_leftover(path: Path, pid: int, host: str) -> bool:
    try:
        if host != re.sub(r"[^\w.]", "_", socket.gethostname()):
            return time.time() - path.stat().st_mtime > _LEFTOVER_SECONDS
    except FileNotFoundError:
        return True
    return not process_exists(pid)
