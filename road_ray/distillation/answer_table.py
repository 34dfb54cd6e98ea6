"""Answers of teachers on disk: tables of raw logits, keyed by the content of a row.

The key of a row is a hash of its real token ids and segments, so it does not depend on the order
and padding of the batch. For a teacher with another tokenizer it is a hash of its texts, so that
students of any tokenizer share the row.

A table is a file in Arrow's IPC format, written once, then immutable and memory-mapped, with a row
for each key, sorted: ``first`` and ``second``, the halves of its 128 bits, and the numbers of its
``answer``. It is named after its sha256. What is read of a table is what the kernel maps: opening
one does not depend on its size.

Tables do not change, so listing and verifying them needs no lock, and a run that has a removed one
open keeps it until it ends. What a process labels rows for is not removed.
"""

import hashlib
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from road_ray.data.examples import Ints, Longs
from road_ray.data.task_and_dataset import Kind, Regress, Span
from road_ray.data.text_rows import bounds_of
from road_ray.distillation.cross_tokenizer import PAD_LOGIT
from road_ray.errors import CheckpointError, ConfigError, DataError
from road_ray.system.files import read_json, sha256_of, write_bytes_atomic

KEY_BYTES = 16  # of blake2b: 10^9 rows collide with a probability of about 10^-21
_SEGMENT_SHIFT = 24  # of a segment above its token id, in 32 bits

Keys = NDArray[np.uint64]
"""``[N, 2]``: the two halves of each key."""
Values = NDArray[Any]
_NAME = "table-{:.32}.arrow"
TABLES = _NAME.format("*")  # pattern of their names
MANIFEST = "manifest.json"  # of the teacher whose tables a directory has
LOCK = ".lock"  # of the process that labels rows
_HASHED_BYTES = 2**28  # of a table that is checked whenever it is opened, in a quarter of a second


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

    path: Path
    first: NDArray[np.uint64]  # [N], the halves of the keys
    second: NDArray[np.uint64]
    values: Values  # [numbers], those of row r from bounds[r] to bounds[r + 1]
    bounds: Ints  # [N + 1]

    def __len__(self) -> int:
        return len(self.first)

    def find(self, keys: Keys) -> Longs:
        """Return the number of each row in this table, -1 if it is not there. ``[B, 2] -> [B]``."""
        first, second = self.first, self.second
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
        return self.values[self.bounds[row] : self.bounds[row + 1]]


def open_table(path: Path, *, check: bool | None = None) -> AnswerTable:
    """Open a table. Raises ``DataError`` for a file that is none or, with ``check``, does not have
    the sha256 in its name; None checks tables of up to 256 MiB.
    """
    try:
        hashed = check or (check is None and path.stat().st_size <= _HASHED_BYTES)
        if hashed and path.name != _NAME.format(sha256_of(path)):
            raise ValueError("its sha256 is not that in its name")
        rows = pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)
        answers = rows["answer"]
        columns = (rows["first"], rows["second"], answers.values, answers.offsets)
        return AnswerTable(path, *(column.to_numpy() for column in columns))
    except (OSError, ValueError, LookupError) as error:
        fix = "delete it: the next run asks the teachers for its rows again"
        raise DataError(f"{path}: damaged: {error}\n  fix: {fix}") from error


def write_table(parent: Path, keys: Keys, counts: Longs, values: Values) -> Path:
    """Write rows with these distinct ``keys`` ``[N, 2]`` to a new table below ``parent`` and return
    its path. Row r has the next ``counts[r]`` of ``values``.

    A failure leaves no table. Raises ``ResourceError`` where it cannot be written.
    """
    order = np.lexsort((keys[:, 1], keys[:, 0]))
    sizes, begins = counts[order], bounds_of(counts)[:-1][order]
    bounds = bounds_of(sizes)
    positions = np.arange(len(values)) + np.repeat(begins - bounds[:-1], sizes)
    answers = pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), pa.array(values[positions]))
    first, second = map(pa.array, keys[order].T)
    rows = pa.record_batch([first, second, answers], ["first", "second", "answer"])
    stream = pa.BufferOutputStream()
    with pa.ipc.new_file(stream, rows.schema) as file:
        file.write_batch(rows)
    content = memoryview(stream.getvalue())
    path = parent / _NAME.format(hashlib.sha256(content).hexdigest())
    write_bytes_atomic(path, content)
    return path


def list_teachers(root: str | Path, names: Sequence[str] = ()) -> list[Path]:
    """Return the directories of the teachers with tables below ``root``, by name; those whose names
    start with one of ``names``, if there are any. Raises ``ConfigError`` if there are none.
    """
    root = Path(root).expanduser()
    found = [path.parent for path in sorted(root.glob(f"[!.]*/{MANIFEST}"))]
    if not found:
        raise ConfigError(
            f"{root}: no answers of teachers here\n"
            "  allowed: the value of distillation.store of a run, or answers/ in its directory"
        )
    known = [path.name for path in found]
    for name in names:
        if not any(one.startswith(name) for one in known):
            raise ConfigError(
                f"{name}: no teacher of this directory\n  allowed: {', '.join(known)}"
            )
    return [path for path in found if path.name.startswith(tuple(names) or "")]


def describe(teacher: Path) -> dict[str, Any]:
    """Return what ``road data store ls`` shows of a teacher's directory."""
    fix = "delete its directory; the next run makes it again"
    manifest = read_json(teacher / MANIFEST, error=DataError, fix=fix)
    tables = [*teacher.glob(TABLES)]
    try:
        rows: int | str = sum(len(open_table(path, check=False)) for path in tables)
    except DataError:
        rows = "damaged: road data store verify"
    size = sum(file.stat().st_size for file in teacher.rglob("*") if file.is_file())
    unused_seconds = time.time() - (teacher / MANIFEST).stat().st_mtime
    return {
        "name": teacher.name,
        "task": manifest.get("task", ""),
        "rows": rows,
        "tables": len(tables),
        "mib": round(size / 2**20, 2),
        "unused_days": round(unused_seconds / 86400, 1),
        "teacher": manifest.get("directory", ""),
    }
