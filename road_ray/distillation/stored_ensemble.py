"""Answers that teachers give once: tables of raw logits on disk, the labelling that fills them, and
the ensemble that reads them.

A directory of tables belongs to one combination of weights, configuration, tokenizer, task and
label order, with a table for each set of rows that was labelled there. Answers are independent of
weighting rule, temperature and choice of teachers, so any number of runs read the same tables.
Every run reads the stored numbers (classes and spans rounded to fp16), so a student does not depend
on how often it was resumed.

The key of a row is a hash of its real token ids and segments, so it does not depend on the order
and padding of the batch. For a teacher with another tokenizer it is a hash of its texts, and the
answer is in the teacher's tokens, which are transferred to the student's on each read: students of
any tokenizer share the row.

A table is a file in Arrow's IPC format, written once, then immutable and memory-mapped, with a row
for each key, sorted: ``first`` and ``second``, the halves of its 128 bits, and the numbers of its
``answer``. It is named after its sha256. What is read of a table is what the kernel maps: opening
one does not depend on its size. Listing and verifying tables needs no lock, and a run that has a
removed one open keeps it until it ends. What a process labels rows for is not removed.
"""

import hashlib
import json
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from road_ray.data.examples import Longs
from road_ray.data.task_and_dataset import Kind, Regress, Span, Tag, Task
from road_ray.distillation.cross_tokenizer import PAD_LOGIT, TextReader
from road_ray.distillation.ensemble import Ensemble, submitted
from road_ray.distillation.teacher import OWN_TOKENS, inputs_of
from road_ray.distillation.teacher_directory import ANSWERS_FOR, decisive_entries
from road_ray.errors import CheckpointError, ConfigError, DataError, ResourceError
from road_ray.system.files import read_json, sha256_of, write_atomic, write_json_atomic
from road_ray.system.operating_system import lock_exclusively

_log = logging.getLogger(__name__)
_SEGMENT_SHIFT = 24  # of a segment above its token id, in 32 bits

Keys = NDArray[np.uint64]
"""``[N, 2]``: the two halves of each key."""
Values = NDArray[Any]
_NAME = "table-{:.32}.arrow"
TABLES = _NAME.format("*")  # pattern of their names
MANIFEST = "manifest.json"  # of the teacher whose tables a directory has
LOCK = ".lock"  # of the process that labels rows
_TABLE_BYTES = 2**28  # of answers in memory that become a table, and of one that opening checks
_TABLE_SECONDS = 300.0  # after which they become one, too: the most that a kill loses
_POLL_SECONDS = 1.0
_AHEAD = 4  # batches that are sent to the teachers before the answers of the first are read
Members = tuple[int, ...]
Live = Callable[[Members], AbstractContextManager[Ensemble]]
"""Starts the teachers of these numbers until it is left; they answer in this order."""
Batches = Callable[[], Iterable[Mapping[str, Any]]]
"""Returns the batches to label, the same at each call."""


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


def _hashed(rows: Iterable[bytes]) -> Keys:
    # Keys of 16 bytes: 10^9 rows collide with a probability of about 10^-21.
    digests = [hashlib.blake2b(row, digest_size=16).digest() for row in rows]
    return np.frombuffer(b"".join(digests), np.uint64).reshape(-1, 2)


def value_type(kind: Kind) -> type[np.floating[Any]]:
    """Return the dtype of stored logits: float16 (rounding 2^-11), float32 in regression."""
    return np.float32 if isinstance(kind, Regress) else np.float16


def rounded(logits: Tensor, kind: Kind) -> Values:
    """Return logits as they are stored and sent. Raises ``CheckpointError`` for values beyond the
    range of float16.
    """
    values: Values = logits.float().cpu().numpy()
    limit = float(np.finfo(value_type(kind)).max)
    if not (np.abs(values).max(initial=0.0) <= limit):  # false for NaN too
        raise CheckpointError(
            f"logits beyond {limit:g}, or not a number, do not fit float16\n"
            "  fix: distillation.host=process and distillation.answers=live, or fine-tune that "
            "teacher again"
        )
    return values.astype(value_type(kind))


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
    full = np.full((len(answers), width, kind.width), PAD_LOGIT, dtype)
    for row, real, answer in zip(full, positions, answers, strict=True):
        row[real] = answer.reshape(-1, kind.width)
    logits = torch.from_numpy(full).float()  # ten times as fast as NumPy's conversion
    return logits.mT if isinstance(kind, Span) else logits


def find(table: pa.RecordBatch, keys: Keys) -> Longs:
    """Return the number of each row in a table, -1 if it is not there. ``[B, 2] -> [B]``."""
    first, second = table["first"].to_numpy(), table["second"].to_numpy()
    last = len(table) - 1
    at = np.searchsorted(first, keys[:, 0]).clip(max=last)
    while True:  # rows that share the first half of their key follow each other
        behind = (first[at] == keys[:, 0]) & (second[at] < keys[:, 1]) & (at < last)
        if not behind.any():
            break
        at[behind] += 1
    return np.where((first[at] == keys[:, 0]) & (second[at] == keys[:, 1]), at, -1)


def open_table(path: Path, *, check: bool | None = None) -> pa.RecordBatch:
    """Open a table: ``first`` and ``second``, the halves of the keys, and each ``answer``. Raises
    ``DataError`` for a file that is none or, with ``check``, does not have the sha256 in its name;
    None checks tables of up to 256 MiB.
    """
    try:
        hashed = check or (check is None and path.stat().st_size <= _TABLE_BYTES)
        if hashed and path.name != _NAME.format(sha256_of(path)):
            raise ValueError("its sha256 is not that in its name")
        rows = pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)
        return rows.select(["first", "second", "answer"])
    except (OSError, ValueError, LookupError, pa.ArrowException) as error:
        fix = "delete it: the next run asks the teachers for its rows again"
        if getattr(error, "errno", None) or "Cannot allocate memory" in str(error):
            fix = "make it readable"  # the system refuses it: the answers may be good
        raise DataError(f"{path}: cannot be read: {error}\n  fix: {fix}") from error


def write_table(parent: Path, keys: Keys, counts: Longs, values: Values) -> Path:
    """Write rows with these distinct ``keys`` ``[N, 2]`` to a new table below ``parent`` and return
    its path. Row r has the next ``counts[r]`` of ``values``.

    A failure leaves no table. Raises ``ResourceError`` where it cannot be written.
    """
    order = np.lexsort((keys[:, 1], keys[:, 0]))
    bounds = pa.array(np.append(0, counts.cumsum()), pa.int32())
    answers = pa.ListArray.from_arrays(bounds, pa.array(values))
    columns = [*map(pa.array, keys[order].T), answers.take(pa.array(order))]
    rows = pa.record_batch(columns, ["first", "second", "answer"])
    stream = pa.BufferOutputStream()
    with pa.ipc.new_file(stream, rows.schema) as file:
        file.write_batch(rows)
    content = memoryview(stream.getvalue())
    path = parent / _NAME.format(hashlib.sha256(content).hexdigest())
    write_atomic(path, content)
    return path


class TeacherTables:
    """Answers of one teacher, in a directory that is named after task, weights and a hash of all
    settings that affect answers.
    """

    def __init__(self, root: str | Path, teacher: Mapping[str, Any], task: Task) -> None:
        """Open the tables of ``teacher``, a ``teacher_entry``, if there are any."""
        self.kind: Kind = task.kind
        other = ANSWERS_FOR in teacher
        self.reader = TextReader(teacher["directory"], task) if other else None
        identity = {"task": task.name, "kind": str(task.kind)} | decisive_entries(teacher)
        if identity.pop(ANSWERS_FOR, None):  # answers to texts, in the teacher's own tokens
            identity["reads"] = "texts"
        digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
        name = f"{task.name}-{teacher['weights_sha256'][:12]}-{digest[:16]}"
        self.directory = Path(root).expanduser() / name
        self._record = identity | {"directory": teacher.get("adapter", teacher["directory"])}
        self.tables: dict[Path, pa.RecordBatch] = {}
        self._pending: list[tuple[Keys, Longs, Values]] = []
        self._pending_since = 0.0
        self.refresh()

    def __len__(self) -> int:
        return sum(map(len, self.tables.values()))

    def refresh(self) -> None:
        """Open the tables that other processes have written. Raises ``DataError`` for a damaged
        one.
        """
        for path in sorted(self.directory.glob(TABLES)):
            if path not in self.tables:
                self.tables[path] = open_table(path)
        with suppress(OSError):  # when it was last used, for `prune`; others may only read it
            os.utime(self.directory / MANIFEST)

    def holds(self, keys: Keys) -> NDArray[np.bool_]:
        """Return which of the rows have an answer. ``[N, 2] -> [N]``."""
        found = [find(table, keys) >= 0 for table in self.tables.values()]
        return np.logical_or.reduce(found) if found else np.zeros(len(keys), np.bool_)

    def keys_of(self, inputs: Mapping[str, Any]) -> Keys:
        """Return the keys of the rows of a batch."""
        if self.reader is None:
            return keys_of_tokens(inputs)
        rows = self.reader.needed(inputs, "texts")
        encoded = ([text.encode("utf-8", "surrogatepass") for text in row] for row in rows)
        return _hashed(b"".join(len(t).to_bytes(8, "little") + t for t in row) for row in encoded)

    def _positions(self, inputs: Mapping[str, Any]) -> tuple[list[Longs] | None, int]:
        """Return the real positions of each row of a batch, as its answer has them, and its width;
        None if it has none. A teacher that reads texts has its own tokens, too.
        """
        if not isinstance(self.kind, Span | Tag):
            return None, 0
        if self.reader is None:
            mask = inputs.get("attention_mask")
            mask = torch.ones_like(inputs["input_ids"]) if mask is None else mask
            return [np.flatnonzero(row) for row in mask.cpu().numpy()], mask.shape[-1]
        tokens = self.reader.rows(inputs["texts"])
        lengths = [sum(len(row.tokens) for row in example) for example in tokens]
        return [np.arange(length) for length in lengths], max(lengths, default=0)

    def logits(self, inputs: Mapping[str, Any]) -> tuple[Tensor, dict[str, float]]:
        """Return the stored logits for the rows of a batch, and metrics of these rows."""
        answers = padded(self.read(self.keys_of(inputs)), *self._positions(inputs), self.kind)
        if self.reader is None:
            return answers, {}
        return self.reader.carried(self.reader.rows(inputs["texts"]), answers, inputs)

    def read(self, keys: Keys) -> list[Values]:
        """Return the numbers of each row. Raises ``DataError`` for rows without an answer."""
        answers: list[Values | None] = [None] * len(keys)
        for table in self.tables.values():
            rows, column = find(table, keys), table["answer"]
            values, bounds = column.values.to_numpy(), column.offsets.to_numpy()
            for number in np.flatnonzero(rows >= 0):
                row = rows[number]
                answers[number] = values[bounds[row] : bounds[row + 1]]
        if missing := sum(answer is None for answer in answers):
            raise DataError(
                f"{self.directory}: has no answers to {missing} of {len(keys)} rows of a batch\n"
                "  fix: run the command again, which asks for them; in a script, "
                "ensemble.label(batches) before the first epoch"
            )
        return cast("list[Values]", answers)

    @contextmanager
    def labelling(self) -> Iterator[None]:
        """Let this process alone add answers until it leaves the body; others wait. What it
        has added is kept, also if the body fails.
        """
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            lock = (self.directory / LOCK).open("a+", encoding="utf-8")
        except OSError as error:
            raise ResourceError(
                f"{self.directory}: answers of a teacher cannot be written: {error.strerror}\n"
                "  fix: make it writable, or choose another directory: "
                "distillation.store=DIRECTORY\n  kept: the answers so far"
            ) from error
        with lock:
            if holder := lock_exclusively(lock):
                _log.info("%s: waiting for %s, which labels rows", self.directory, holder)
                while lock_exclusively(lock):
                    time.sleep(_POLL_SECONDS)
            if not (self.directory / MANIFEST).is_file():
                write_json_atomic(self.directory / MANIFEST, self._record)
            self.refresh()
            try:
                yield
            finally:
                self.flush()

    def add(self, keys: Keys, inputs: Mapping[str, Any], answers: Tensor) -> None:
        """Add the answers to the rows of a batch, which have none. From time to time those in
        memory become a table.
        """
        positions, _ = self._positions(inputs)
        try:
            values = rounded(answers.mT if isinstance(self.kind, Span) else answers, self.kind)
        except CheckpointError as error:
            raise CheckpointError(f"{self._record['directory']}: {error}") from error
        # Of each row its classes, or those of its real positions, one position after the other.
        every = [...] * len(keys) if positions is None else positions
        numbers = [row[real].ravel() for row, real in zip(values, every, strict=True)]
        if not self._pending:
            self._pending_since = time.monotonic()
        counts = np.array(list(map(len, numbers)), np.int64)
        self._pending.append((keys, counts, np.concatenate(numbers)))
        size = sum(values.nbytes for _, _, values in self._pending)
        if size > _TABLE_BYTES or time.monotonic() - self._pending_since > _TABLE_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write the answers in memory to a table."""
        pending, self._pending = self._pending, []
        if pending:
            keys, counts, values = map(np.concatenate, zip(*pending, strict=True))
            write_table(self.directory, keys, counts, values)
            self.refresh()


class StoredEnsemble(Ensemble):
    """Ensemble with the tables of each teacher. ``label`` fills them; an answer that is asked for
    must be there.
    """

    def __init__(self, root: str | Path, teachers: Sequence[Mapping[str, Any]], task: Task) -> None:
        """Open the tables below ``root`` of ``teachers``, each a ``teacher_entry``."""
        own = [TeacherTables(root, teacher, task) for teacher in teachers]
        # Equal teachers share one: a process cannot hold its lock twice.
        self.tables = [next(x for x in own if x.directory == one.directory) for one in own]
        self.size = len(self.tables)

    def gather(self, handle: Mapping[str, Any]) -> Tensor:
        """Return the stored logits. ``-> [M, B, ..., C]``, fp32; span padding is ``PAD_LOGIT``.
        Raises ``DataError`` for a row that a teacher was not asked.
        """
        answers, figures = zip(*(tables.logits(handle) for tables in self.tables), strict=True)
        return self._joined(answers, figures)

    def label(self, batches: Batches, live: Live) -> int:
        """Have the teachers answer every row of ``batches`` that has no answer, and return how many
        rows that were. Another process that labels for these teachers is waited for.

        What was answered before an interruption is not asked again.
        """
        found = [[each.keys_of(x) for each in self.tables] for x in map(inputs_of, batches())]
        keys = [np.concatenate(of_teacher) for of_teacher in zip(*found, strict=True)]
        firsts = [n for n, tables in enumerate(self.tables) if tables not in self.tables[:n]]
        lacking = [n for n in firsts if not self.tables[n].holds(keys[n]).all()]
        with ExitStack() as stack:
            for tables in sorted((self.tables[n] for n in lacking), key=lambda t: t.directory):
                stack.enter_context(tables.labelling())
            missing = {}
            for n in lacking:  # of equal rows the first is asked
                mask = np.zeros(len(keys[n]), np.bool_)
                mask[np.unique(keys[n], axis=0, return_index=True)[1]] = True
                mask &= ~self.tables[n].holds(keys[n])
                if mask.any():
                    missing[n] = mask
            if not missing:
                return 0
            ensemble = stack.enter_context(live(tuple(missing)))
            wanted = np.logical_or.reduce([*missing.values()])
            asked = self._asked(batches(), wanted)
            for inputs, handle in submitted(asked, ensemble, _AHEAD):
                for n, answers in zip(missing, ensemble.gather(handle), strict=True):
                    rows = inputs["rows"]
                    some = np.flatnonzero(missing[n][rows])
                    if len(some):
                        chosen = inputs_of(inputs, some)
                        self.tables[n].add(keys[n][rows[some]], chosen, answers[some])
        return int(wanted.sum())

    def _asked(
        self, batches: Iterable[Mapping[str, Any]], wanted: NDArray[np.bool_]
    ) -> Iterator[dict[str, Any]]:
        """Yield the inputs of the rows that are ``wanted``, with their numbers as ``rows``."""
        begin = 0
        for batch in batches:
            rows = np.arange(begin, begin + len(batch["input_ids"]))
            begin += len(rows)
            some = np.flatnonzero(wanted[rows])
            if len(some):
                inputs = {**inputs_of(batch, some), "rows": rows[some]}
                if any(tables.reader for tables in self.tables):
                    inputs[OWN_TOKENS] = torch.ones(len(some), dtype=torch.bool)
                yield inputs


def stored_teachers(root: str | Path, names: Sequence[str] = ()) -> dict[Path, dict[str, Any]]:
    """Return what ``road data store ls`` shows of each teacher with tables below ``root``, by its
    directory; of those whose names start with one of ``names``, if there are any. Raises
    ``ConfigError`` if there are none.
    """
    root = Path(root).expanduser()
    found = [path.parent for path in sorted(root.glob(f"[!.]*/{MANIFEST}"))]
    if not found:
        raise ConfigError(
            f"{root}: no answers of teachers here\n"
            "  allowed: the value of distillation.store of a run, or answers/ in its directory"
        )
    known = [path.name for path in found]
    if unknown := [name for name in names if not any(one.startswith(name) for one in known)]:
        raise ConfigError(
            f"{unknown[0]}: no teacher of this directory\n  allowed: {', '.join(known)}"
        )
    return {path: _described(path) for path in found if path.name.startswith(tuple(names) or "")}


def _described(teacher: Path) -> dict[str, Any]:
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
