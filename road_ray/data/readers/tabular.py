"""Sentences and pairs with a label from tables: TSV as GLUE writes it, JSONL, CSV and parquet.

Every reader names the file and the line of what it cannot use. Nothing here knows a label set.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from road_ray.data.features.types import TextExample
from road_ray.data.readers.files import (
    check_text,
    first_faults,
    missing_columns,
    numbered_lines,
    refuse_repeated_columns,
    shorten,
    table_rows,
)
from road_ray.data.schema import Columns
from road_ray.errors import DataError

# Official QQP has a few rows broken by line ends; all readers drop them. More is a wrong file.
_MAX_RAGGED_FRACTION = 1e-3
_NO_GOLD = "-"  # SNLI and MNLI: the annotators did not agree

_log = logging.getLogger(__name__)


def read_glue_tsv(path: Path, columns: Columns, *, labelled: bool = False) -> list[TextExample]:
    """Rows of a tab-separated file without quoting; columns by name, or by number without a header.

    A file without the label column gives labels of None, unless ``labelled`` demands one. Rows
    whose label is ``-`` are dropped and counted. Raises ``DataError`` for a missing column or a row
    with other than the expected number of tabs; up to one such row in a thousand is dropped with a
    warning (official QQP has some).
    """
    return _kept(path, _tsv_rows(path, columns, labelled))


def read_table(path: Path, columns: Columns, *, labelled: bool = False) -> list[TextExample]:
    """Rows of JSONL, CSV or parquet, columns by name; ``where`` is ``file:line``, or counts the
    rows of a parquet file from 1.
    """
    return _kept(path, _table_rows(path, columns, labelled))


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
    _judge_ragged(path, ragged, row + 1)


def _judge_ragged(path: Path, ragged: Sequence[str], rows: int) -> None:
    if len(ragged) > rows * _MAX_RAGGED_FRACTION:
        raise DataError(
            f"{path}: {len(ragged)} of {rows} rows have too many or too few tabs\n"
            f"  {first_faults(ragged)}\n"
            "  fix: one row a line, one tab between columns, no tab or line end inside a text"
        )
    if ragged:
        _log.warning("%s: dropped %d broken rows: %s", path, len(ragged), first_faults(ragged))


def _table_rows(path: Path, columns: Columns, labelled: bool) -> Iterator[TextExample]:
    for row, (where, found) in enumerate(table_rows(path)):
        yield _from_mapping(found, row, where, columns, labelled)


def _from_mapping(
    row: dict[str, object], index: int, where: str, columns: Columns, labelled: bool
) -> TextExample:
    columns = _named_in(row, columns)
    wanted = [*columns.text, *([columns.id] if columns.id is not None else [])]
    if labelled and columns.label is not None:
        wanted.append(columns.label)
    missing = [name for name in wanted if name not in row]
    if missing:
        raise DataError(missing_columns(where, missing, list(row)))
    label = None if columns.label is None else row.get(str(columns.label))
    if labelled and columns.label is not None and label is None:
        raise DataError(f"{where}: column {columns.label!r} is null; a training label is needed")
    return TextExample(
        id=str(index) if columns.id is None else str(row[str(columns.id)]),
        texts=tuple(check_text(row[str(name)], where, name) for name in columns.text),
        label=label if label is None or isinstance(label, str) else json.dumps(label),
        where=where,
    )


def _named_in(names: Collection[object], columns: Columns) -> Columns:
    """The columns with every ``a|b`` replaced by the first of the two that there is."""

    def first(name: str | int | None) -> Any:
        options = name.split("|") if isinstance(name, str) else [name]
        return next((option for option in options if option in names), options[0])

    return Columns(tuple(map(first, columns.text)), first(columns.label), first(columns.id))


def _places(
    path: Path, header: Sequence[str | int], columns: Columns, labelled: bool
) -> tuple[list[int], int | None, int | None]:
    """Where texts, label and id stand in a row."""
    found = {name: place for place, name in enumerate(header)}
    columns = _named_in(found, columns)
    wanted = [*columns.text, *([columns.id] if columns.id is not None else [])]
    if labelled and columns.label is not None:
        wanted.append(columns.label)
    missing = [name for name in wanted if name not in found]
    if missing:
        raise DataError(missing_columns(f"{path}:1", missing, header))
    label = None if columns.label is None else found.get(columns.label)
    name = None if columns.id is None else found[columns.id]
    return [found[text] for text in columns.text], label, name


def _kept(path: Path, rows: Iterable[TextExample]) -> list[TextExample]:
    """All rows but those without gold. Raises ``DataError`` for repeated ids and for no rows."""
    kept: list[TextExample] = []
    seen: dict[str, str] = {}
    repeated: list[str] = []
    dropped = 0
    for example in rows:
        first = seen.setdefault(example.id, example.where)
        if first is not example.where:
            repeated.append(f"id {example.id!r} at {example.where}, first at {first}")
        if example.label == _NO_GOLD:
            dropped += 1
        else:
            kept.append(example)
    if repeated:
        raise DataError(
            f"{path}: {len(repeated)} rows repeat an id\n  {first_faults(repeated)}\n"
            "  fix: remove the copies, or leave `id` out of the entry: rows are numbered"
        )
    if dropped:
        _log.warning("%s: dropped %d rows without a gold label (%r)", path, dropped, _NO_GOLD)
    if not kept:
        raise DataError(
            f"{path}: 0 usable rows of {dropped} (dropped without gold: {dropped})\n"
            "  fix: fetch or write the file again, or leave this split out of the entry"
        )
    return kept
