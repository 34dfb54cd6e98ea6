"""One table of a teacher's answers: written once, then immutable and memory-mapped.

A table is a directory. ``keys.npy`` ``[2, N]`` has the halves of the sorted 128-bit keys,
``values.npy`` the numbers of all rows one after the other, ``bounds.npy`` ``[N + 1]`` where those
of each row begin (absent where all rows have equally many), and ``table.json`` the number of rows,
and size and sha256 of each file. It is named after a hash of its keys. What is read of a table is
what the kernel maps: opening one does not depend on its size.
"""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from road_ray.data.features.examples_and_features import Longs
from road_ray.data.features.text_rows import bounds_of
from road_ray.distillation.answers.row_keys import Keys, Values
from road_ray.errors import DataError, ResourceError
from road_ray.system.file_hashes import hashes_of, problems_of
from road_ray.system.json_file import read_json, write_json_atomic
from road_ray.system.staging import staged_directory

TABLES = "table-*"  # pattern of their names
_RECORD, _FORMAT = "table.json", 3
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
    if record.get("format") != _FORMAT:
        raise DataError(
            f"{directory / _RECORD}: no record of a table, or of format {record.get('format')}\n"
            f"  allowed: format {_FORMAT}, that of this version\n  fix: {_FIX}"
        )
    files = record["files"]
    if check is None:
        check = sum(file["bytes"] for file in files.values()) <= _HASHED_BYTES
    problems = problems_of(directory, files) if check else []
    try:
        arrays = {} if problems else {n: np.load(directory / n, mmap_mode="r") for n in files}
    except (OSError, ValueError, EOFError) as error:  # a file is gone, or shorter than it says
        problems = [str(error)]
    if problems:
        raise DataError(f"{directory}: damaged: {problems[0]}\n  fix: {_FIX}")
    return AnswerTable(
        directory, arrays["keys.npy"], arrays["values.npy"], arrays.get("bounds.npy")
    )


def write_table(parent: Path, keys: Keys, counts: Longs, values: Values) -> Path:
    """Write rows with these distinct ``keys`` ``[N, 2]`` to a new table below ``parent`` and return
    its directory. Row r has the next ``counts[r]`` of ``values``.

    A failure leaves no table. Raises ``ResourceError`` where it cannot be written.
    """
    order = np.lexsort((keys[:, 1], keys[:, 0]))
    sizes, begins = counts[order], bounds_of(counts)[:-1][order]
    bounds = bounds_of(sizes)
    positions = np.arange(len(values)) + np.repeat(begins - bounds[:-1], sizes)
    arrays = {"keys.npy": keys[order].T, "values.npy": values[positions]}
    if sizes.min() != sizes.max():
        arrays["bounds.npy"] = bounds
    final = parent / f"table-{hashlib.sha256(keys[order].tobytes()).hexdigest()[:32]}"
    try:
        with staged_directory(final) as staged:
            for name, array in arrays.items():
                content = io.BytesIO()  # np.save to a file does not say that the disk is full
                np.save(content, array)
                (staged / name).write_bytes(content.getbuffer())
            files = hashes_of(staged, [staged / name for name in arrays])
            record = {"format": _FORMAT, "rows": len(keys), "files": files}
            write_json_atomic(staged / _RECORD, record)
    except OSError as error:
        raise unwritable(parent, error) from error
    return final


def unwritable(directory: Path, error: OSError) -> ResourceError:
    """Return the error for answers that cannot be written to ``directory``."""
    return ResourceError(
        f"{directory}: answers of a teacher cannot be written: {error.strerror or error}\n"
        "  fix: free space there or make it writable, or choose another directory: "
        "distillation.store=DIRECTORY\n"
        "  kept: the answers so far; the same command continues with them"
    )
