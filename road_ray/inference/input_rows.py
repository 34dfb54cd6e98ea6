"""Read a file of rows as a stream, in any of several formats.

CSV, TSV, JSONL and Parquet files and lines of text are read row by row, so they may be larger than
memory. A JSON array and a file in SQuAD's layout are loaded completely.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from road_ray.data.readers.parts.table_rows import json_shape, suffix_of, table_rows
from road_ray.data.readers.parts.text_files import (
    MISFITS,
    check_text,
    decoded_lines,
    missing_columns,
    numbered_lines,
    parse_json_line,
    read_document,
)
from road_ray.errors import ConfigError, DataError, nearest
from road_ray.inference.predictor import PREDICTION_FIELDS, Row
from road_ray.system.paths import STDIN, check_input

_TABLES = (".csv", ".tsv", ".jsonl", ".parquet", ".arrow")
_DOCUMENTS, _LINES = (".json",), (".txt",)
_ANSWERS = ("title", "answers", "is_impossible")  # further columns of SQuAD's flat rows
_USES = {"keep": "copies to the output", "ignore": "leaves out"}


@dataclass(frozen=True)
class ColumnChoice:
    """Choice of the columns of a file of rows: read as fields of the model, copied, or ignored.

    ``fields`` maps a field to the column that holds it; other fields are columns of their own name.
    ``keep`` maps a name in the output to the column that is copied there. ``ignore`` lists columns
    that are left out. Raises ``ConfigError`` for a name in ``keep`` that predictions already have.
    """

    fields: Mapping[str, str] = field(default_factory=dict)
    keep: Mapping[str, str] = field(default_factory=dict)
    ignore: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name, column in self.keep.items():
            if name in PREDICTION_FIELDS or name.startswith("score_"):
                raise ConfigError(
                    f"--keep {name}: predictions have a field {name!r}\n"
                    f"  fix: keep it under another name: --keep input_{name}={column}"
                )


class InputRow(NamedTuple):
    """A row of a file: its place, the fields of the model, and the cells that are copied."""

    where: str
    fields: Row
    copied: Row


@dataclass(frozen=True)
class RowSource:
    """A file of rows, or standard input for ``-``, and how its columns are read.

    ``fields`` and ``trained`` are those of ``input_rows``.
    """

    source: str
    columns: ColumnChoice
    fields: tuple[str, ...]
    trained: Mapping[str, str] = field(default_factory=dict)

    def rows(self) -> Iterator[InputRow]:
        """Yield the rows; those of standard input can be read once."""
        return input_rows(self.source, self.columns, self.fields, self.trained)

    def count(self) -> int | None:
        """Return the number of rows, which are read once for it; None for standard input.

        Raises ``DataError`` for a row that cannot be read.
        """
        if self.source == STDIN:
            return None
        return sum(1 for _ in _rows(self.source))


def input_rows(
    source: str,
    columns: ColumnChoice,
    fields: tuple[str, ...],
    trained: Mapping[str, str] | None = None,
) -> Iterator[InputRow]:
    """Yield the rows of a file, or of standard input for ``-``.

    ``trained`` has the columns of the training data by field: then a row needs all fields, and
    messages name these columns. A row without ``id`` gets its number from 0.

    Raises ``ConfigError`` for a file that does not exist and for a suffix that is not supported,
    ``DataError`` for a row that lacks a column, for a column that is neither read, copied nor
    ignored, for a copied cell that UTF-8 cannot encode, and for a file without rows.
    """
    if unknown := sorted(set(columns.fields) - {*fields, "id"}):
        raise ConfigError(
            f"column {unknown[0]}={columns.fields[unknown[0]]}: the model has no field "
            f"{unknown[0]!r}\n  allowed: {', '.join((*fields, 'id'))}"
        )
    number, seen, read = -1, None, {}
    for number, (where, row) in enumerate(_rows(source)):
        if row.keys() != seen:  # in a table: the first row
            read = {name: name for name in ("id", *fields) if name in row} | dict(columns.fields)
            _check_columns(where, row, read, columns, fields, trained or {})
            seen = row.keys()
        values = {name: row[column] for name, column in read.items()}
        copied = {
            name: _copied(row[column], where, column) for name, column in columns.keep.items()
        }
        yield InputRow(where, values | {"id": str(values.get("id", number))}, copied)
    if number < 0:
        raise DataError(
            f"{source}: has no rows\n  fix: name a file with a row below its header, or with lines"
        )


def _copied(cell: object, where: str, column: str) -> object:
    """Return the cell. Raises ``DataError`` unless UTF-8 can encode its text."""
    text = cell if isinstance(cell, str) else json.dumps(cell, ensure_ascii=False, default=str)
    check_text(text, where, column)
    return cell


def _check_columns(
    where: str,
    row: Row,
    read: Mapping[str, str],
    columns: ColumnChoice,
    fields: tuple[str, ...],
    trained: Mapping[str, str],
) -> None:
    """Raise ``DataError`` for a missing column, and for a column that is not used."""
    chosen = [*columns.fields.values(), *columns.keep.values()]
    if missing := [name for name in chosen if name not in row]:
        fix = "name the columns of this file by --column FIELD=NAME and --keep NAME"
        if [*row] == ["text"]:
            fix = "name a CSV file, or write JSON lines: a line of text has no other column"
        first_line = missing_columns(where, missing, [*row]).split("\n")[0]
        raise DataError(f"{first_line}\n  fix: {fix}")
    lacking = [name for name in fields if name not in read]
    needs_all = bool(trained) or "question" in fields  # of others, one is enough
    if lacking and (needs_all or lacking == list(fields)):
        raise DataError(_without_fields(where, row, lacking, trained, needs_all=needs_all))
    useful = {*read.values(), *columns.keep.values(), *columns.ignore}
    if "context" in fields:
        useful.update(_ANSWERS)
    if unused := [name for name in row if name not in useful]:
        raise DataError(_without_use(where, unused, [name for name in fields if name not in read]))


def _without_fields(
    where: str, row: Row, lacking: Sequence[str], trained: Mapping[str, str], *, needs_all: bool
) -> str:
    """Return the message for fields that no column is read for."""
    what = f"no column {lacking[0]!r}" if len(lacking) == 1 else f"no columns {', '.join(lacking)}"
    if not needs_all:
        what, lacking = f"none of the fields {', '.join(lacking)}", lacking[:1]
    known = trained or dict.fromkeys(lacking, "NAME")
    options = " ".join(
        f"--column {name}={shlex.quote(column) if column in row else 'NAME'}"
        for name, column in known.items()
    )
    origin = f"\n  trained on: {', '.join(trained.values())}" if trained else ""
    return f"{where}: {what}; found: {', '.join(row)}{origin}\n  fix: name the column by {options}"


def _without_use(where: str, unused: Sequence[str], free: Sequence[str]) -> str:
    """Return the message for columns that are neither read, copied nor ignored."""
    near = {name: hint for name in unused if (hint := nearest(name, free))}
    similar = "".join(f"; --column {hint}={name}?" for name, hint in near.items())
    words = {
        option: " ".join(f"--{option} {shlex.quote(name)}" for name in unused) for option in _USES
    }
    return (
        f"{where}: columns that the model does not read: {', '.join(map(repr, unused))}{similar}\n"
        + "\n".join(f"  fix: {words[option]} {effect}" for option, effect in _USES.items())
    )


def _rows(source: str) -> Iterator[tuple[str, Row]]:
    if source == STDIN:
        lines = decoded_lines(sys.stdin.buffer, "<stdin>")
        return _lines((f"<stdin>:{number}", line) for number, line in lines)
    check_input(source)
    path = Path(source).expanduser()
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
    """Yield a row for each line: a JSON object, or a text. Raises ``DataError`` for an array."""
    for where, line in lines:
        text = line.strip()
        if text == "[" or re.match(r"\[\s*\{", text):
            raise DataError(
                f"{where}: the beginning of a JSON array, where one JSON object or text a line was "
                "expected\n  fix: write one object a line (jq -c '.[]'), or name a .json file"
            )
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
