"""Read a file of rows as a stream, whatever its format.

CSV, TSV, JSONL and Parquet files and lines of text are read row by row, so they may be larger than
memory. A JSON array and a file in SQuAD's layout are read whole.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from road_ray.data.readers.parts.tables import json_shape, suffix_of, table_rows
from road_ray.data.readers.parts.text_files import (
    MISFITS,
    missing_columns,
    numbered_lines,
    parse_json_line,
    read_document,
)
from road_ray.errors import ConfigError, DataError
from road_ray.inference.predictor import Row

STDIN = "-"
_TABLES = (".csv", ".tsv", ".jsonl", ".parquet", ".arrow")
_DOCUMENTS, _LINES = (".json",), (".txt",)


def input_rows(
    source: str, columns: Mapping[str, str], fields: tuple[str, ...]
) -> Iterator[tuple[str, Row]]:
    """Yield ``file:line`` and the fields of each row of a file, or of standard input for ``-``.

    ``columns`` maps a field to the column that holds it; other fields are columns of their own
    name. A row without ``id`` gets its number from 0. Raises ``ConfigError`` for a file that is not
    there and a suffix that is not read, ``DataError`` for a row that lacks a column and for a file
    without rows.
    """
    if unknown := sorted(set(columns) - {*fields, "id"}):
        raise ConfigError(
            f"column {unknown[0]}={columns[unknown[0]]}: the model has no field {unknown[0]!r}\n"
            f"  allowed: {', '.join((*fields, 'id'))}"
        )
    number = -1
    for number, (where, row) in enumerate(_rows(source)):
        if missing := [name for name in columns.values() if name not in row]:
            raise DataError(
                missing_columns(where, missing, list(row)).split("\n")[0]
                + "\n  fix: name the columns of this file by --column FIELD=NAME"
            )
        if not any(field in row or field in columns for field in fields):
            raise DataError(
                f"{where}: none of the fields {', '.join(fields)}; found: {', '.join(row)}\n"
                f"  fix: name the column by --column {fields[0]}=NAME"
            )
        renamed = {field: row[name] for field, name in columns.items()}
        named = {field: row[field] for field in ("id", *fields) if field in row} | renamed
        yield where, named | {"id": str(named.get("id", number))}
    if number < 0:
        raise DataError(
            f"{source}: has no rows\n  fix: name a file with a row below its header, or with lines"
        )


def _rows(source: str) -> Iterator[tuple[str, Row]]:
    if source == STDIN:
        return _lines(("<stdin>:" + str(n), line) for n, line in enumerate(sys.stdin, 1))
    path = Path(source).expanduser()
    if not path.is_file():
        raise ConfigError(
            f"{source}: no such file\n  fix: name a file, or - for lines of standard input"
        )
    suffix = suffix_of(path)
    if suffix in _TABLES:
        return table_rows(path)
    if suffix in _LINES:
        return _lines((f"{path}:{number}", line) for number, line in numbered_lines(path))
    if suffix in _DOCUMENTS:
        return _document(path)
    raise ConfigError(
        f"{source}: {suffix or 'no suffix'} is not read\n"
        f"  allowed: {', '.join((*_TABLES, *_DOCUMENTS, *_LINES))}, all texts also with .gz"
    )


def _lines(lines: Iterable[tuple[str, str]]) -> Iterator[tuple[str, Row]]:
    """Yield a row for each line: a JSON object, or a text."""
    for where, line in lines:
        text = line.strip()
        if text:
            yield where, parse_json_line(text, where) if text[0] == "{" else {"text": text}


def _document(path: Path) -> Iterator[tuple[str, Row]]:
    """Yield the rows of a JSON array, or the questions of a file in SQuAD's layout."""
    if json_shape(path) != "document":
        yield from table_rows(path)
        return
    document = read_document(path)
    try:
        if "paragraphs" not in document["data"][0]:
            yield from table_rows(path)
            return
        for article in document["data"]:
            for paragraph in article["paragraphs"]:
                for question in paragraph["qas"]:
                    row = {"id": question["id"], "question": question["question"]}
                    yield (
                        f"{path}: question {question['id']}",
                        row | {"context": paragraph["context"]},
                    )
    except MISFITS as error:
        raise DataError(
            f"{path}: neither an array of rows nor in SQuAD's layout: {type(error).__name__} "
            f"{error}\n  allowed: [{{...}}, ...] or {{data: [{{paragraphs: ...}}]}}"
        ) from error
