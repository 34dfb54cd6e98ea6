"""Guess of a data set's task, columns, labels and split, with the reason for each.

A column without a usual name is known by its values. What stays open is a ``ConfigError`` that
names the option to answer it by.
"""

from __future__ import annotations

import math
import re
import shlex
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, NoReturn

from road_ray.data.corpus.documents import Documents
from road_ray.data.inspection.data_files import MOST_ROWS, Guess, Rows, found_at
from road_ray.data.load_split import label_counts, labels_in
from road_ray.data.readers.conll import TAG, word_and_tag
from road_ray.data.readers.custom_dataset import CustomDataset
from road_ray.data.readers.layouts import MARKS, table_examples
from road_ray.data.readers.tables import missing_columns
from road_ray.data.task_and_dataset import Columns, label_text, number_in
from road_ray.errors import ConfigError, DataError

DEV_FRACTION = 0.1
DEFAULT_LIMIT = 512  # tokens that a model takes, as BERT and ELECTRA do
MOST_CHARACTERS = 200_000_000  # of text for pre-training that are read
_MOST_CLASSES = 1000
_MOST_NUMBERED_CLASSES = 20  # whole numbers with more values are a regression
_TOKENS_PER_WORD = 1.4
_LENGTHS = (128, 256, 384, 512, 1024, 2048, 4096, 8192)
_SPAN_LENGTH = 384
# Usual names, in lower case.
_LABEL = ("label", "labels", "gold_label", "class", "target")
_LIKELY_LABEL = ("category", "sentiment", "intent", "rating", "stars", "score", "similarity")
_SEVERAL_LABELS = ("labels", "tags", "topics", "categories", "emotions", "genres", "classes")
_ID = ("id", "idx", "index", "guid", "uid", "uuid", "key", "row_id")
_TEXTS = (
    *(("premise", "hypothesis"), ("sentence1", "sentence2"), ("question1", "question2")),
    *(("question", "sentence"), ("text", "text_pair"), ("text",), ("sentence",)),
)
_MOST_UNNAMED = 50  # different values of a column that may be classes without being named so
_MOST_CLASS_WORDS = 3
_SEPARATORS = (";", "|", ",")
_LIST = re.compile(r"""\[\s*(["'].*["']\s*)?\]""", re.DOTALL)
_DECIMAL = re.compile(r"[-+]?\d+,\d+")
_LEAST_MARKS = 3  # columns of 0 and 1 that are labels unless an option says so


def guess(
    place: str,
    *,
    text: Sequence[str] = (),
    label: str | None = None,
    kind: str | None = None,
    limit: int = DEFAULT_LIMIT,
) -> Guess:
    """Return the guess for a file, a folder or ``hub:NAME``. The user may have chosen the columns
    of ``text`` and ``label`` and the ``kind``; ``limit`` is the number of tokens of the model.

    Raises ``ConfigError`` for a question that an option answers, ``DataError`` for data that cannot
    be used. Rows that a reader refuses are found when the file that ``road init`` writes is read.
    """
    made = found_at(place)
    chosen = bool(text or label or kind)  # of one label for a text or a pair
    if chosen and made.layout != "table":
        raise ConfigError(
            f"{place}: the file has layout {made.layout}, it is no table with columns\n"
            "  fix: leave --label, --text and --kind out, or name a CSV, TSV, JSONL or parquet file"
        )
    if made.layout == "text":
        return _corpus(made)
    rows = made.rows["train"]
    cells: dict[str, list[tuple[str, object]]] = {}
    for where, row in rows:
        for name, cell in row.items():
            cells.setdefault(name, []).append((where, cell))
    columns = {name: _Column(name, of_column) for name, of_column in cells.items()}
    if not columns:
        raise DataError(f"{place}: no row with a column\n  fix: name a file with rows")
    if {"context", "question", "answers"} <= columns.keys() and not chosen:
        made.kind, made.max_length_tokens = "span", min(_SPAN_LENGTH, limit)
        made.reasons.append(
            "task: answers in a context (span), by the columns context, question and answers"
        )
    elif made.layout == "conll" or (_word_and_tag_columns(rows) and not chosen):
        found = _word_and_tag_columns(rows) or word_and_tag(Columns(()))
        if made.layout != "conll":
            made.entry = {"text": [found[0]], "label": found[1]}
        made.kind = "tag"
        made.reasons.append(
            f"task: a tag for each word, by lists or lines of words and tags ({', '.join(found)})"
        )
    elif list(columns) == ["text"] and label is None:
        return _corpus(made)
    else:
        _texts(made, columns, place, text, label, kind)
        made.max_length_tokens = _length(made, limit)
    if made.kind != "classify":
        made.entry = {"kind": made.kind} | made.entry
    if made.kind != "span":
        _add_labels(made, place)
    _add_splits(made)
    return made


def _corpus(made: Guess) -> Guess:
    made.kind, made.reasons = "corpus", ["task: pre-training, as there is text alone"]
    if made.hub is None:
        made.num_characters = 0
        for document in Documents(made.splits["train"]):
            made.num_characters += len(document)
            if made.num_characters >= MOST_CHARACTERS:
                break
    return made


def _texts(
    made: Guess,
    columns: Mapping[str, _Column],
    place: str,
    chosen_text: Sequence[str],
    chosen_label: str | None,
    chosen_kind: str | None,
) -> None:
    """Guess a label, a number, or any number of labels of a text or a pair."""
    several = _label_sets(columns, chosen_label, chosen_kind, place)
    if several is not None:
        labels, entry, why_label = several
        made.kind, task = "multi", "any number of labels"
    else:
        label, why_label = _label_column(columns, chosen_label, chosen_text, place)
        labels, entry = (label.name,), {"label": label.name}
        is_number = label.form == "fractions" or len(label.numbers) > _MOST_NUMBERED_CLASSES
        made.kind = chosen_kind or ("regress" if is_number else "classify")
        numbers = "; for a number: --kind regress" if label.numbers else ""
        task = "a number" if made.kind == "regress" else f"one of several classes{numbers}"
    others = {name: column for name, column in columns.items() if name not in labels}
    texts, why_texts = _text_columns(others, chosen_text, place)
    for text in texts:
        if missing := columns[text].missing:
            raise DataError(
                f"{place}: {len(missing):,} of {made.num_rows:,} rows have nothing in column "
                f"{text!r}, the first at {missing[0]}\n"
                "  fix: fill or remove these rows, or name another column"
            )
    unique = (n for n, c in others.items() if not c.missing and {*c.values.values()} == {1})
    id_name = next((n for n in unique if others[n].is_id() and n not in texts), None)
    left_out = [name for name in others if name not in (*texts, id_name)]
    made.reasons = [
        f"task: {task} for {'a pair of texts' if len(texts) == 2 else 'a text'} ({made.kind})",
        f"text: {' and '.join(texts)} ({why_texts})",
        f"label: {', '.join(labels[:12])} ({why_label})",
        *([f"not read: {', '.join(left_out)}"] if left_out else []),
    ]
    if any(name.startswith(("probability_", "logprob_", "logit_")) for name in left_out):
        made.reasons.append("answers of a teacher, which distillation.teachers=FILE reads")
    if several is None and (missing := columns[label.name].missing):
        made.reasons.append(
            f"no label: {len(missing):,} of {made.num_rows:,} rows, the first at {missing[0]}; a "
            "training leaves them out, a distillation may read their texts (data.unlabelled)"
        )
    made.entry = {"text": texts, **entry, **({"id": id_name} if id_name else {})}


def _add_labels(made: Guess, place: str) -> None:
    """Add the labels, or the range of the numbers, of the splits train and dev, as a training reads
    them.
    """
    entry = made.entry
    dataset = CustomDataset(**entry, train=place).dataset(made.name)
    label, counts = str(entry.get("label")), Counter[str]()
    signs = {"-": "-"} if any(row.get(label) == "+" for _, row in made.rows["train"]) else {}
    dataset = replace(dataset, negative_labels=True, label_map=signs)
    needed = made.kind == "tag"  # of others, rows without a label are told by the training
    for rows in (made.rows[name] for name in ("train", "dev") if name in made.rows):
        counts += label_counts(table_examples(place, rows, dataset, needed), made.kind)
    seen = _shown_values(counts)
    if made.kind == "regress":
        try:
            numbers = [float(value) for value in counts]
            entry["low"] = float(math.floor(min(numbers)))
            entry["high"] = float(math.ceil(max(numbers)))
        except (ValueError, OverflowError) as error:
            raise DataError(
                f"{place}: column {entry['label']!r} holds no numbers, but {seen}\n"
                "  fix: name another column by --label, or leave out --kind regress"
            ) from error
        made.reasons.append(f"range: {entry['low']:g} to {entry['high']:g}, around {seen}")
        return
    shown = [f"{label} ({count:,})" for label, count in counts.items()]
    made.reasons.append(f"labels: {', '.join([*shown[:12], *(['...'] if shown[12:] else [])])}")
    if made.kind == "tag":
        entry["labels"] = labels_in(counts, "tag")
    elif not isinstance(entry["label"], list):
        named = made.class_names.get(entry["label"])
        entry["labels"] = labels_in(counts, made.kind) if named is None else [*named]
        if named is not None and made.hub is None:  # else the rows have the names
            entry["label_map"] = {str(number): name for number, name in enumerate(named)}
        if not 2 <= len(entry["labels"]) <= min(_MOST_CLASSES, max(2, counts.total() // 2)):
            raise ConfigError(
                f"{place}: column {entry['label']!r} has {seen} in {counts.total():,} rows, which "
                "is no label\n  fix: name another column by --label"
            )


def _length(made: Guess, limit: int) -> int | None:
    """Return the length that holds 95% of the rows, at most ``limit``, which the model takes; None
    for the default of 128 tokens.
    """
    rows, texts = made.rows["train"], made.entry["text"]
    words = sorted(sum(str(row[text]).count(" ") + 1 for text in texts) for _, row in rows)
    long = words[int(0.95 * (len(words) - 1))] * _TOKENS_PER_WORD + 3
    length = min(next((n for n in _LENGTHS if n >= long), limit), limit)
    if length == _LENGTHS[0]:
        return None
    about = f"length: {length} tokens, 95% of the texts have at most about {long:.0f}"
    if length < long:
        about += (
            ", but it is the most that the model takes; data.windows=mean reads longer texts "
            "whole, if a row has one"
        )
    made.reasons.append(f"{about}; longer ones are cut")
    return length


def _add_splits(made: Guess) -> None:
    """Add files and dev split to the entry."""
    splits = made.splits
    if made.hub is not None:
        made.entry["hub"] = made.hub.path
        if made.hub.configuration:
            made.entry["configuration"] = made.hub.configuration
    made.entry.update(splits)
    if "dev" in splits:
        made.reasons.append(f"split: {splits['train']} to train on, {splits['dev']} to evaluate on")
    else:
        made.entry["dev_fraction"] = DEV_FRACTION
        made.reasons.append(
            f"split: {DEV_FRACTION:.0%} of the rows are held out to evaluate on (dev_fraction), "
            "unless `dev` names a file of your own"
        )
    if unread := [other for group in made.files.values() for other in group[1:]]:
        made.reasons.append(
            f"not read: {', '.join(unread)}, as there is one train, dev and test; name "
            "another in the file that is written"
        )
    if made.num_rows >= MOST_ROWS:
        made.reasons.append(f"only the first {MOST_ROWS:,} rows were inspected")


class _Column:
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
        numbers = map(number_in, self.values)
        self.numbers = [x for x in numbers if x is not None and math.isfinite(x)]
        if len(self.numbers) < len(self.values):
            self.numbers = []
        few = 2 <= len(self.values) <= _MOST_UNNAMED and self.mean_words <= _MOST_CLASS_WORDS
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


def _shown_values(values: Collection[str]) -> str:
    """Return the number of different values and the first of them, for messages."""
    few = ", ".join(map(repr, list(values)[:3]))
    return f"{len(values):,} different values, such as {few}"


def _word_and_tag_columns(rows: Rows) -> tuple[str, str] | None:
    """Return the columns of a list of words and a list of as many tags, if there are such."""
    lists = {name: cell for name, cell in rows[0][1].items() if isinstance(cell, list) and cell}
    texts = {n: cell for n, cell in lists.items() if all(isinstance(item, str) for item in cell)}
    for tag, tags in texts.items():
        if all(map(TAG.fullmatch, tags)):
            for word, words in texts.items():
                if word != tag and len(words) == len(tags):
                    return word, tag
    return None


def _label_column(
    columns: Mapping[str, _Column], chosen: str | None, texts: Sequence[str], where: str
) -> tuple[_Column, str]:
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
    forms = ("classes", "fractions")
    likely = [c for name, c in free.items() if name in _LIKELY_LABEL or c.form in forms]
    if name := next((c.name for c in likely if c.name in c.values), None):  # lost as a row
        raise ConfigError(
            f"{where}: {name!r} is the name of a column and one of its values, as in a file "
            f"without a header\n  fix: write the names above it; if it is one: --label {name}"
        )
    if len(likely) == 1:
        return likely[0], "the only column of classes or numbers"
    what = f"{len(likely)} columns could be the label" if likely else "no column looks like a label"
    fix = "by --label, or all of 0 and 1 by --kind multi; pre-training reads a column `text` alone"
    _ask(f"{where}: {what}", likely or [*columns.values()], "--label", fix)


def _text_columns(
    columns: Mapping[str, _Column], chosen: Sequence[str], where: str
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
    if nested := [column.name for column in columns.values() if column.form == "lists"]:
        raise ConfigError(
            f"{where}: column {nested[0]!r} has lists or objects, which are no text\n"
            "  fix: name the text by --text, which leaves it out; choices need a column each, and "
            "an entry with kind: choose"
        )
    texts = [column for column in texts if column.mean_words > 1] or texts  # no names or codes
    texts = texts or [column for column in words.values() if not column.is_id()]
    if 1 <= len(texts) <= 2:
        why = "the only columns of text; two are read as a pair, --text names one alone"
        return [column.name for column in texts], why
    fix = "or two of a pair, by --text"
    _ask(f"{where}: {len(texts)} columns of text", texts or [*columns.values()], "--text", fix)


def _ask(problem: str, columns: Sequence[_Column], option: str, fix: str) -> NoReturn:
    shown = {column.name: _shown_values(column.values) for column in columns}
    shown |= {column.name: "lists or objects" for column in columns if column.form == "lists"}
    listed = "".join(f"\n    {name}: {values}" for name, values in shown.items())
    example = f"{option} {shlex.quote(columns[0].name) if columns else 'NAME'}"
    raise ConfigError(f"{problem}:{listed}\n  fix: name one, such as {example}, {fix}")


def _named(columns: Mapping[str, _Column], name: str, option: str, where: str) -> _Column:
    if name not in columns:
        missing = missing_columns(where, [name], list(columns)).split("\n")[0]
        raise ConfigError(f"{missing}\n  fix: name a column of the file by {option}")
    return columns[name]


def _label_sets(
    columns: Mapping[str, _Column], label: str | None, kind: str | None, place: str
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
        are_lists = all(map(_LIST.fullmatch, column.values))  # of a CSV, whose cells are texts
        if are_lists and column.form != "nothing":
            return (name,), {"label": name}, f"{why}; its cells are lists"
        if not kind and column.values and all(_DECIMAL.fullmatch(n) for n in column.values):
            raise ConfigError(
                f"{place}: column {name!r} has numbers with a comma: {min(column.values)!r}\n"
                "  fix: write them with a point; for several labels a row: --kind multi"
            )
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
