"""Read a file of rows as a stream, in any of several formats. The module does not import torch.

CSV, TSV, JSONL and Parquet files and lines of text are read row by row, so they may be larger than
memory. A JSON array, a file in SQuAD's layout and words in columns are loaded completely.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from road_ray.data.inspection.data_files import layout_of
from road_ray.data.model_files import MODEL_RECORD
from road_ray.data.readers.conll import conll_rows
from road_ray.data.readers.squad import articles_in, mrqa_rows, squad_rows
from road_ray.data.readers.tables import (
    TABLES,
    decoded_lines,
    missing_columns,
    numbered_lines,
    parse_json_line,
    suffix_of,
    table_rows,
)
from road_ray.data.task_and_dataset import Columns
from road_ray.errors import ConfigError, DataError, shorten
from road_ray.system.files import STDIN, check_input, read_json

Row: TypeAlias = Mapping[str, object]

# Names of the fields of all kinds of predictions, `id` and `n_best` included.
PREDICTION_FIELDS = (
    *("id", "label", "labels", "score", "scores", "value", "choice", "tags", "words", "entities"),
    *("answer", "start", "end", "no_answer_score", "null_odds", "n_best"),
)
_GOLD = ("answers", "plausible_answers", "is_impossible")
_LINES = ".txt"


@dataclass(frozen=True)
class TrainedInput:
    """Columns in which the rows of the training had the fields of the model.

    ``columns`` maps a field to its column: a name, a list of names for ``choices``, or a number for
    the words of a file of columns (``layout`` ``conll``). ``id`` is the column of identifiers.
    Empty for a model whose ``road_ray.json`` does not say it.
    """

    columns: Mapping[str, Any] = field(default_factory=dict)
    id: str | None = None
    layout: str = "table"

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> TrainedInput:
        """Return that of a model's ``road_ray.json``."""
        layout = record.get("layout") or "table"
        return cls(record.get("columns") or {}, record.get("id_column"), str(layout))

    @classmethod
    def of_model(cls, model: str, head: str | None = None) -> TrainedInput:
        """Return that of a model or run directory, found without loading the model; of any other
        model an empty one.
        """
        place = Path(model).expanduser()
        for directory in (place / "hf", place):
            if head or not (directory / MODEL_RECORD).is_file():
                heads = sorted(directory.glob(f"heads/{head or '*'}/{MODEL_RECORD}"))
                directory = heads[0].parent if len(heads) == 1 else directory
            if (directory / MODEL_RECORD).is_file():
                return cls.of_record(read_json(directory / MODEL_RECORD))
        return cls()

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the fields of a row, empty if they are not known."""
        return ("text", "words") if "words" in self.columns else tuple(self.columns)

    def columns_in(self, row: Row, chosen: Mapping[str, str]) -> Mapping[str, Any]:
        """Return the columns of the training for the fields that are not ``chosen``, if the row has
        all of them; else none, as its columns are then those of another file.
        """
        left = {name: column for name, column in self.columns.items() if name not in chosen}
        return left if all(n in row for c in left.values() for n in _names(c)) else {}

    def named(self, row: Row) -> Row:
        """Return a row of the training's columns by fields of the model, and any other as it is."""
        columns = {**self.columns_in(row, {}), **({"id": self.id} if self.id in row else {})}
        return {**row, **{name: cell(row, column) for name, column in columns.items()}}


@dataclass(frozen=True)
class ColumnChoice:
    """Choice of the columns of a file of rows, where it is not that of the training.

    ``fields`` maps a field to the column that holds it. ``keep`` maps a name in the output to the
    column that is copied there; empty: all columns that the model does not read are copied, under
    their names, or ``input_NAME`` where predictions have a field of the name. ``ignore`` lists
    columns that are left out. Raises ``ConfigError`` for a name in ``keep`` that predictions
    already have.
    """

    fields: Mapping[str, str] = field(default_factory=dict)
    keep: Mapping[str, str] = field(default_factory=dict)
    ignore: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name, column in self.keep.items():
            if _is_taken(name):
                raise ConfigError(
                    f"--keep {name}: predictions have a field {name!r}\n"
                    f"  fix: keep it under another name: --keep input_{name}={column}"
                )


class InputRow(NamedTuple):
    """A row of a file: its place, the fields of the model, and the cells that are copied."""

    where: str
    fields: Row
    copied: Row


def input_rows(
    source: str,
    columns: ColumnChoice,
    fields: tuple[str, ...],
    trained: TrainedInput = TrainedInput(),
) -> Iterator[InputRow]:
    """Yield the rows of a file, or of standard input for ``-``.

    A field is read from the column that ``columns`` names. Others are read from the columns of the
    training if the row has all of these, else from those of their own names. A row without an id
    gets its number from 0, and ``row NUMBER`` behind a row that has one, so that given and counted
    ids differ.

    Raises ``ConfigError`` for a file that does not exist and for a suffix that is not supported,
    ``DataError`` for a row that lacks a column, for a given id that was counted before, and for a
    file without rows.
    """
    if unknown := sorted(set(columns.fields) - {*fields, "id"}):
        raise ConfigError(
            f"column {unknown[0]}={columns.fields[unknown[0]]}: the model has no field "
            f"{unknown[0]!r}\n  allowed: {', '.join((*fields, 'id'))}"
        )
    seen, number = None, -1
    read: Mapping[str, str | list[str]] = {}
    copied: Mapping[str, str] = {}
    counted: int | None = None  # rows before the first with an id
    for number, (where, row) in enumerate(file_rows(source, trained)):
        if row.keys() != seen:  # in a table: the first row
            seen = row.keys()
            read, copied = _use_of(where, row, columns, fields, trained)
        values = {name: cell(row, column) for name, column in read.items()}
        given = values.get("id")
        if given is None or given == "":
            values["id"] = str(number) if counted is None else f"row {number}"
        else:
            counted = number if counted is None else counted
            values["id"] = name = str(given)
            if name.isdecimal() and name == str(int(name)) and int(name) < counted:
                raise DataError(
                    f"{where}: id {name!r} is also the number of a row before it, which has "
                    "no id\n  fix: give all rows an id, or none"
                )
        yield InputRow(where, values, {name: row[column] for name, column in copied.items()})
    if number < 0:
        raise DataError(
            f"{source}: has no rows\n  fix: name a file with a row below its header, or with lines"
        )


def cell(row: Row, column: str | list[str]) -> object:
    """Return the value of a column, or the list of those of several."""
    return row[column] if isinstance(column, str) else [row[name] for name in column]


def _names(column: object) -> list[Any]:
    return column if isinstance(column, list) else [column]


def _is_taken(name: str) -> bool:
    """Return True for a name that predictions have."""
    return name in PREDICTION_FIELDS or name.startswith("score_")


def _use_of(
    where: str, row: Row, columns: ColumnChoice, fields: tuple[str, ...], trained: TrainedInput
) -> tuple[Mapping[str, str | list[str]], Mapping[str, str]]:
    """Return the columns of rows such as ``row`` for each field, and those that are copied, by
    name. Raises ``DataError`` for a missing column.
    """
    usual = {**trained.columns_in(row, columns.fields), **columns.fields}
    if "id" not in usual and trained.id in row:
        usual["id"] = trained.id
    read = {n: usual.get(n, n) for n in ("id", *fields) if n in usual or n in row}
    lacking = [name for name in fields if name not in read]
    missing = [n for n in (*columns.fields.values(), *columns.keep.values()) if n not in row]
    fix = "name the columns of this file by --column FIELD=NAME and --keep NAME"
    # Of one or two texts, and of a text or its words, one is enough.
    needs_all = "question" in fields or (bool(trained.columns) and "words" not in fields)
    if not missing and lacking and (needs_all or lacking == list(fields)):
        of_training = [name for column in trained.columns.values() for name in _names(column)]
        missing = [name for name in of_training if name not in row] or lacking
        fix = "name the column by " + " ".join(f"--column {name}=NAME" for name in lacking)
    if missing:
        first_line = missing_columns(where, missing, [*row]).split("\n")[0]
        raise DataError(f"{first_line}\n  fix: {fix}")
    if columns.keep:
        return read, columns.keep
    used = {name for column in read.values() for name in _names(column)} | {*columns.ignore}
    copied: dict[str, str] = {}
    for column in (name for name in row if name not in used):
        name = column
        while _is_taken(name) or (name != column and (name in row or name in copied)):
            name = f"input_{name}"
        copied[name] = column
    return read, copied


def file_rows(source: str, trained: TrainedInput = TrainedInput()) -> Iterator[tuple[str, Row]]:
    """Yield ``file:line`` and the row by columns of a file in any format, or of standard input."""
    if source == STDIN:
        lines = ((f"<stdin>:{n}", line) for n, line in decoded_lines(sys.stdin.buffer, "<stdin>"))
        names = {str(n) for c in trained.columns.values() for n in _names(c)} or {"text", "label"}
        return _lines(_without_header(lines, names))
    check_input(source)
    path = Path(source).expanduser()
    suffix = suffix_of(path)
    if trained.layout == "conll" and layout_of(path) == "conll":
        number = trained.columns.get("words", 0)
        words = Columns((number if isinstance(number, int) else 0,))
        rows = conll_rows(path, words, False)
        return ((where, {"words": row["tokens"]}) for where, row in rows)
    if trained.layout == "mrqa" and suffix == ".jsonl":
        first = next((line for _, line in numbered_lines(path)), "")
        if first.startswith('{"header"') or '"qas"' in first:
            return _questions(path, mrqa_rows(path))
    if articles_in(path):
        return _questions(path, squad_rows(path))
    if suffix in TABLES:
        return table_rows(path)
    if suffix == _LINES:
        return _lines((f"{path}:{number}", line) for number, line in numbered_lines(path))
    raise ConfigError(
        f"{source}: {suffix or 'no suffix'} is not read\n"
        f"  allowed: {', '.join((*TABLES, _LINES))}, all texts also with .gz"
    )


def _without_header(lines: Iterator[tuple[str, str]], names: set[str]) -> Iterator[tuple[str, str]]:
    """Yield the lines. Raises ``DataError`` if the first one has names of columns: the cells of a
    table would be texts.
    """
    first = next(lines, None)
    if first and names <= {cell.strip(' "') for cell in re.split("[,;\t]", first[1])}:
        raise DataError(
            f"{first[0]}: the header of a table ({shorten(first[1])}), where one JSON object or "
            "text a line was expected\n  fix: name a .csv or .tsv file"
        )
    yield from chain([first] if first else [], lines)


def _questions(path: Path, rows: Iterator[tuple[str, Row]]) -> Iterator[tuple[str, Row]]:
    """Yield the rows without gold answers, of which not all questions have the same columns."""
    try:
        for where, row in rows:
            yield where, {name: value for name, value in row.items() if name not in _GOLD}
    except (KeyError, TypeError, IndexError) as error:
        raise DataError(
            f"{path}: neither rows nor in the layout of SQuAD or MRQA: "
            f"{type(error).__name__} {error}\n"
            "  allowed: [{...}, ...] or {data: [{paragraphs: ...}]}"
        ) from error


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
