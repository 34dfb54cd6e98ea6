"""Columns of text, of a label, or of any number of labels in a table, by their names and values.

``USUAL`` has the names; a column without a usual name is known by its values. What stays open is a
``ConfigError`` that names the option to answer it by.
"""

from __future__ import annotations

import math
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from road_ray.data.inspection.data_files import Rows
from road_ray.data.readers.conll import TAG
from road_ray.data.readers.tables import missing_columns
from road_ray.data.task_and_dataset import label_text
from road_ray.errors import ConfigError

USUAL = {  # names in lower case
    "label": "label",
    "sure label": "labels gold_label class target",
    "likely label": "category sentiment intent emotion topic polarity rating stars score "
    "similarity y",
    "several labels": "labels tags topics categories emotions genres classes",
    "sure text": "text sentence",
    "likely text": "review body content comment message tweet document description title question "
    "utterance abstract",
    "id": "id idx index guid uid uuid key row_id",
}
_PAIRS = (
    *(("premise", "hypothesis"), ("sentence1", "sentence2"), ("question1", "question2")),
    *(("question", "sentence"), ("text", "text_pair"), ("text_a", "text_b"), ("query", "document")),
)
_ANY_LABEL = ("label", "sure label", "likely label")
_MOST_CLASSES = 50  # different values of a column that may be classes without being named so
_MOST_CLASS_WORDS = 3
_SEPARATORS = (";", "|", ",")
_LEAST_MARKS = 3  # columns of 0 and 1 that are labels unless an option says so
_MARKS = {"0": 0, "0.0": 0, "false": 0, "1": 1, "1.0": 1, "true": 1}
_DATE = re.compile(r"(\d{4}([-/.])\d\d?\2\d\d?|\d\d?([-/.])\d\d?\3\d{2,4})([T ].*)?")


class Column:
    """Values of one column as text, counted; ``missing`` has the places of the empty ones.

    ``form`` is what they look like: ``lists``, ``dates``, ``fractions``, ``classes`` (a few short
    values that repeat), whole ``numbers`` or ``text``; ``nothing`` if all are empty. ``numbers``
    has the different values if all are finite numbers.
    """

    def __init__(self, name: str, cells: Sequence[tuple[str, object]]) -> None:
        self.name = name
        self.missing = [where for where, cell in cells if cell is None or cell == ""]
        given = [cell for _, cell in cells if cell is not None and cell != ""]
        self.values = Counter(label_text(c) for c in given if not isinstance(c, list | dict))
        words = [cell.count(" ") + 1 for cell in given if isinstance(cell, str)]
        self.mean_words = sum(words) / max(len(words), 1)
        self.numbers = _numbers(self.values)
        few = 2 <= len(self.values) <= _MOST_CLASSES and self.mean_words <= _MOST_CLASS_WORDS
        self.form = (
            "lists" if self.values.total() < len(given)
            else "nothing" if not given
            else "dates" if all(map(_DATE.fullmatch, self.values))
            else "fractions" if any(number % 1 for number in self.numbers)
            else "classes" if few and _repeat(self.values)
            else "numbers" if self.numbers
            else "text"
        )  # fmt: skip

    def is_usual(self, *roles: str) -> bool:
        """Return True if the name is one of those of ``USUAL``."""
        return any(self.name.lower() in USUAL[role].split() for role in roles)

    def shown(self) -> str:
        """Return the first different values, for messages."""
        few = ", ".join(map(repr, list(self.values)[:3]))
        return f"{len(self.values):,} different values, such as {few}"


def _numbers(values: Iterable[str]) -> list[float]:
    try:
        numbers = [float(value) for value in values]
    except ValueError:
        return []
    return numbers if all(map(math.isfinite, numbers)) else []


def _repeat(values: Counter[str]) -> bool:
    return 2 * len(values) <= values.total()


def count_columns(rows: Rows) -> dict[str, Column]:
    """Return the columns of a table by name, in their order."""
    cells: dict[str, list[tuple[str, object]]] = {}
    for where, row in rows:
        for name, cell in row.items():
            cells.setdefault(name, []).append((where, cell))
    return {name: Column(name, of_column) for name, of_column in cells.items()}


def is_span(columns: Mapping[str, Column]) -> bool:
    """Return True for the flat rows of SQuAD, whose answers are objects, in a CSV as text."""
    if not {"context", "question", "answers"} <= set(columns):
        return False
    answers = columns["answers"]
    return answers.form == "lists" or all(
        text.lstrip()[:1] in ("{", "[") for text in answers.values
    )


def word_and_tag_columns(rows: Rows) -> tuple[str, str] | None:
    """Return the columns of a list of words and a list of as many tags, if there are such."""
    lists = {name: cell for name, cell in rows[0][1].items() if isinstance(cell, list) and cell}
    texts = {n: cell for n, cell in lists.items() if all(isinstance(item, str) for item in cell)}
    for tag, tags in texts.items():
        if all(map(TAG.fullmatch, tags)):
            for word, words in texts.items():
                if word != tag and len(words) == len(tags):
                    return word, tag
    return None


def id_column(columns: Mapping[str, Column], used: Sequence[str]) -> str | None:
    """Return a column that is named like an identifier and whose values are all different."""
    for name, column in columns.items():
        is_named = column.is_usual("id") or name.lower().endswith("_id")
        is_unique = not column.missing and set(column.values.values()) == {1}
        if is_named and is_unique and name not in used:
            return name
    return None


def label_column(
    columns: Mapping[str, Column], chosen: str | None, texts: Sequence[str], where: str
) -> tuple[Column, str]:
    """Return the column of the label and the reason. Raises ``ConfigError`` if several fit."""
    if chosen is not None:
        return _named(columns, chosen, "--label", where), "--label names it"
    free = [
        column
        for name, column in columns.items()
        if column.form not in ("lists", "nothing")
        and name not in texts
        and not column.is_usual("id")
    ]
    likely = (
        [column for column in free if column.is_usual("label")]
        or [column for column in free if column.is_usual("sure label")]
        or [c for c in free if c.is_usual("likely label") or c.form in ("classes", "fractions")]
    )
    if len(likely) == 1:
        is_usual = likely[0].is_usual(*_ANY_LABEL)
        why = "its name says so" if is_usual else "the only column of classes or numbers"
        return likely[0], why
    if likely:
        fix = (
            f"name one by --label, such as --label {shlex.quote(likely[0].name)}, or all of 0 and "
            "1 by --kind multi"
        )
        _ask(f"{where}: {len(likely)} columns could be the label", likely, fix)
    fix = "name one by --label; for pre-training text, a table has the column `text` alone"
    _ask(f"{where}: no column looks like a label", [*columns.values()], fix)


def text_columns(
    columns: Mapping[str, Column], chosen: Sequence[str], where: str
) -> tuple[list[str], str]:
    """Return one or two columns of the text and the reason; ``columns`` are those without the
    label. Raises ``ConfigError`` if it is not clear.
    """
    if len(chosen) > 2:
        raise ConfigError(f"--text names {len(chosen)} columns\n  allowed: one, or two of a pair")
    if chosen:
        return [_named(columns, name, "--text", where).name for name in chosen], "--text names it"
    lower = {name.lower(): column for name, column in columns.items() if column.mean_words}
    for pair in _PAIRS:
        if all(name in lower for name in pair):
            return [lower[name].name for name in pair], "the two usual names of a pair"
    texts = [
        column for column in lower.values() if column.form == "text" and not column.is_usual("id")
    ]
    texts = [column for column in texts if column.mean_words > 1] or texts  # no names or codes
    if len(texts) == 1 or (not texts and len(lower) == 1):
        return [(texts or [*lower.values()])[0].name], "the only column of text"
    sure, likely = (
        [lower[name].name for name in USUAL[role].split() if lower.get(name) in texts]
        for role in ("sure text", "likely text")
    )
    if sure or (likely and len(texts) > 2):
        return [*sure, *likely][:1], "its name says so"
    if len(texts) == 2:
        why = "two columns of text are read as a pair; --text names one alone"
        return [column.name for column in texts], why
    listed = texts or [*columns.values()]
    fix = f"name one, or two of a pair, by --text, such as --text {shlex.quote(listed[0].name)}"
    _ask(f"{where}: {len(texts)} columns of text", listed, fix)


def _ask(problem: str, columns: Sequence[Column], fix: str) -> NoReturn:
    listed = "".join(f"\n    {column.name}: {column.shown()}" for column in columns)
    raise ConfigError(f"{problem}:{listed}\n  fix: {fix}")


def _named(columns: Mapping[str, Column], name: str, option: str, where: str) -> Column:
    if name not in columns:
        missing = missing_columns(where, [name], list(columns)).split("\n")[0]
        raise ConfigError(f"{missing}\n  fix: name a column of the file by {option}")
    return columns[name]


@dataclass(frozen=True)
class LabelSets:
    """Columns of the labels of a row and how they are written: one column of lists, one of texts
    with a ``separator``, or several of 0 and 1.
    """

    columns: tuple[str, ...]
    why: str
    separator: str | None = None

    def of(self, row: Mapping[str, object]) -> list[str]:
        """Return the labels of a row."""
        if len(self.columns) > 1:
            return [name for name in self.columns if _mark(row.get(name)) == 1]
        cell = row.get(self.columns[0])
        if isinstance(cell, list):
            return [label_text(item) for item in cell]
        if self.separator is None or not isinstance(cell, str):
            return []
        return [part for item in cell.split(self.separator) if (part := item.strip())]


def label_sets(
    rows: Rows, columns: Mapping[str, Column], label: str | None, kind: str | None, place: str
) -> LabelSets | None:
    """Return the columns with several labels a row; None where each row has one. ``label`` and
    ``kind`` are what the user has named.

    A column of lists needs a name that says so, or ``--label``; with ``--kind multi`` any whose
    parts are short and repeat will do. Raises ``ConfigError`` for ``multi`` without such columns.
    """
    if kind not in (None, "multi"):
        return None
    named = {name for name, column in columns.items() if column.is_usual("several labels")}
    why = "its name says so"
    if label is not None:
        named, why = {label} & columns.keys(), "--label names it"
    any_name = kind == "multi" and label is None
    for name in sorted(columns, key=lambda name: name not in named) if any_name else named:
        reason = why if name in named else "its parts repeat"
        column = columns[name]
        if column.form == "lists" and not column.values:
            made = LabelSets((name,), f"{reason}; its cells are lists")
            if name in named or _are_labels(made, rows):
                return made
        for separator in _SEPARATORS if column.values else ():
            written = f"{reason}; its texts have {separator!r} between labels"
            made = LabelSets((name,), written, separator)
            cells = [made.of({name: value}) for value in column.values]
            if _are_combined(cells) and _are_labels(made, rows):
                return made
    marks = [n for n, c in columns.items() if c.values and None not in map(_mark, c.values)]
    other = any(
        n not in marks and (c.is_usual(*_ANY_LABEL) or c.form == "classes")
        for n, c in columns.items()
    )
    is_likely = kind == "multi" or (len(marks) >= _LEAST_MARKS and not other)
    if label is None and len(marks) > 1 and is_likely:
        return LabelSets(tuple(marks), "all columns of 0 and 1")
    if kind == "multi":
        raise ConfigError(
            f"{place}: no {f'column {label!r}' if label else 'columns'} with several labels a row\n"
            "  allowed: a column of lists, of labels with ; | or a comma between them, or several "
            "columns of 0 and 1\n  fix: name the column by --label, or leave out --kind multi"
        )
    return None


def _mark(value: object) -> int | None:
    """Return 0 or 1 for a cell that is one of them."""
    return _MARKS.get(str(value).lower())


def _are_labels(made: LabelSets, rows: Rows) -> bool:
    """Return True for short texts that repeat."""
    parts = Counter(part for _, row in rows for part in made.of(row))
    short = all(part.count(" ") < _MOST_CLASS_WORDS for part in parts)
    return len(parts) > 1 and _repeat(parts) and short


def _are_combined(cells: Sequence[Sequence[str]]) -> bool:
    """Return True for parts in combinations: there are fewer parts than different cells, as of "a",
    "b" and "a;b", not of "Oslo, Norway", and no part is twice in a cell.
    """
    several = any(len(cell) > 1 for cell in cells)
    repeated = any(len({*cell}) < len(cell) for cell in cells)
    return several and not repeated and len({p for cell in cells for p in cell}) < len(cells)
