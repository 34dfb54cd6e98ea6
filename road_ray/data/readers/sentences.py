"""Sentences and pairs of them with a label each: one a row of a table.

Layouts: tab-separated lines without quoting (GLUE: Wang et al. 2018), JSON with a list of rows for
each task (Adversarial GLUE: Wang et al. 2021), or any table. Columns: those that the data set's
entry names. Labels stay as written in the file.
"""

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from road_ray.data.examples import TextExample
from road_ray.data.readers.tables import (
    Row,
    Rows,
    check_text,
    first_faults,
    missing_columns,
    numbered_lines,
    read_document,
    refuse_repeated_columns,
)
from road_ray.data.task_and_dataset import Columns, Dataset, label_text
from road_ray.errors import DataError, shorten

# QQP as published has a few rows with line ends in a text; more of them mean a wrong file.
_MAX_RAGGED_FRACTION = 1e-3

_log = logging.getLogger(__name__)


def sentences(rows: Rows, dataset: Dataset, labelled: bool) -> Iterator[TextExample]:
    """Yield the rows of a table. Raises ``DataError`` for a missing column; that of the label may
    be missing unless rows need it, and a JSON object behind the first may always lack it.
    """
    names, found = None, dataset.columns
    label: object
    for number, (where, row) in enumerate(rows):
        if row.keys() != names:  # in a table: the first row
            found = _columns_in(row, dataset.columns, labelled and names is None, where)
            names = row.keys()
        if isinstance(found.label, tuple):
            label = _marked(found.label, row, where)
        else:
            label = None if found.label is None else row.get(found.label)
        if found.separator is not None and isinstance(label, str):
            label = [part for cell in label.split(found.separator) if (part := cell.strip())]
        id = str(number) if found.id is None else str(row[found.id])
        texts = tuple(check_text(row[name], where, name) for name in found.text)
        yield TextExample(id, texts, None if label is None else label_text(label), where)


def _columns_in(row: Row, columns: Columns, labelled: bool, where: str) -> Columns:
    """Return the columns with every ``a|b`` replaced by the first of the two in the row."""

    def first(name: str | int | tuple[str, ...] | None) -> Any:
        options = name.split("|") if isinstance(name, str) else [name]
        return next((option for option in options if option in row), options[0])

    text, label, id = tuple(map(first, columns.text)), first(columns.label), first(columns.id)
    labels = label if isinstance(label, tuple) else [label]
    required = [*text, id, *(labels if labelled else [])]
    if missing := [name for name in required if name is not None and name not in row]:
        raise DataError(missing_columns(where, missing, list(row)))
    return Columns(text, label, id, columns.separator)


MARKS = {"0": False, "0.0": False, "false": False, "1": True, "1.0": True, "true": True}
_HIDDEN = ("", "none", "-1")


def _marked(columns: Sequence[str], row: Row, where: str) -> list[str] | None:
    """Return the columns of a row that have a 1 where others have a 0; None if all are empty or -1,
    which hides labels.
    """
    cells = [str(row.get(column, "")).strip().lower() for column in columns]
    if {*cells} <= {*_HIDDEN}:
        return None
    for column, cell in zip(columns, cells, strict=True):
        if cell not in MARKS:
            raise DataError(
                f"{where}: column {column!r} = {shorten(repr(row.get(column)))}; allowed: 0 or 1\n"
                "  fix: correct the row, or the columns in `label` of the data set's entry"
            )
    return [column for column, cell in zip(columns, cells, strict=True) if MARKS[cell]]


def glue_rows(path: Path, columns: Columns, labelled: bool) -> Iterator[tuple[str, Row]]:
    """Yield the rows of GLUE's TSV, whose quotes are letters. Without a header its columns are
    numbers. Raises ``DataError`` for rows of another number of columns, unless they are at most one
    in a thousand, which are dropped with a warning.
    """
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
    if len(ragged) > num_rows * _MAX_RAGGED_FRACTION:
        raise DataError(
            f"{path}: {len(ragged)} of {num_rows} rows have too many or too few tabs\n"
            f"  {first_faults(ragged)}\n"
            "  fix: write one row a line, and no tab or line end inside a text"
        )
    if ragged:
        _log.warning("%s: dropped %d broken rows: %s", path, len(ragged), first_faults(ragged))


def adv_glue_rows(path: Path, columns: Columns, labelled: bool) -> Iterator[tuple[str, Row]]:
    """Yield the rows of one task in AdvGLUE's file, whose key is named as the column of ids; that
    column has their numbers.
    """
    content, key = read_document(path), str(columns.id)
    if not isinstance(content, dict) or not isinstance(content.get(key), list):
        found = ", ".join(content) if isinstance(content, dict) else type(content).__name__
        raise DataError(f"{path}: no list of rows {key!r}; found: {found}")
    for number, row in enumerate(content[key]):
        numbered = row | {key: number} if isinstance(row, dict) else row
        yield f"{path}: {key}[{number}]", numbered
