"""Answers of teachers on disk: tables of raw logits, keyed by the content of a row.

The key of a row is a hash of its real token ids and segments, so it does not depend on the order
and padding of the batch. For a teacher with another tokenizer it is a hash of its texts, so that
students of any tokenizer share the row.

A table is a directory, written once, then immutable and memory-mapped. ``keys.npy`` ``[2, N]`` has
the halves of the sorted 128-bit keys, ``values.npy`` the numbers of all rows one after the other,
``bounds.npy`` ``[N + 1]`` where those of each row begin (absent where all rows have equally many),
and ``table.json`` the number of rows, and size and sha256 of each file. It is named after a hash of
its keys. What is read of a table is what the kernel maps: opening one does not depend on its size.

Tables do not change, so listing and verifying them needs no lock, and a run that has a removed one
open keeps it until it ends. What a process labels rows for is not removed.
"""

import hashlib
import io
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from road_ray.data.examples import Longs
from road_ray.data.task_and_dataset import Kind, Regress, Span
from road_ray.data.text_rows import bounds_of
from road_ray.distillation.cross_tokenizer import PAD_LOGIT
from road_ray.errors import CheckpointError, ConfigError, DataError, ResourceError
from road_ray.system.files import (
    hashes_of,
    problems_of,
    read_json,
    staged_directory,
    write_json_atomic,
)

KEY_BYTES = 16  # of blake2b: 10^9 rows collide with a probability of about 10^-21
_SEGMENT_SHIFT = 24  # of a segment above its token id, in 32 bits

Keys = NDArray[np.uint64]
"""``[N, 2]``: the two halves of each key."""
Values = NDArray[Any]
TABLES = "table-*"  # pattern of their names
MANIFEST = "manifest.json"  # of the teacher whose tables a directory has
LOCK = ".lock"  # of the process that labels rows
_RECORD, _FORMAT = "table.json", 3
_HASHED_BYTES = 2**28  # of a table that is checked whenever it is opened, in a quarter of a second
_FIX = "delete it: the next run asks the teachers for its rows again"


def keys_of_tokens(inputs: Mapping[str, Any]) -> Keys:
    """Return the keys of rows by their ``input_ids`` ``[B, L]`` (or ``[B, N, L]``: N choices per
    row), with mask and segments if given, ``[B, 2]``.
    """
    ids = inputs["input_ids"].cpu().numpy().astype(np.int32)
    mask, segments = inputs.get("attention_mask"), inputs.get("token_type_ids")
    real = np.ones(ids.shape, np.bool_) if mask is None else mask.cpu().numpy() != 0
    if segments is not None:
        ids |= segments.cpu().numpy().astype(np.int32) << _SEGMENT_SHIFT
    lengths = real.sum(-1, dtype=np.int64)  # of choices several a row
    rows = zip(lengths, ids, real, strict=True)
    return _hashed(number.tobytes() + row[mask].tobytes() for number, row, mask in rows)


def keys_of_texts(texts: Iterable[Sequence[str]]) -> Keys:
    """Return the keys of rows by their texts, ``[N, 2]``."""
    encoded = ([text.encode("utf-8", "surrogatepass") for text in row] for row in texts)
    return _hashed(b"".join(len(t).to_bytes(8, "little") + t for t in row) for row in encoded)


def _hashed(rows: Iterable[bytes]) -> Keys:
    digests = [hashlib.blake2b(row, digest_size=KEY_BYTES).digest() for row in rows]
    return np.frombuffer(b"".join(digests), np.uint64).reshape(-1, 2)


def value_type(kind: Kind) -> type[np.floating[Any]]:
    """Return the dtype of stored logits: float16 (rounding 2^-11), float32 in regression."""
    return np.float32 if isinstance(kind, Regress) else np.float16


def unpadded(answer: Tensor, positions: Longs | None, kind: Kind) -> Values:
    """Return the numbers of one row's answer in the stored dtype: ``[C]``, or those of the real
    ``positions`` of ``[2, L]`` or ``[L, C]``, flat. Raises ``CheckpointError`` for values beyond
    the range of float16.
    """
    values: Values = answer.float().cpu().numpy()
    if positions is not None:
        values = values[:, positions] if isinstance(kind, Span) else values[positions]
    limit = float(np.finfo(value_type(kind)).max)
    if not (np.abs(values).max(initial=0.0) <= limit):  # false for NaN too
        raise CheckpointError(
            f"a teacher's logits beyond {limit:g}, or not a number, cannot be kept\n"
            "  fix: distillation.answers=live, or fine-tune that teacher again"
        )
    return values.ravel().astype(value_type(kind))


def padded(
    answers: Sequence[Values], positions: Sequence[Longs] | None, width: int, kind: Kind
) -> Tensor:
    """Restore the answers of rows from their numbers; padding is ``PAD_LOGIT``.
    ``-> [B, C]``, ``[B, 2, width]`` or ``[B, width, C]``, fp32.
    """
    dtype = value_type(kind)
    if positions is None:
        flat = np.concatenate([np.zeros(0, dtype), *answers])
        return torch.from_numpy(flat.reshape(-1, kind.width)).float()
    of_spans = isinstance(kind, Span)
    shape = (kind.width, width) if of_spans else (width, kind.width)
    full = np.full((len(answers), *shape), PAD_LOGIT, dtype)
    for row, real, answer in zip(full, positions, answers, strict=True):
        row[(slice(None), real) if of_spans else real] = answer.reshape(
            (kind.width, -1) if of_spans else (-1, kind.width)
        )
    return torch.from_numpy(full).float()  # ten times as fast as NumPy's conversion


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
    files, problems, arrays = record.get("files", {}), list[str](), dict[str, Any]()
    if record.get("format") != _FORMAT:
        problems = [f"format {record.get('format')}; that of this version is {_FORMAT}"]
    elif check or (check is None and sum(x["bytes"] for x in files.values()) <= _HASHED_BYTES):
        problems = problems_of(directory, files)
    try:
        arrays = {} if problems else {n: np.load(directory / n, mmap_mode="r") for n in files}
    except (OSError, ValueError, EOFError) as error:  # a file is gone, or shorter than it says
        problems = [str(error)]
    if problems:
        raise DataError(f"{directory}: damaged, by its {_RECORD}: {problems[0]}\n  fix: {_FIX}")
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


@dataclass(frozen=True)
class StoredTeacher:
    """One teacher's directory of tables."""

    directory: Path
    manifest: dict[str, Any]
    tables: list[Path]
    num_bytes: int
    unused_days: float

    @property
    def num_rows(self) -> int:
        """Number of rows in all tables. Raises ``DataError`` for a damaged one."""
        return sum(len(open_table(path, check=False)) for path in self.tables)


def list_teachers(root: str | Path, names: Sequence[str] = ()) -> list[StoredTeacher]:
    """Return the teachers with tables below ``root``, by name; those whose names start with one of
    ``names``, if there are any. Raises ``ConfigError`` if there are none.
    """
    root = Path(root).expanduser()
    found = {path.parent.name: path for path in sorted(root.glob(f"[!.]*/{MANIFEST}"))}
    if not found:
        raise ConfigError(
            f"{root}: no answers of teachers here\n"
            "  allowed: the value of distillation.store of a run, or answers/ in its directory"
        )
    for name in names:
        if not any(known.startswith(name) for known in found):
            raise ConfigError(
                f"{name}: no teacher of this directory\n  allowed: {', '.join(found)}"
            )
    chosen = tuple(names) or ("",)
    fix = "delete its directory; the next run makes it again"
    return [
        StoredTeacher(
            directory=path.parent,
            manifest=read_json(path, error=DataError, fix=fix),
            tables=sorted(path.parent.glob(TABLES)),
            num_bytes=sum(file.stat().st_size for file in path.parent.rglob("*") if file.is_file()),
            unused_days=(time.time() - path.stat().st_mtime) / 86400,
        )
        for name, path in found.items()
        if name.startswith(chosen)
    ]
