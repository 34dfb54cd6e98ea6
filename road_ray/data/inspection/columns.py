"""Guess of the columns of text, of a label, or of any number of labels, with the reasons."""

from __future__ import annotations

import math
import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from road_ray.data.inspection.data_files import Rows
from road_ray.data.readers.conll import TAG
from road_ray.data.readers.tables import missing_columns
from road_ray.data.task_and_dataset import label_text
from road_ray.errors import ConfigError

_PAIRS = (
    *(("premise", "hypothesis"), ("sentence1", "sentence2"), ("question1", "question2")),
    *(("question", "sentence"), ("text", "text_pair"), ("text_a", "text_b"), ("query", "document")),
)
_TEXTS = (
    *("text", "sentence", "review", "body", "content", "comment", "message", "tweet", "document"),
    *("description", "title", "question", "utterance", "abstract"),
)
_SURE_LABELS = ("label", "labels", "gold_label", "class", "target")
LABELS = (
    *_SURE_LABELS,
    *("category", "sentiment", "intent", "emotion", "topic", "polarity"),
    *("rating", "stars", "score", "similarity", "y"),
)
_IDS = ("id", "idx", "index", "guid", "uid", "uuid", "key", "row_id")
_FEW = 50  # different values of a column that may be classes without being named so
_SHORT_WORDS = 3  # of a value that may be a class
_DATE = re.compile(r"(\d{4}([-/.])\d\d?\2\d\d?|\d\d?([-/.])\d\d?\3\d{2,4})([T ].*)?")


@dataclass
class Column:
    """Counts of the values of one column; ``missing`` has the places of those that are empty."""

    name: str
    missing: list[str] = field(default_factory=list)
    texts: int = 0
    lists: int = 0
    words: int = 0
    values: Counter[str] = field(default_factory=Counter)

    def add(self, value: object, where: str) -> None:
        """Count one value."""
        if value is None or value == "":
            self.missing.append(where)
        elif isinstance(value, list | dict):
            self.lists += 1
        else:
            self.values[label_text(value)] += 1
        if isinstance(value, str):
            self.texts += 1
            self.words += value.count(" ") + 1

    @property
    def numbers(self) -> list[float] | None:
        """The different values as numbers; None if one is not a finite number."""
        try:
            numbers = [float(value) for value in self.values]
        except ValueError:
            return None
        return numbers if numbers and all(map(math.isfinite, numbers)) else None

    @property
    def mean_words(self) -> float:
        return self.words / max(self.texts, 1)

    @property
    def is_text(self) -> bool:
        """True if most values are different texts, not numbers or dates."""
        other = self.numbers is not None or self.is_classes or self.is_dates
        return self.texts > 0 and not other

    @property
    def is_classes(self) -> bool:
        """True if a few short values repeat."""
        few = 2 <= len(self.values) <= _FEW and 2 * len(self.values) <= self.values.total()
        return few and self.mean_words <= _SHORT_WORDS and not self.is_dates

    @property
    def is_dates(self) -> bool:
        """True if all values are dates, perhaps with a time of day."""
        return bool(self.values) and all(map(_DATE.fullmatch, self.values))

    @property
    def is_fractions(self) -> bool:
        return any(not number.is_integer() for number in self.numbers or ())

    def shown(self) -> str:
        """Return the first different values, for messages."""
        few = ", ".join(map(repr, list(self.values)[:3]))
        return f"{len(self.values):,} different values, such as {few}"


def count_columns(rows: Rows) -> dict[str, Column]:
    """Return the columns of a table by name, in their order."""
    columns: dict[str, Column] = {}
    for where, row in rows:
        for name, value in row.items():
            columns.setdefault(name, Column(name)).add(value, where)
    return columns


def is_span(columns: Mapping[str, Column]) -> bool:
    """Return True for the flat rows of SQuAD."""
    if not {"context", "question", "answers"} <= set(columns):
        return False
    answers = columns["answers"]
    return answers.lists > 0 or all(text.lstrip()[:1] in ("{", "[") for text in answers.values)


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
        is_unique = not column.missing and set(column.values.values()) == {1}
        is_named = name.lower() in _IDS or name.lower().endswith("_id")
        if is_named and name not in used and is_unique:
            return name
    return None


def label_column(
    columns: Mapping[str, Column], chosen: str | None, texts: Sequence[str], where: str
) -> tuple[Column, str]:
    """Return the column of the label and the reason. Raises ``ConfigError`` if several fit."""
    if chosen is not None:
        return _column(columns, chosen, "--label", where), "--label names it"
    free = {
        name: column
        for name, column in columns.items()
        if name not in texts and name.lower() not in _IDS and not column.lists and column.values
    }
    sure = [name for name in free if name.lower() in _SURE_LABELS]
    usual = [name for name in free if name.lower() in LABELS]
    guessed = [name for name, c in free.items() if c.is_classes or c.is_fractions]
    exact = [name for name in sure if name.lower() == "label"]
    likely = exact or sure or list(dict.fromkeys([*usual, *guessed]))
    if len(likely) == 1:
        why = "its name says so" if likely[0] in usual else "the only column of classes or numbers"
        return free[likely[0]], why
    if likely:
        problem, remedy = f"{len(likely)} columns could be the label", shlex.quote(likely[0])
        fix = f"name one by --label, such as --label {remedy}, or all of 0 and 1 by --kind multi"
    else:
        problem = "no column looks like a label"
        fix = "name one by --label; for pre-training text, a table has the column `text` alone"
    listed = "".join(f"\n    {name}: {columns[name].shown()}" for name in likely or columns)
    raise ConfigError(f"{where}: {problem}:{listed}\n  fix: {fix}")


def text_columns(
    columns: Mapping[str, Column], chosen: Sequence[str], label: str, where: str
) -> tuple[list[str], str]:
    """Return one or two columns of the text and the reason. Raises ``ConfigError`` if it is not
    clear.
    """
    if len(chosen) > 2:
        raise ConfigError(f"--text names {len(chosen)} columns\n  allowed: one, or two of a pair")
    if chosen:
        return [_column(columns, name, "--text", where).name for name in chosen], "--text names it"
    lower = {name.lower(): name for name in columns if name != label and columns[name].texts}
    for pair in _PAIRS:
        if all(name in lower for name in pair):
            return [lower[name] for name in pair], "the two usual names of a pair"
    texts = [name for key, name in lower.items() if key not in _IDS and columns[name].is_text]
    texts = [name for name in texts if columns[name].mean_words > 1] or texts  # names, codes
    if len(texts) == 1:
        return texts, "the only column of text"
    usual = [lower[name] for name in _TEXTS if name in lower and lower[name] in texts]
    if usual and (len(texts) > 2 or usual[0].lower() in _TEXTS[:2]):
        return usual[:1], "its name says so"
    if len(texts) == 2:
        return texts, "two columns of text are read as a pair; --text names one alone"
    if not texts and len(lower) == 1:
        return list(lower.values()), "the only column of text"
    listed = texts or list(columns)
    raise ConfigError(
        f"{where}: {len(texts)} columns of text: {', '.join(listed)}\n"
        f"  fix: name one, or two of a pair, by --text, such as --text {shlex.quote(listed[0])}"
    )


def _column(columns: Mapping[str, Column], name: str, option: str, where: str) -> Column:
    if name not in columns:
        missing = missing_columns(where, [name], list(columns)).split("\n")[0]
        raise ConfigError(f"{missing}\n  fix: name a column of the file by {option}")
    return columns[name]


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
