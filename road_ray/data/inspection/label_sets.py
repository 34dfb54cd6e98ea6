"""Guess of the column or columns that hold any number of labels for a row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from road_ray.data.inspection.columns import LABELS, Column
from road_ray.data.inspection.data_files import Rows
from road_ray.data.task_and_dataset import label_text
from road_ray.errors import ConfigError

_NAMES = ("labels", "tags", "topics", "categories", "emotions", "genres", "classes")
_SEPARATORS = (";", "|", ",")
_LONGEST_LABEL_WORDS = 3
_LEAST_MARKS = 3  # columns of 0 and 1 that are labels unless an option says so


@dataclass(frozen=True)
class LabelSets:
    """Columns of the labels of a row and how they are written: one column of lists, one of texts
    with a ``separator``, or several of 0 and 1.
    """

    columns: tuple[str, ...]
    why: str
    separator: str | None = None

    @property
    def are_marks(self) -> bool:
        return len(self.columns) > 1

    def counts(self, rows: Rows) -> Counter[str]:
        """Return how many rows have each label."""
        if self.are_marks:
            return Counter(c for _, row in rows for c in self.columns if _mark(row.get(c)) == 1)
        cells = (_parts(row.get(self.columns[0]), self.separator) for _, row in rows)
        return Counter(part for cell in cells for part in {*cell})


def label_sets(
    rows: Rows, columns: Mapping[str, Column], label: str | None, kind: str | None, place: str
) -> LabelSets | None:
    """Return the columns with several labels a row; None where each row has one. ``label`` and
    ``kind`` are what the user has named.

    Columns of lists and of separated texts need a name that says so, or `--label`; their parts are
    short and repeat. Raises ``ConfigError`` for ``multi`` without such columns.
    """
    if kind not in (None, "multi"):
        return None
    named = [name for name in columns if name.lower() in _NAMES] if label is None else [label]
    why = "its name says so" if label is None else "--label names it"
    for name in named if kind is None else dict.fromkeys([*named, *(columns if not label else ())]):
        column = columns.get(name)
        if column is None:
            continue
        reason = why if name in named else "its parts repeat"
        if column.lists and not column.values:
            made = LabelSets((name,), f"{reason}; its cells are lists")
            if name in named or _is_labels(made.counts(rows)):
                return made
        for separator in _SEPARATORS if column.is_text or column.values else ():
            made = LabelSets(
                (name,), f"{reason}; its texts have {separator!r} between labels", separator
            )
            if _is_separated(column, made.counts(rows), separator):
                return made
    return _marked(columns, label, kind, place)


def _marked(
    columns: Mapping[str, Column], label: str | None, kind: str | None, place: str
) -> LabelSets | None:
    """Return the columns of 0 and 1, if there is no other column of a label."""
    marks = tuple(n for n, c in columns.items() if c.values and {*map(_mark, c.values)} <= {0, 1})
    others = [
        n for n, c in columns.items() if n not in marks and (n.lower() in LABELS or c.is_classes)
    ]
    fits = label is None and len(marks) > 1
    if fits and (kind == "multi" or (len(marks) >= _LEAST_MARKS and not others)):
        return LabelSets(marks, "all columns of 0 and 1")
    if kind == "multi":
        raise ConfigError(
            f"{place}: no {f'column {label!r}' if label else 'columns'} with several labels a row\n"
            "  allowed: a column of lists, of labels with ; | or a comma between them, or several "
            "columns of 0 and 1\n  fix: name the column by --label, or leave out --kind multi"
        )
    return None


def _mark(value: object) -> int | None:
    """Return 0 or 1 for a cell that is one of them."""
    return {"0": 0, "0.0": 0, "false": 0, "1": 1, "1.0": 1, "true": 1}.get(str(value).lower())


def _parts(cell: object, separator: str | None) -> Sequence[str]:
    if isinstance(cell, list):
        return [label_text(item) for item in cell]
    if separator is None or not isinstance(cell, str):
        return []
    return [part for item in cell.split(separator) if (part := item.strip())]


def _is_labels(counts: Counter[str]) -> bool:
    """Return True for short texts that repeat."""
    short = all(part.count(" ") < _LONGEST_LABEL_WORDS for part in counts)
    return len(counts) > 1 and 2 * len(counts) <= counts.total() and short


def _is_separated(column: Column, counts: Counter[str], separator: str) -> bool:
    """Return True for cells of which some have several parts, no part twice, in combinations: there
    are fewer parts than different cells, as of "a", "b" and "a;b", not of "Oslo, Norway".
    """
    cells = [_parts(cell, separator) for cell in column.values]
    several = [cell for cell in cells if len(cell) > 1]
    repeated = any(len({*cell}) < len(cell) for cell in cells)
    return bool(several) and not repeated and len(counts) < len(cells) and _is_labels(counts)
