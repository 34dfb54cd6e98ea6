"""Guess of the text and label columns of a table, with the reasons."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from road_ray.data.inspection.data_files import Row
from road_ray.data.readers.conll import TAG
from road_ray.data.readers.tables import missing_columns
from road_ray.data.task_and_dataset import label_text
from road_ray.errors import ConfigError, DataError

PAIRS = (
    *(("premise", "hypothesis"), ("sentence1", "sentence2"), ("question1", "question2")),
    *(("question", "sentence"), ("text", "text_pair"), ("text_a", "text_b"), ("query", "document")),
)
_TEXTS = (
    *("text", "sentence", "review", "body", "content", "comment", "message", "tweet", "document"),
    *("description", "title", "question", "utterance", "abstract"),
)
_SURE_LABELS = ("label", "labels", "gold_label", "class", "target")
_LABELS = (
    *_SURE_LABELS,
    *("category", "sentiment", "intent", "emotion", "topic", "polarity"),
    *("rating", "stars", "score", "similarity", "y"),
)
_TAGS = ("ner_tags", "tags", "ner", "labels", "entities")
_IDS = ("id", "idx", "index", "guid", "uid", "uuid", "key", "row_id")
_FEW = 50  # different values of a column that may be classes without being named so
_MOST_CLASSES = 1000
_SHORT_WORDS = 3  # of a value that may be a class
_DATE = re.compile(r"(\d{4}([-/.])\d\d?\2\d\d?|\d\d?([-/.])\d\d?\3\d{2,4})([T ].*)?")


@dataclass
class Column:
    """Counts of the values of one column."""

    name: str
    count: int = 0
    missing: str = ""  # place of the first empty value
    num_missing: int = 0
    texts: int = 0
    lists: int = 0
    words: int = 0
    values: dict[str, int] = field(default_factory=dict)

    def add(self, value: object, where: str) -> None:
        """Count one value."""
        if value is None or value == "":
            self.num_missing += 1
            self.missing = self.missing or where
            return
        self.count += 1
        if isinstance(value, str):
            self.texts += 1
            self.words += value.count(" ") + 1
        elif isinstance(value, list | dict):
            self.lists += 1
            return
        text = label_text(value)
        self.values[text] = self.values.get(text, 0) + 1

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
        few = 2 <= len(self.values) <= _FEW and 2 * len(self.values) <= self.count
        return few and self.mean_words <= _SHORT_WORDS and not self.is_dates

    @property
    def is_dates(self) -> bool:
        """True if all values are dates, perhaps with a time of day."""
        return bool(self.values) and all(map(_DATE.fullmatch, self.values))

    @property
    def is_fractions(self) -> bool:
        numbers = self.numbers
        return bool(numbers) and any(not number.is_integer() for number in numbers or ())

    def shown(self) -> str:
        """Return the first different values, for messages."""
        few = ", ".join(map(repr, list(self.values)[:3]))
        if len(self.values) == 1:
            return f"one value only, {few}"
        return f"{len(self.values):,} different values, such as {few}"


def count_columns(rows: Sequence[Row]) -> dict[str, Column]:
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


def word_and_tag_columns(
    rows: Sequence[Row], names: Mapping[str, Sequence[str]]
) -> tuple[str, str] | None:
    """Return the columns of a list of words and a list of as many tags, if there are such. Tags may
    be numbers, of which ``names`` has the names by column.
    """
    row = next((row for _, row in rows), {})
    lists = {name: v for name, v in row.items() if isinstance(v, list) and v}
    words = [n for n, v in lists.items() if all(isinstance(item, str) for item in v)]
    numbered = []
    for word in words:
        for tag, values in lists.items():
            if tag == word or len(values) != len(lists[word]):
                continue
            if all(TAG.fullmatch(str(value)) for value in tag_texts(values, names.get(tag, ()))):
                return word, tag
            if tag not in names and all(type(value) is int and value >= 0 for value in values):
                numbered.append((word, tag))
    named = [pair for pair in numbered if pair[1].lower() in _TAGS]
    return next(iter([*named, *numbered]), None)


def tag_texts(tags: Sequence[object], names: Sequence[str]) -> list[str]:
    """Return tags as text, numbers by their names."""
    return [
        names[tag] if isinstance(tag, int) and 0 <= tag < len(names) else str(tag) for tag in tags
    ]


def names_of_numbers(sentences: Sequence[Sequence[str]], where: str) -> dict[str, str]:
    """Return names for tags that are numbers without names: 0 is O, and the numbers after it are B
    and I of one type each, as in data sets of the hub. Raises ``DataError`` if the order of the
    tags shows that they are not.
    """
    largest = 0
    for sentence in sentences:
        before = 0
        for tag in map(int, sentence):
            if tag and tag % 2 == 0 and before not in (tag, tag - 1):
                raise DataError(
                    f"{where}: tags are numbers without names, and {tag} follows {before}\n"
                    "  allowed: tags such as O, B-PER and I-PER, or numbers whose names are the "
                    "features of dataset_info.json beside the file\n  fix: write the names"
                )
            before, largest = tag, max(largest, tag)
    types = range(1, (largest + 1) // 2 + 1)
    marks = [f"{mark}-TYPE{number}" for number in types for mark in "BI"]
    return {str(number): name for number, name in enumerate(["O", *marks])}


def id_column(columns: Mapping[str, Column], used: Sequence[str]) -> str | None:
    """Return a column that is named like an identifier and whose values are all different."""
    for name, column in columns.items():
        is_unique = column.num_missing == 0 and len(column.values) == column.count
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
        if name not in texts and name.lower() not in _IDS and column.lists == 0 and column.count
    }
    sure = [name for name in free if name.lower() in _SURE_LABELS]
    usual = [name for name in free if name.lower() in _LABELS]
    guessed = [name for name, c in free.items() if c.is_classes or c.is_fractions]
    labels = [name for name in sure if name.lower() == "label"] or sure
    if not labels and len(usual) == 1 and set(guessed) <= set(usual):
        labels = usual
    if len(labels) == 1:
        return free[labels[0]], "its name says so"
    likely = labels or list(dict.fromkeys([*usual, *guessed]))
    if len(likely) == 1:
        kind = "few values that repeat" if free[likely[0]].is_classes else "numbers"
        return free[likely[0]], f"the only column of {kind}"
    if likely:
        listed = "".join(f"\n    {name}: {free[name].shown()}" for name in likely)
        raise ConfigError(
            f"{where}: {len(likely)} columns could be the label:{listed}\n"
            f"  fix: name one by --label, such as --label {shlex.quote(likely[0])}"
        )
    listed = "".join(f"\n    {name}: {column.shown()}" for name, column in columns.items())
    raise ConfigError(
        f"{where}: no column looks like a label:{listed}\n"
        "  fix: name one by --label; for pre-training text, a table has the column `text` alone"
    )


def text_columns(
    columns: Mapping[str, Column], chosen: Sequence[str], label: str, where: str
) -> tuple[list[str], str]:
    """Return one or two columns of the text and the reason. Raises ``ConfigError`` if it is not
    clear.
    """
    if chosen:
        return [_column(columns, name, "--text", where).name for name in chosen], "--text names it"
    lower = {name.lower(): name for name in columns if name != label and columns[name].texts}
    for pair in PAIRS:
        if all(name in lower for name in pair):
            return [lower[name] for name in pair], "the two usual names of a pair"
    texts = [
        name
        for name, column in columns.items()
        if name != label and name.lower() not in _IDS and column.is_text
    ]
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
    listed = ", ".join(texts or columns)
    raise ConfigError(
        f"{where}: {len(texts)} columns of text: {listed}\n"
        "  fix: name one, or two of a pair, by --text, such as --text "
        f"{shlex.quote((texts or list(columns))[0])}"
    )


def check_classes(column: Column, where: str) -> None:
    """Raise ``DataError`` for a column that cannot be classes."""
    if len(column.values) < 2:
        raise DataError(
            f"{where}: column {column.name!r} has one class only: {', '.join(column.values)}, in "
            f"all {column.count:,} rows\n  fix: add rows of another class, or name another column "
            "by --label"
        )
    if len(column.values) > _MOST_CLASSES or len(column.values) > max(2, column.count // 2):
        raise ConfigError(
            f"{where}: column {column.name!r} has {column.shown()} in {column.count:,} rows, which "
            "is no label\n  fix: name another column by --label"
        )


def check_header(label: Column, texts: Sequence[str], where: str) -> None:
    """Raise ``DataError`` where the names of the columns are the cells of a row: a text, and a
    label that other rows have too.
    """
    if label.name in label.values and any(name.count(" ") >= _SHORT_WORDS for name in texts):
        raise DataError(
            f"{where}:1: the first line is a row, where names of columns belong: {label.name!r} is "
            f"a label of {label.values[label.name]:,} other rows\n"
            "  fix: put a line with names above it, such as text,label"
        )


def check_complete(column: Column, where: str) -> None:
    """Raise ``DataError`` for empty texts, which the training would refuse."""
    if column.num_missing:
        raise DataError(
            f"{where}: {column.num_missing:,} of {column.num_missing + column.count:,} rows have "
            f"nothing in column {column.name!r}, the first at {column.missing}\n"
            "  fix: fill or remove these rows, or name another column"
        )


def _column(columns: Mapping[str, Column], name: str, option: str, where: str) -> Column:
    if name not in columns:
        missing = missing_columns(where, [name], list(columns)).split("\n")[0]
        raise ConfigError(f"{missing}\n  fix: name a column of the file by {option}")
    return columns[name]
