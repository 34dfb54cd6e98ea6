"""Readers of tables with one sentence or a pair of them a row, and a label.

Layout: tab-separated lines without quoting (GLUE: Wang et al. 2018), or JSONL, CSV, TSV and
parquet. Columns: those that the data set's entry names. Labels stay as written in the file.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from road_ray.data.features.examples_and_features import TextExample
from road_ray.data.readers.parts.labels import below_zero, label_text
from road_ray.data.readers.parts.table_rows import class_names, table_rows
from road_ray.data.readers.parts.text_files import (
    check_text,
    first_faults,
    missing_columns,
    numbered_lines,
    refuse_repeated_columns,
    refuse_repeated_ids,
)
from road_ray.data.task_and_dataset import Columns
from road_ray.errors import DataError, shorten

# QQP as published has a few rows with line ends in a text; more of them mean a wrong file.
_MAX_RAGGED_FRACTION = 1e-3
NO_LABEL = "-"  # SNLI and MNLI: the annotators did not agree

_log = logging.getLogger(__name__)


def read_table(
    path: Path,
    columns: Columns,
    *,
    labelled: bool = False,
    mapped: Collection[str] = (),
    unquoted: bool = False,
) -> list[TextExample]:
    """Return the rows of a JSONL, CSV, TSV or parquet file; ``unquoted`` is GLUE's TSV, whose
    columns may be numbers where it has no header.

    ``where`` of a parquet row is ``file:row``, counted from 1. ``labelled`` drops rows without a
    label with a warning: an empty cell, ``-``, and class -1 of the library ``datasets``, unless
    ``mapped`` has it; and it demands a label column. Raises ``DataError`` for a missing column, a
    repeated id, no usable row, and rows of another number of columns; up to one such row of
    GLUE's TSV in a thousand is dropped with a warning instead.
    """
    classes = {} if unquoted else class_names(path)
    rows = _tsv_rows(path, columns) if unquoted else table_rows(path)
    examples: list[TextExample] = []
    names, found = None, columns
    for number, (where, row) in enumerate(rows):
        if row.keys() != names:  # in a table: the first row
            names = row.keys()
            found = _resolve_columns(
                [*names], columns, f"{path}:1" if unquoted else where, labelled
            )
        value = None if found.label is None else row.get(found.label)
        label = None if value is None else label_text(value)
        if labelled and found.label is not None and not label and label not in mapped:
            label = NO_LABEL
        if label is not None and found.label in classes and label not in mapped:
            label = (NO_LABEL if labelled else None) if below_zero(label) else label
        id = str(number) if found.id is None else str(row[found.id])
        texts = tuple(check_text(row[name], where, name) for name in found.text)
        examples.append(TextExample(id, texts, label, where))
    return _labelled(path, examples)


def _tsv_rows(path: Path, columns: Columns) -> Iterator[tuple[str, dict[Any, object]]]:
    """Yield ``file:line`` and the row of tab-separated lines without quoting."""
    lines = numbered_lines(path)
    header: Sequence[str | int] = ()
    if not all(isinstance(name, int) for name in columns.text):
        header = next(lines, (1, ""))[1].split("\t")
        refuse_repeated_columns(list(map(str, header)), f"{path}:1")
    ragged: list[str] = []
    num_rows = 0
    for number, line in lines:
        if not line:
            continue
        num_rows += 1
        cells = line.split("\t")
        header = header or range(len(cells))
        if len(cells) == len(header):
            yield f"{path}:{number}", dict(zip(header, cells, strict=True))
            continue
        ragged.append(
            f"{path}:{number}: {len(cells)} columns, expected {len(header)}: {shorten(line)!r}"
        )
    _check_ragged(path, ragged, num_rows)


def _check_ragged(path: Path, ragged: Sequence[str], rows: int) -> None:
    if len(ragged) > rows * _MAX_RAGGED_FRACTION:
        raise DataError(
            f"{path}: {len(ragged)} of {rows} rows have too many or too few tabs\n"
            f"  {first_faults(ragged)}\n"
            "  fix: write one row a line, and no tab or line end inside a text"
        )
    if ragged:
        _log.warning(
            "%s: dropped %d broken rows: %s",
            path,
            len(ragged),
            first_faults(ragged),
        )


def _resolve_columns(
    names: Sequence[str | int], columns: Columns, where: str, labelled: bool
) -> Columns:
    """Return ``columns`` with every ``a|b`` replaced by the first of the two in ``names``.

    Raises ``DataError`` if a column is missing; the label's may be, unless ``labelled``.
    """

    def first(name: str | int | None) -> Any:
        options = name.split("|") if isinstance(name, str) else [name]
        return next((option for option in options if option in names), options[0])

    columns = Columns(tuple(map(first, columns.text)), first(columns.label), first(columns.id))
    required = [*columns.text, columns.id, columns.label if labelled else None]
    missing = [name for name in required if name is not None and name not in names]
    if missing:
        raise DataError(missing_columns(where, missing, names))
    return columns


def _labelled(path: Path, examples: Sequence[TextExample]) -> list[TextExample]:
    """Return all examples except those whose annotators did not agree on a label.

    Raises ``DataError`` for repeated ids and if no example is left.
    """
    refuse_repeated_ids(path, examples)
    labelled = [example for example in examples if example.label != NO_LABEL]
    dropped = len(examples) - len(labelled)
    if dropped:
        _log.warning("%s: dropped %d rows without a label", path, dropped)
    if not labelled:
        raise DataError(
            f"{path}: 0 usable rows of {dropped} ({dropped} have no label)\n"
            "  fix: download or write the file again, or omit this split from the entry"
        )
    return labelled
