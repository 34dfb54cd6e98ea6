"""Read a file of rows as a stream, in any of several formats. The module does not import torch.

CSV, TSV, JSONL and Parquet files and lines of text are read row by row, so they may be larger than
memory. A JSON array, a file in SQuAD's layout and words in columns are loaded completely.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from road_ray.data.inspection.data_files import layout_of
from road_ray.data.readers.conll import conll_rows
from road_ray.data.readers.layouts import glue_rows
from road_ray.data.readers.squad import flat_rows
from road_ray.data.readers.tables import (
    MISFITS,
    TABLES,
    Rows,
    missing_columns,
    numbered_lines,
    parse_json_line,
    suffix_of,
    table_rows,
    value_of,
)
from road_ray.data.task_and_dataset import Columns
from road_ray.errors import ConfigError, DataError, shorten
from road_ray.system.files import STDIN, check_input

Row: TypeAlias = Mapping[str, object]

# Names of the fields of all kinds of predictions, `id` and `n_best` included.
PREDICTION_FIELDS = (
    *("id", "label", "labels", "score", "scores", "value", "choice", "tags", "words", "entities"),
    *("answer", "start", "end", "no_answer_score", "null_odds", "n_best"),
)
_OF_SQUAD = ("answers", "plausible_answers", "is_impossible")
_GOLD = (*_OF_SQUAD, "accepted", "further", "references")
_LINES = ".txt"


@dataclass(frozen=True)
class TrainedInput:
    """Columns in which the rows of the training had the fields of the model.

    ``columns`` maps a field to its column: a name, a list of names for ``choices``, or a number in
    a file without a header. ``id`` is the column of identifiers. Empty for a model whose
    ``road_ray.json`` does not say it, which reads the ``usual`` fields.
    """

    columns: Mapping[str, Any] = field(default_factory=dict)
    id: str | None = None
    usual: tuple[str, ...] = ()

    @classmethod
    def of_record(cls, record: Mapping[str, Any], usual: tuple[str, ...] = ()) -> TrainedInput:
        """Return that of a model's ``road_ray.json``."""
        return cls(record.get("columns") or {}, record.get("id_column"), usual)

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the fields of a row, empty if they are not known."""
        return ("text", "words") if "words" in self.columns else tuple(self.columns) or self.usual

    @property
    def optional(self) -> tuple[str, ...]:
        """Fields that a row may lack: a sentence is a text or its words, and a model that does not
        record its columns reads single texts too.
        """
        if "words" in self.fields:
            return self.fields
        return () if self.columns else ("text_pair",)

    def columns_in(self, row: Row, chosen: Mapping[str, str]) -> dict[str, Any]:
        """Return the column of ``id`` and of each field that a row has. The one rule for files,
        requests and rows of Python:

        A field has the column that is ``chosen``. The others have those of the training if the row
        has all of these, else it is a row by fields. An id may always be in its own column.
        """
        known = {name: column for name, column in self.columns.items() if name not in chosen}
        try:
            cell(row, names_in(known))
        except MISFITS:
            known = {}
        known |= {**({"id": self.id} if self.id in row else {}), **chosen}
        return {n: known.get(n, n) for n in ("id", *self.fields) if n in known or n in row}

    def named(self, row: Row) -> Row:
        """Return a row by fields of the model, whose columns may be those of the training."""
        columns = self.columns_in(row, {})
        read = names_read(row, columns)
        others = {name: value for name, value in row.items() if name not in read}
        return others | {name: cell(row, column) for name, column in columns.items()}


@dataclass(frozen=True)
class ColumnChoice:
    """Choice of the columns of a file of rows, where it is not that of the training.

    ``fields`` maps a field to the column that holds it. ``keep`` maps a name in the output to the
    column that is copied there; empty: all columns that the model does not read are copied, under
    their names. A name that predictions have gets ``input_`` before it. ``ignore`` lists columns
    that are left out.
    """

    fields: Mapping[str, str] = field(default_factory=dict)
    keep: Mapping[str, str] = field(default_factory=dict)
    ignore: Sequence[str] = ()


class InputRow(NamedTuple):
    """A row of a file: its place, the fields of the model, and the cells that are copied."""

    where: str
    fields: Row
    copied: Row


def input_rows(source: str, columns: ColumnChoice, trained: TrainedInput) -> Iterator[InputRow]:
    """Yield the rows of a file, or of standard input for ``-``.

    Columns are those of ``columns`` and of the training, by ``TrainedInput.columns_in``. A row
    without an id gets its number from 0, and ``row NUMBER`` behind a row that has one.

    Raises ``ConfigError`` for a file that does not exist and for a suffix that is not supported,
    ``DataError`` for a row that lacks a column, for a given id that was counted before, and for a
    file without rows.
    """
    allowed = (*trained.fields, "id")
    if unknown := sorted({*columns.fields}.difference(allowed)):
        raise ConfigError(
            f"column {unknown[0]}={columns.fields[unknown[0]]}: the model has no field "
            f"{unknown[0]!r}\n  allowed: {', '.join(allowed)}"
        )
    number = -1
    counted: int | None = None  # rows before the first with an id
    for number, (where, row) in enumerate(file_rows(source, trained, columns.fields)):
        read = trained.columns_in(row, columns.fields)
        _check_columns(where, row, read, columns, trained)
        values = {name: cell(row, column) for name, column in read.items()}
        given = values.get("id")
        if given in (None, ""):
            values["id"] = str(number) if counted is None else f"row {number}"
        else:
            counted = number if counted is None else counted
            values["id"] = name = str(given)
            if name.isdecimal() and name == str(int(name)) and int(name) < counted:
                raise DataError(
                    f"{where}: id {name!r} is also the number of a row before it, which has "
                    "no id\n  fix: give all rows an id, or none"
                )
        yield InputRow(where, values, _copied(row, read, columns))
    if number < 0:
        raise DataError(
            f"{source}: has no rows\n  fix: name a file with a row below its header, or with lines"
        )


def cell(row: Row, column: str | list[str]) -> object:
    """Return the value of a column, or the list of those of several."""
    if isinstance(column, list):
        return [value_of(row, name) for name in column]
    return value_of(row, column)


def names_in(columns: Mapping[str, Any]) -> list[Any]:
    """Return the names of all columns of fields."""
    listed = (column if isinstance(column, list) else [column] for column in columns.values())
    return [name for names in listed for name in names]


def names_read(row: Row, columns: Mapping[str, Any]) -> set[Any]:
    """Return the names of the cells of a row that fields read, also in part."""
    names = names_in(columns)
    parts = (part for name in names if name not in row for part in name.split("+"))
    return {*names, *(part.partition("[")[0] for part in parts)}


def _check_columns(
    where: str, row: Row, read: Mapping[str, Any], columns: ColumnChoice, trained: TrainedInput
) -> None:
    """Raise ``DataError`` for a chosen column, or one that a field needs, which is not there."""
    wanted: list[Any] = [*columns.fields.values(), *columns.keep.values()]
    lacking = [name for name in trained.fields if name not in (*read, *trained.optional)]
    if not lacking and read.keys().isdisjoint(trained.fields):  # neither a text nor its words
        lacking = [*trained.fields]
    if lacking:
        wanted += names_in(trained.columns) or lacking
    if missing := [name for name in wanted if name not in row]:
        first_line = missing_columns(where, missing, [*row]).split("\n")[0]
        chosen = " ".join(f"--column {name}=NAME" for name in lacking)
        named = chosen or "--column FIELD=NAME and --keep NAME"
        raise DataError(f"{first_line}\n  fix: name the columns of this file by {named}")


def _copied(row: Row, read: Mapping[str, Any], columns: ColumnChoice) -> Row:
    """Return the cells that are copied, by their names in the output."""
    used = {*names_read(row, read), *columns.ignore}
    copied: dict[str, object] = {}
    for name, column in (columns.keep or {n: n for n in row if n not in used}).items():
        if name in PREDICTION_FIELDS or name.startswith("score_"):
            name = f"input_{name}"
            while name in row or name in copied or name in columns.keep:
                name = f"input_{name}"
        copied[name] = row[column]
    return copied


def file_rows(
    source: str, trained: TrainedInput = TrainedInput(), chosen: Collection[str] = ()
) -> Iterator[tuple[str, Row]]:
    """Yield ``file:line`` and the row by columns of a file in any format, or of standard input;
    ``chosen`` columns are those of a header.
    """
    named = names_in(trained.columns)
    if source == STDIN:
        names = {name for name in named if isinstance(name, str)} or {"text", "label"}
        lines = numbered_lines(Path("<stdin>"), file=sys.stdin.buffer)
        return _lines(((f"<stdin>:{number}", line) for number, line in lines), names)
    check_input(source)
    path = Path(source).expanduser()
    suffix = suffix_of(path)
    if "words" in trained.fields and layout_of(path) == "conll":
        words = Columns((named[0] if named and isinstance(named[0], int) else 0,))
        rows = conll_rows(path, words, False)
        return ((where, {"words": row["tokens"]}) for where, row in rows)
    if suffix == ".tsv" and not chosen and isinstance(trained.columns.get("text"), int):
        _, first = next(numbered_lines(path), (1, ""))
        if max(named) < len(cells := first.split("\t")) and not {*cells} & {*trained.fields}:
            found = glue_rows(path, Columns(tuple(named)), False)
            return ((at, {n if n in named else str(n): row[n] for n in row}) for at, row in found)
    if suffix in TABLES:
        return _asked(table_rows(path))
    if suffix == _LINES:
        return _lines((f"{path}:{number}", line) for number, line in numbered_lines(path))
    raise ConfigError(
        f"{source}: {suffix or 'no suffix'} is not read\n"
        f"  allowed: {', '.join((*TABLES, _LINES))}, all texts also with .gz"
    )


def _asked(rows: Rows) -> Iterator[tuple[str, Row]]:
    """Yield rows; of those that hold questions the questions, without gold answers, of which not
    all have the same columns.
    """
    for place, row in rows:
        for where, flat in flat_rows([(place, row)]):
            yield where, row if flat is row else {n: flat[n] for n in flat if n not in _GOLD}


def _lines(
    lines: Iterable[tuple[str, str]], names: Collection[str] = ()
) -> Iterator[tuple[str, Row]]:
    """Yield a row for each line: a JSON object, or a text. Raises ``DataError`` for a JSON array
    and for a table with columns of these ``names``, whose lines would be texts.
    """
    for number, (where, line) in enumerate(lines):
        text = line.strip()
        is_array = text == "[" or re.match(r"\[\s*\{", text)
        header = {cell.strip(' "') for cell in re.split("[,;\t]", text)} if not number else set()
        if is_array or (names and header.issuperset(names)):
            raise DataError(
                f"{where}: the beginning of a JSON array or table ({shorten(text)}), where one "
                "JSON object or text a line was expected\n"
                "  fix: write one object a line (jq -c '.[]'), or name a .json, .csv or .tsv file"
            )
        if text:
            yield where, parse_json_line(text, where) if text[0] == "{" else {"text": text}
