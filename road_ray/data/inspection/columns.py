"""Columns of text, of a label, or of any number of labels in a table, by their names and values.

A column without a usual name is known by its values. What stays open is a ``ConfigError`` that
names the option to answer it by.
"""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NoReturn

from road_ray.data.inspection.data_files import Rows
from road_ray.data.readers.conll import TAG
from road_ray.data.readers.sentences import MARKS
from road_ray.data.readers.tables import missing_columns
from road_ray.data.task_and_dataset import label_text
from road_ray.errors import ConfigError

# Usual names, in lower case.
_LABEL = ("label", "labels", "gold_label", "class", "target")
_LIKELY_LABEL = ("category", "sentiment", "intent", "rating", "stars", "score", "similarity")
_SEVERAL_LABELS = ("labels", "tags", "topics", "categories", "emotions", "genres", "classes")
_ID = ("id", "idx", "index", "guid", "uid", "uuid", "key", "row_id")
_TEXTS = (
    *(("premise", "hypothesis"), ("sentence1", "sentence2"), ("question1", "question2")),
    *(("question", "sentence"), ("text", "text_pair"), ("text",), ("sentence",)),
)
_MOST_CLASSES = 50  # different values of a column that may be classes without being named so
_MOST_CLASS_WORDS = 3
_SEPARATORS = (";", "|", ",")
_LEAST_MARKS = 3  # columns of 0 and 1 that are labels unless an option says so


class Column:
    """Values of one column as text, counted; ``missing`` has the places of the empty ones.

    ``form`` is what they look like: ``lists``, ``fractions``, ``classes`` (a few short values that
    repeat), whole ``numbers`` or ``text``; ``nothing`` if all are empty. ``numbers`` has the
    different values if all are finite numbers.
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
            else "fractions" if any(number % 1 for number in self.numbers)
            else "classes" if few and 2 * len(self.values) <= self.values.total()
            else "numbers" if self.numbers
            else "text"
        )  # fmt: skip

    def is_id(self) -> bool:
        """Return True for a name of identifiers."""
        return self.name.lower() in _ID or self.name.lower().endswith("_id")


def shown_values(values: Collection[str]) -> str:
    """Return the number of different values and the first of them, for messages."""
    few = ", ".join(map(repr, list(values)[:3]))
    return f"{len(values):,} different values, such as {few}"


def _numbers(values: Iterable[str]) -> list[float]:
    try:
        numbers = [float(value) for value in values]
    except ValueError:
        return []
    return numbers if all(map(math.isfinite, numbers)) else []


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


def label_column(
    columns: Mapping[str, Column], chosen: str | None, texts: Sequence[str], where: str
) -> tuple[Column, str]:
    """Return the column of the label and the reason. Raises ``ConfigError`` if several fit."""
    if chosen is not None:
        return _named(columns, chosen, "--label", where), "--label names it"
    free = {
        name.lower(): column
        for name, column in columns.items()
        if column.form not in ("lists", "nothing") and name not in texts and not column.is_id()
    }
    if named := [free[name] for name in _LABEL if name in free]:
        return named[0], "its name says so"
    likely = [
        column
        for name, column in free.items()
        if name in _LIKELY_LABEL or column.form in ("classes", "fractions")
    ]
    if len(likely) == 1:
        return likely[0], "the only column of classes or numbers"
    what = f"{len(likely)} columns could be the label" if likely else "no column looks like a label"
    fix = "by --label, or all of 0 and 1 by --kind multi; pre-training reads a column `text` alone"
    _ask(f"{where}: {what}", likely or [*columns.values()], "--label", fix)


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
    words = {name.lower(): column for name, column in columns.items() if column.mean_words}
    for usual in _TEXTS:
        if all(name in words for name in usual):
            return [words[name].name for name in usual], "usual names of a text or a pair"
    texts = [column for column in words.values() if column.form == "text" and not column.is_id()]
    texts = [column for column in texts if column.mean_words > 1] or texts  # no names or codes
    texts = texts or [*words.values()]
    if 1 <= len(texts) <= 2:
        why = "the only columns of text; two are read as a pair, --text names one alone"
        return [column.name for column in texts], why
    fix = "or two of a pair, by --text"
    _ask(f"{where}: {len(texts)} columns of text", texts or [*columns.values()], "--text", fix)


def _ask(problem: str, columns: Sequence[Column], option: str, fix: str) -> NoReturn:
    listed = "".join(f"\n    {column.name}: {shown_values(column.values)}" for column in columns)
    example = f"{option} {shlex.quote(columns[0].name)}"
    raise ConfigError(f"{problem}:{listed}\n  fix: name one, such as {example}, {fix}")


def _named(columns: Mapping[str, Column], name: str, option: str, where: str) -> Column:
    if name not in columns:
        missing = missing_columns(where, [name], list(columns)).split("\n")[0]
        raise ConfigError(f"{missing}\n  fix: name a column of the file by {option}")
    return columns[name]


def label_sets(
    columns: Mapping[str, Column], label: str | None, kind: str | None, place: str
) -> tuple[tuple[str, ...], dict[str, Any], str] | None:
    """Return the columns with several labels a row, their keys in the entry and the reason; None
    where each row has one label. ``label`` and ``kind`` are what the user has named.

    It is one column of lists or of texts with a separator, whose name says so unless ``--label``
    does, or several columns of 0 and 1. Raises ``ConfigError`` for ``multi`` without such columns.
    """
    if kind not in (None, "multi"):
        return None
    why = "its name says so" if label is None else "--label names it"
    for name, column in columns.items():
        if name.lower() not in _SEVERAL_LABELS if label is None else name != label:
            continue
        if column.form == "lists" and not column.values:
            return (name,), {"label": name}, f"{why}; its cells are lists"
        for mark in _SEPARATORS:
            cells = [[*map(str.strip, value.split(mark))] for value in column.values]
            several = any(len(cell) > 1 for cell in cells)
            repeated = any(len({*cell}) < len(cell) for cell in cells)
            # Labels are fewer than their combinations, such as "a;b"; not so towns in "Oslo, NO".
            if several and not repeated and len({*chain.from_iterable(cells)}) < len(cells):
                entry = {"label": name, "separator": mark}
                return (name,), entry, f"{why}; its texts have {mark!r} between labels"
    marks = [
        n for n, c in columns.items() if c.values and {*map(str.lower, c.values)} <= MARKS.keys()
    ]
    others = [c for n, c in columns.items() if n not in marks]
    named = any(c.name.lower() in _LABEL + _LIKELY_LABEL or c.form == "classes" for c in others)
    is_likely = kind == "multi" or (len(marks) >= _LEAST_MARKS and not named)
    if label is None and len(marks) > 1 and is_likely:
        return tuple(marks), {"label": marks}, "all columns of 0 and 1"
    if kind == "multi":
        raise ConfigError(
            f"{place}: no {f'column {label!r}' if label else 'columns'} with several labels a row\n"
            "  allowed: a column of lists, of labels with ; | or a comma between them, or several "
            "columns of 0 and 1\n  fix: name the column by --label, or leave out --kind multi"
        )
    return None
