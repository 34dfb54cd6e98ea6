"""One table of a teacher's answers: written once, then immutable and memory-mapped.

A table is a directory. ``keys.npy`` ``[2, N]`` has the halves of the sorted 128-bit keys,
``values.npy`` the numbers of all rows one after the other, ``bounds.npy`` ``[N + 1]`` where those
of each row begin (absent where all rows have equally many), and ``table.json`` the number of rows,
the sizes of the files and one sha256 over all three. Its name begins with that sha256. What
is read of a table is what the kernel maps: opening one does not depend on its size.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from road_ray.data.features.examples_and_features import Longs
from road_ray.data.features.text_rows import bounds_of
from road_ray.distillation.answers.row_keys import Keys, Values
from road_ray.errors import DataError, ResourceError
from road_ray.system.json_file import read_json, write_json_atomic
from road_ray.system.operating_system import sync

TABLES = "table-*"  # pattern of their names
_RECORD, _FORMAT = "table.json", 2
_FILES = ("keys.npy", "bounds.npy", "values.npy")
_HASHED_BYTES = 2**28  # of a table that is checked whenever it is opened, in a quarter of a second
_FIX = "delete it: the next run asks the teachers for its rows again"


@dataclass(frozen=True)
class AnswerTable:
    """Answers to N rows, memory-mapped."""

    directory: Path
    keys: NDArray[np.uint64]  # [2, N]
    values: Values  # [numbers]
    bounds: Longs | None  # [N + 1]; None: all rows have equally many numbers

    def __len__(self) -> int:
        return int(self.keys.shape[1])

    def find(self, keys: Keys) -> Longs:
        """Return the number of each row in this table, -1 if it is not there. ``[B, 2] -> [B]``."""
        first, second = self.keys
        last = len(self) - 1
        at = np.searchsorted(first, keys[:, 0]).clip(max=last)
        while True:  # rows that share the first half of their key follow each other
            behind = (first[at] == keys[:, 0]) & (second[at] < keys[:, 1]) & (at < last)
            if not behind.any():
                break
            at[behind] += 1
        return np.where((first[at] == keys[:, 0]) & (second[at] == keys[:, 1]), at, -1)

    def read(self, row: int) -> Values:
        """Return the numbers of a row."""
        if self.bounds is not None:
            return self.values[self.bounds[row] : self.bounds[row + 1]]
        width = len(self.values) // len(self)
        return self.values[row * width : (row + 1) * width]


def open_table(directory: Path, *, check: bool | None = None) -> AnswerTable:
    """Open a table. Raises ``DataError`` if it is incomplete or, with ``check``, does not have its
    sha256; None checks tables of up to 256 MiB.
    """
    record = read_json(directory / _RECORD, error=DataError, fix=_FIX)
    sizes, expected = record.get("bytes"), record.get("sha256")
    if (
        record.get("format") != _FORMAT
        or not isinstance(sizes, dict)
        or not isinstance(expected, str)
        or not {"keys.npy", "values.npy"} <= sizes.keys() <= {*_FILES}
    ):
        raise DataError(
            f"{directory / _RECORD}: no record of a table, or of format {record.get('format')}\n"
            f"  allowed: format {_FORMAT}, that of this version\n  fix: {_FIX}"
        )
    for name, size in sizes.items():
        path = directory / name
        there = path.stat().st_size if path.is_file() else 0
        if there != size:
            raise DataError(f"{path}: {there:,} bytes instead of {size:,}\n  fix: {_FIX}")
    if check or (check is None and sum(sizes.values()) <= _HASHED_BYTES):
        digest = _sha256(directory)
        if digest != expected:
            raise DataError(
                f"{directory}: damaged: its sha256 is {digest[:16]}..., not {expected[:16]}...\n"
                f"  fix: {_FIX}"
            )
    arrays = {name: np.load(directory / name, mmap_mode="r") for name in sizes}
    return AnswerTable(
        directory, arrays["keys.npy"], arrays["values.npy"], arrays.get("bounds.npy")
    )


def write_table(parent: Path, keys: Keys, counts: Longs, values: Values) -> Path:
    """Write rows with these distinct ``keys`` ``[N, 2]`` to a new table below ``parent`` and return
    its directory. Row r has the next ``counts[r]`` of ``values``.

    A failure leaves no table. Raises ``ResourceError`` where it cannot be written.
    """
    staged = parent / f".staged-{uuid.uuid4().hex}"
    order = np.lexsort((keys[:, 1], keys[:, 0]))
    sizes, begins = counts[order], bounds_of(counts)[:-1][order]
    bounds = bounds_of(sizes)
    positions = np.arange(len(values)) + np.repeat(begins - bounds[:-1], sizes)
    arrays = {"keys.npy": keys[order].T, "values.npy": values[positions]}
    if sizes.min() != sizes.max():
        arrays["bounds.npy"] = bounds
    try:
        staged.mkdir()
        for name, array in arrays.items():
            content = io.BytesIO()  # np.save to a file does not say that the disk is full
            np.save(content, array)
            (staged / name).write_bytes(content.getbuffer())
            sync(staged / name)
        digest = _sha256(staged)
        sizes_of = {name: (staged / name).stat().st_size for name in arrays}
        record = {"format": _FORMAT, "rows": len(keys), "bytes": sizes_of, "sha256": digest}
        write_json_atomic(staged / _RECORD, record)
        final = parent / f"table-{digest[:32]}"
        if not final.exists():
            staged.rename(final)
        sync(parent)
    except OSError as error:
        raise unwritable(parent, error) from error
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    return final


def unwritable(directory: Path, error: OSError) -> ResourceError:
    """Return the error for answers that cannot be written to ``directory``."""
    return ResourceError(
        f"{directory}: answers of a teacher cannot be written: "
        f"{os.strerror(error.errno or errno.EIO)}\n"
        "  fix: free space there or make it writable, or choose another directory: "
        "distillation.store=DIRECTORY\n"
        "  kept: the answers so far; the same command continues with them"
    )


def _sha256(directory: Path) -> str:
    digest = hashlib.sha256()
    for name in _FILES:
        if (directory / name).is_file():
            with (directory / name).open("rb") as file:
                while block := file.read(2**22):
                    digest.update(block)
    return digest.hexdigest()
