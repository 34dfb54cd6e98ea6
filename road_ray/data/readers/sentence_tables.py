"""Readers of tables with one sentence or a pair of them a row, and a label.

Layout: tab-separated lines without quoting (GLUE: Wang et al. 2018), or JSONL, CSV, TSV and
parquet. Columns: those that the data set's entry names. Labels stay as written in the file.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
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


def read_glue_tsv(path: Path, columns: Columns, *, labelled: bool = False) -> list[TextExample]:
    """Return the rows of a tab-separated file; columns are names, or numbers without a header.

    Without a label column the labels are None; ``labelled`` makes that an error. Rows with the
    label ``-`` are dropped with a warning. Raises ``DataError`` for a missing column or a row with
    another number of columns; up to one such row in a thousand is dropped with a warning instead.
    """
    return _labelled(path, _tsv_rows(path, columns, labelled))


def read_table(
    path: Path, columns: Columns, *, labelled: bool = False, mapped: Collection[str] = ()
) -> list[TextExample]:
    """Return the rows of a JSONL, CSV, TSV or parquet file, with columns by name.

    ``where`` of a parquet row is ``file:row``, counted from 1. Class -1 of the library ``datasets``
    is no label unless it is ``mapped`` to one: ``labelled`` drops its rows with a warning.
    """
    classes = class_names(path)
    rows = enumerate(table_rows(path))
    examples = (
        _from_mapping(row, n, where, columns, labelled, classes, mapped) for n, (where, row) in rows
    )
    return _labelled(path, examples)


def _tsv_rows(path: Path, columns: Columns, labelled: bool) -> Iterator[TextExample]:
    lines = numbered_lines(path)
    by_number = all(isinstance(name, int) for name in columns.text)
    header: list[str] | None = None
    if not by_number:
        first = next(lines, None)
        if first is None:
            return
        header = first[1].split("\t")
        refuse_repeated_columns(header, f"{path}:1")
    places = _places(path, header, columns, labelled) if header else None
    width = len(header) if header else 0
    ragged: list[str] = []
    row = -1
    for number, line in lines:
        if not line:
            continue
        row += 1
        cells = line.split("\t")
        if places is None:
            width = len(cells)
            places = _places(path, list(range(width)), columns, labelled)
        if len(cells) != width:
            ragged.append(
                f"{path}:{number}: {len(cells)} columns, expected {width}: {shorten(line)!r}"
            )
            continue
        texts, label, name = places
        yield TextExample(
            id=str(row) if name is None else cells[name],
            texts=tuple(cells[place] for place in texts),
            label=None if label is None else cells[label],
            where=f"{path}:{number}",
        )
    _check_ragged(path, ragged, row + 1)


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


def _from_mapping(
    row: dict[str, object],
    index: int,
    where: str,
    columns: Columns,
    labelled: bool,
    classes: Collection[str],
    mapped: Collection[str],
) -> TextExample:
    columns = _resolve_columns(list(row), columns, where, labelled)
    value = None if columns.label is None else row.get(str(columns.label))
    if labelled and columns.label is not None and value is None:
        raise DataError(f"{where}: column {columns.label!r} is null, and this split needs labels")
    label = None if value is None else label_text(value)
    is_class = columns.label in classes and label not in mapped
    if label is not None and is_class and below_zero(label):
        label = NO_LABEL if labelled else None
    return TextExample(
        id=str(index) if columns.id is None else str(row[str(columns.id)]),
        texts=tuple(check_text(row[str(name)], where, name) for name in columns.text),
        label=label,
        where=where,
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


def _places(
    path: Path, header: Sequence[str | int], columns: Columns, labelled: bool
) -> tuple[list[int], int | None, int | None]:
    """Return the positions of texts, label and id in a row."""
    columns = _resolve_columns(header, columns, f"{path}:1", labelled)
    index = {name: number for number, name in enumerate(header)}
    label = None if columns.label is None else index.get(columns.label)
    name = None if columns.id is None else index[columns.id]
    return [index[text] for text in columns.text], label, name


def _labelled(path: Path, examples: Iterable[TextExample]) -> list[TextExample]:
    """Return all examples except those whose annotators did not agree on a label.

    Raises ``DataError`` for repeated ids and if no example is left.
    """
    examples = list(examples)
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
