"""Changes of training rows (unlabelled rows that are added, labels that are corrected), folds as a
pure function of the text, and the limits of a row, which are recorded with a model and taken from
there by later commands.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from road_ray.data.config import SourceConfig
from road_ray.data.examples import NO_WINDOWS, Example, Ints, TextExample, fold_text
from road_ray.data.readers.layouts import table_examples
from road_ray.data.readers.squad import flat_rows
from road_ray.data.readers.tables import Rows, named_rows, numbered_lines, table_rows
from road_ray.data.task_and_dataset import (
    Choose,
    Classify,
    Columns,
    Dataset,
    Span,
    Task,
    label_text,
)
from road_ray.errors import ConfigError, DataError

if TYPE_CHECKING:
    from road_ray.data.load_split import Split


DROP = "drop"
FIELDS = (
    *("correction", "label", "suggested", "self_confidence", "margin"),
    *("text", "text_pair", "id"),
)
"""Correction that leaves a row out, and the columns of a table of corrections."""
REST = "rest"
"""Entry of ``data.unlabelled`` that names the training rows beyond ``data.max_rows``."""
LIMITS = ("max_length_tokens", "stride_tokens", "windows")
S = TypeVar("S", bound=SourceConfig)


def unlabelled_file(name: str, root: Path | None) -> Path | None:
    """Return the file that an entry of ``data.unlabelled`` names, below ``root`` or as a path; None
    if there is none, so that it names a data set.
    """
    place = Path(name).expanduser()
    below = [root / place] if root is not None else []
    return next((path for path in (*below, place) if path.is_file()), None)


def read_unlabelled(path: Path, dataset: Dataset, task: Task) -> list[Example]:
    """Return the rows of a text, table or SQuAD file as examples of ``task`` without labels.

    A table has the text columns of the data set, or ``text`` and ``text_pair``, or ``question`` and
    ``context``. A text file has one text a line. Raises ``DataError`` for a row without them and an
    empty file.
    """
    rows: Rows = named_rows(path)
    layout, columns = dataset.layout, replace(dataset.columns, label=None, id=None)
    if isinstance(task.kind, Span):
        gold = {"id", "answers", "is_impossible"}  # of no use here, whether they are right or not
        rows = ((w, {c: row[c] for c in row if c not in gold}) for w, row in flat_rows(rows))
        layout, columns = "squad_json", Columns(())
    elif not isinstance(task.kind, Choose):
        usual = zip(dataset.columns.text, ("text", "text_pair"), strict=False)
        layout, columns = "table", Columns(tuple(f"{own}|{other}" for own, other in usual))
        if path.suffix == ".txt":
            lines = ((f"{path}:{n}", line.strip()) for n, line in numbered_lines(path))
            rows = ((where, {"text": line}) for where, line in lines if line)
    entry = replace(dataset, layout=layout, columns=columns)
    examples = table_examples(str(path), rows, entry, labelled=False)
    return [example.unlabelled() for example in examples]


def corrected(
    examples: Sequence[Example], path: Path, dataset: Dataset, task: Task
) -> list[Example]:
    """Return the examples without those that the table drops, and with its labels.

    A row of the table is of all examples with its texts and its ``label``; without a ``correction``
    it changes nothing. Raises ``DataError`` for a row of no example, ``ConfigError`` for a task
    without classes.
    """
    if not isinstance(task.kind, Classify):
        raise ConfigError(
            f"data.corrections = {path}: {dataset.name} has no classes\n"
            "  allowed: data sets with one label a text or pair"
        )
    corrections = _read(path, len(dataset.columns.text))
    kept, unused = list[Example](), set(corrections)
    for example in examples:
        assert isinstance(example, TextExample)
        same = (example.texts, str(example.label))
        where, correction = corrections.get(same, (example.where, example.label))
        unused.discard(same)
        if correction != DROP or same not in corrections:
            kept.append(replace(example, label=correction, where=where))
    if unused:
        texts, label = min(unused)
        raise DataError(
            f"{path}: {len(unused)} of {len(corrections)} rows are of no training row of "
            f"{dataset.name}, such as {' | '.join(texts)[:80]!r} with the label {label!r}\n"
            "  fix: use the table of this data set, with the same data.max_rows and "
            "data.label_noise; only its column correction may be edited"
        )
    return kept


def _read(path: Path, num_texts: int) -> dict[tuple[Any, str], tuple[str, str]]:
    """Return the place and the correction of each row that has one, by its texts and label."""
    corrections = {}
    for where, row in table_rows(path):
        if missing := [name for name in ("correction", "label", "text") if name not in row]:
            raise DataError(
                f"{where}: has no column {', '.join(missing)}\n"
                f"  allowed: a table of `road data errors`, with {', '.join(FIELDS)}"
            )
        written, label = row["correction"], label_text(row["label"])
        correction = "" if written is None else label_text(written).strip()
        texts = (row["text"], row.get("text_pair") or "")[:num_texts]
        if correction:
            corrections[texts, label] = where, correction
    return corrections


def fold_of(example: Example, num_folds: int) -> int:
    """Return the fold, 0 to ``num_folds - 1``, of an example, ignoring case and white space.

    All questions about one context are in one fold, since a model that has seen one of them has
    seen the text.
    """
    return _number_of(example) % num_folds


def row_folds(split: Split, num_folds: int) -> Ints:
    """Return the fold of every row of a split, ``[rows]``."""
    if num_folds == 1:  # without a hash of every text
        return np.zeros_like(split.features.example)
    folds = np.array([fold_of(example, num_folds) for example in split.examples], dtype=np.int32)
    taken: Ints = folds[split.features.example]
    return taken


def held_out(examples: Sequence[Example], fraction: float, name: str) -> list[bool]:
    """Return for each example True if it is in the dev split of ``fraction`` of all.

    Examples with one text (for spans: one context) stay together; those without a label change
    nothing for the others. Raises ``DataError`` if all have the same text.
    """
    numbers = [_number_of(example) for example in examples]
    known = [n for n, e in zip(numbers, examples, strict=True) if e != e.unlabelled()] or numbers
    rows_of = Counter(known)
    if len(rows_of) < 2:
        raise DataError(
            f"data.sets.{name}: dev_fraction = {fraction}: all {len(examples)} rows have one text\n"
            "  fix: add rows with other texts, or name a file as dev"
        )
    held, remaining = set[int](), max(1, round(fraction * len(known)))
    for number in sorted(rows_of)[:-1]:
        if remaining > 0:
            held.add(number)
            remaining -= rows_of[number]
    return [number in held for number in numbers]


def _number_of(example: Example) -> int:
    """Return a number of 64 bits that follows from the text, ignoring case and white space."""
    text = " ".join(fold_text(example).casefold().split())
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def row_limits(source: SourceConfig) -> dict[str, Any]:
    """Return every limit of ``data``; None for one that depends on the task."""
    windows = source.windows or NO_WINDOWS
    return {name: getattr(source, name) for name in LIMITS} | {"windows": windows}


def with_trained_limits(source: S, record: Mapping[str, Any]) -> S:
    """Return ``data`` with the limits in the record of a model where it sets none of its own."""
    unset = [name for name in LIMITS if getattr(source, name) is None]
    return source.model_copy(update={name: record.get(name) for name in unset})
