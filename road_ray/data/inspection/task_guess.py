"""Guess of a data set's task, columns, labels and split, with the reason for each."""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from road_ray.data.custom_task import sorted_labels, tag_labels
from road_ray.data.features.examples_and_features import SpanExample
from road_ray.data.inspection.data_files import (
    MOST_ROWS,
    Row,
    Source,
    count_characters,
    find_source,
)
from road_ray.data.inspection.find_columns import (
    Column,
    check_classes,
    check_complete,
    check_header,
    count_columns,
    id_column,
    is_span,
    label_column,
    names_of_numbers,
    tag_texts,
    text_columns,
    word_and_tag_columns,
)
from road_ray.data.readers.squad import flat_answers
from road_ray.data.task_and_dataset import below_zero, plain_label
from road_ray.errors import ConfigError, DataError

DEV_FRACTION = 0.1
_MOST_NUMBERED_CLASSES = 20  # whole numbers with more values are a regression
_TOKENS_PER_WORD = 1.4
_LENGTHS = (128, 256, 384, 512, 1024, 2048, 4096, 8192)
_SPAN_LENGTH = 384
DEFAULT_LIMIT = 512  # tokens that a model takes, as BERT and ELECTRA do


@dataclass
class Guess:
    """Guessed entry of ``data.sets`` for a data set, with the reasons as lines of text.

    ``kind`` is that of ``data.sets``, or ``corpus`` for pre-training text, which has ``steps``.
    """

    source: Source
    kind: str
    entry: dict[str, Any]
    reasons: list[str] = field(default_factory=list)
    num_rows: int = 0
    max_length_tokens: int | None = None
    steps: int = 0


@dataclass(frozen=True)
class Wishes:
    """Choices of the user for the columns: text, label and kind; the rest is guessed. ``limit`` is
    the number of tokens that the model takes.
    """

    text: Sequence[str] = ()
    label: str | None = None
    kind: str | None = None
    limit: int = DEFAULT_LIMIT


def guess(place: str, wishes: Wishes | None = None) -> Guess:
    """Return the guess for a file, a folder or ``hub:NAME``.

    Raises ``ConfigError`` for a question that an option answers, ``DataError`` for data that cannot
    be used.
    """
    wishes = wishes or Wishes()
    source = find_source(place)
    made = _of_source(source, wishes, place)
    if made.kind != "corpus":
        _add_splits(made)
    made.reasons += source.notes
    return made


def _of_source(source: Source, wishes: Wishes, place: str) -> Guess:
    if source.layout != "table":
        _refuse_wishes(wishes, source, place)
    if source.layout == "text":
        return Guess(source, "corpus", {}, ["task: pre-training, as this is plain text"])
    rows: Any = source.rows["train"]
    if source.layout == "squad_json":
        return _spans(source, "SQuAD's JSON", wishes.limit)
    if source.layout == "conll":
        tags = [sentence.tags for sentence in rows]
        return _tags(source, tags, "as every line is a word with a tag", {})
    columns = count_columns(rows)
    if not columns:
        raise DataError(f"{place}: its rows have no columns\n  fix: name another file")
    chosen = bool(wishes.text or wishes.label or wishes.kind)  # of one label for a text or a pair
    if is_span(columns) and not chosen:
        return _spans(source, "the columns context, question and answers", wishes.limit)
    names = source.class_names
    if (lists := word_and_tag_columns(rows, names)) is not None and not chosen:
        tags = [tag_texts(row[lists[1]] or (), names.get(lists[1], ())) for _, row in rows]
        entry = {"text": [lists[0]], "label": lists[1]}
        return _tags(source, tags, f"as the columns {lists[0]} and {lists[1]} are lists", entry)
    if list(columns) == ["text"] and wishes.label is None:
        if source.hub is None:
            source = replace(source, num_characters=count_characters(source.splits["train"]))
        return Guess(source, "corpus", {}, ["task: pre-training, as `text` is the only column"])
    return _sentences(source, columns, wishes, place)


def _refuse_wishes(wishes: Wishes, source: Source, place: str) -> None:
    """Raise ``ConfigError`` for options on the columns of a table, where there is none."""
    given = {"--label": wishes.label, "--text": " ".join(wishes.text), "--kind": wishes.kind}
    if named := [f"{option} {value}" for option, value in given.items() if value]:
        what = {"text": "plain text", "conll": "words and tags", "squad_json": "SQuAD's JSON"}
        raise ConfigError(
            f"{place}: {named[0]}: the file is {what[source.layout]}, not a table with columns\n"
            f"  fix: leave {named[0].split()[0]} out, or name a CSV, TSV, JSONL or parquet file"
        )


def _spans(source: Source, why: str, limit: int) -> Guess:
    questions = source.rows["train"]
    first: Any = questions[0]
    entry: dict[str, Any] = {"kind": "span"}
    reasons = [f"task: answers in a context (span), by {why}"]
    if isinstance(first, SpanExample):
        spans: Sequence[Any] = questions
        lengths = [len(span.context.split()) for span in spans]
        without = sum(not span.answers for span in spans)
    else:
        rows: Any = questions
        lengths = [len(str(row["context"]).split()) for _, row in rows]
        answers = [flat_answers(row["answers"], where) for where, row in rows]
        without = sum(not any(answer.get("text") for answer in of_row) for of_row in answers)
    reasons.append(f"questions: {len(questions):,}, of which {without:,} have no answer")
    mean = sum(lengths) / len(lengths)
    reasons.append(f"contexts: {mean:.0f} words on average; longer ones are read in windows")
    return Guess(source, "span", entry, reasons, len(questions), min(_SPAN_LENGTH, limit))


def _tags(source: Source, tags: Sequence[Any], why: str, entry: dict[str, Any]) -> Guess:
    column = entry.get("label", "")
    sentences = list(tags)
    for split, split_rows in source.rows.items():  # labels of the other splits count too
        if split != "train" and source.layout == "conll":
            examples: Any = split_rows
            sentences += [example.tags or () for example in examples]
        elif split != "train":
            rows: Any = split_rows
            names = source.class_names.get(column, ())
            sentences += [tag_texts(row.get(column) or (), names) for _, row in rows]
    place = source.splits["train"]
    counts = Counter(tag for sentence in sentences for tag in sentence or ())
    numbered = all(tag.isdecimal() for tag in counts)
    entry = {"kind": "tag", **entry}
    if numbered:
        entry["label_map"] = names_of_numbers(sentences, place)
        counts = Counter({entry["label_map"][tag]: count for tag, count in counts.items()})
    labels = tag_labels(list(counts))
    if len(labels) < 2:
        raise DataError(f"{place}: all tags are O\n  fix: name another file")
    kinds = [label[2:] for label in labels if label.startswith("B-")]
    reasons = [
        f"task: a tag for each word, {why}",
        f"entities: {', '.join(kinds)}, in {len(tags):,} sentences",
    ]
    if numbered:
        reasons.append(
            "tags: numbers without names, read as 0: O, 1: B and 2: I of the first type and so on, "
            "which their order allows; name the types in labels and label_map"
        )
    return Guess(source, "tag", {**entry, "labels": labels}, reasons, len(tags))


def _sentences(source: Source, columns: Mapping[str, Column], wishes: Wishes, place: str) -> Guess:
    rows: Any = source.rows["train"]
    label, why_label = label_column(columns, wishes.label, wishes.text, place)
    texts, why_texts = text_columns(columns, wishes.text, label.name, place)
    if len(texts) > 2:
        raise ConfigError(f"--text names {len(texts)} columns\n  allowed: one, or two of a pair")
    check_header(label, texts, place)
    for text in texts:
        check_complete(columns[text], place)
    pair = " and ".join(texts)
    reasons = [f"text: {pair} ({why_texts})", f"label: {label.name} ({why_label})"]
    entry: dict[str, Any] = {"text": texts, "label": label.name}
    if (id_name := id_column(columns, [*texts, label.name])) is not None:
        entry["id"] = id_name
        reasons.append(f"id: {id_name} (its name says so, and no value repeats)")
    if label.num_missing:
        reasons.append(
            f"no label: {label.num_missing:,} of {len(rows):,} rows, the first at {label.missing}; "
            "training leaves them out, and a distillation takes their texts from a file in "
            "data.unlabelled"
        )
    if left_out := [name for name in columns if name not in (*texts, label.name, entry.get("id"))]:
        reasons.append(f"not read: {', '.join(left_out)}")
    unit = "a pair of texts" if len(texts) == 2 else "a text"
    kind = wishes.kind or ("regress" if _is_regression(label) else "classify")
    if kind == "regress":
        low, high = _range_of(source, label, place)
        entry = {"kind": "regress", **entry, "low": low, "high": high}
        reasons.insert(0, f"task: a number for {unit} (regress); the label has {label.shown()}")
        reasons.append(f"range: {low:g} to {high:g}, around the numbers of the file")
    else:
        labels, label_map, lines = _classes(source, label, place)
        entry["labels"] = labels
        if label_map:
            entry["label_map"] = label_map
        numbers = "; for a number: --kind regress" if label.numbers else ""
        reasons.insert(0, f"task: one of {len(labels)} classes for {unit}{numbers}")
        reasons += lines
    made = Guess(source, kind, entry, reasons, len(rows))
    made.max_length_tokens = _length(rows, texts, wishes.limit, reasons)
    return made


def _range_of(source: Source, label: Column, place: str) -> tuple[float, float]:
    """Return the whole numbers around the values of all splits, but for hidden ones of the test
    split: those below 0, where train and dev have none.
    """
    tested: set[str] = set()
    for split, split_rows in source.rows.items():
        rows: Any = split_rows
        column = count_columns(rows).get(label.name) if split != "train" else None
        if split == "test":
            tested = {*column.values} if column else tested
        else:
            label.values.update(column.values if column else {})
    has_negative = any(map(below_zero, label.values))
    label.values.update((v, 0) for v in tested if has_negative or not below_zero(v))
    numbers = label.numbers
    if numbers is None or len(numbers) < 2:
        raise DataError(
            f"{place}: column {label.name!r} holds no numbers, but {label.shown()}\n"
            "  fix: name another column by --label, or leave out --kind regress"
        )
    return float(math.floor(min(numbers))), float(math.ceil(max(numbers)))


def _classes(
    source: Source, label: Column, place: str
) -> tuple[list[str], dict[str, str], list[str]]:
    """Return labels, the map from other spellings to them, and lines about both."""
    counts = Counter(label.values)
    for split, split_rows in source.rows.items():
        rows: Any = split_rows
        if split != "train":
            column = count_columns(rows).get(label.name)
            new = [v for v in (column.values if column else {}) if v not in counts]
            counts.update(column.values if column else {})
            if column is None and split == "dev":
                raise DataError(
                    f"{source.splits[split]}: no column {label.name!r}, which the training file has"
                    "\n  fix: add it, or move the file away to split the training rows instead"
                )
            if new and split == "dev":
                label.values.update(dict.fromkeys(new, 0))
    label.values.pop("-", None)  # no label, as in SNLI
    names = source.class_names.get(label.name)
    if names is not None:
        label.values.pop("-1", None)  # no label
    check_classes(label, place)
    if names is not None:
        shown = ", ".join(names[:12])
        if source.hub is not None:  # its reader gives names
            return list(names), {}, [f"classes: {shown}, by the features of the data set"]
        label_map = {str(number): name for number, name in enumerate(names)}
        return list(names), label_map, [f"classes: {shown}; the file has their numbers"]
    shown = ", ".join(f"{value} ({counts[value]:,})" for value in sorted_labels(label.values)[:12])
    lines = [f"classes: {shown}{', ...' if len(label.values) > 12 else ''}"]
    spellings: dict[str, list[str]] = {}
    for value in sorted(label.values, key=lambda value: -label.values[value]):
        spellings.setdefault(plain_label(value), []).append(value)
    label_map = {other: same[0] for same in spellings.values() for other in same[1:]}
    if label_map:
        normal = {unicodedata.normalize("NFC", value) for value in label.values}
        why = " (some differ in Unicode normalisation, NFC or NFD, alone)"
        shown = ", ".join(map(repr, label_map)) + why * (len(normal) < len(label.values))
        lines.append(f"one class in several spellings: {shown}")
        if len(spellings) < 2:
            single = {next(iter(spellings)): label.count}
            check_classes(Column(label.name, label.count, values=single), place)
    return sorted_labels([same[0] for same in spellings.values()]), label_map, lines


def _length(
    rows: Sequence[Row], texts: Sequence[str], limit: int, reasons: list[str]
) -> int | None:
    """Return the length that holds 95% of the texts, at most ``limit``, which the model takes; None
    for the default of 128 tokens.
    """
    words = sorted(sum(str(row[text]).count(" ") + 1 for text in texts) for _, row in rows)
    long = words[int(0.95 * (len(words) - 1))] * _TOKENS_PER_WORD + 3
    length = min(next((n for n in _LENGTHS if n >= long), _LENGTHS[-1]), limit)
    if length == _LENGTHS[0]:
        return None
    seen = f"as 95% of the texts have at most about {long:.0f}"
    if length < long:
        seen = f"the most that the model takes; 95% of the texts have at most about {long:.0f}"
    reasons.append(f"length: {length} tokens, {seen}; longer ones are cut")
    return length


def _add_splits(made: Guess) -> None:
    """Add files and dev split to the entry."""
    source = made.source
    splits: dict[str, Any] = dict(source.splits)
    if source.hub is not None:
        path, configuration = source.hub
        made.entry["hub"] = path
        if configuration:
            made.entry["configuration"] = configuration
    if "dev" in splits:
        made.reasons.append(f"split: {splits['train']} to train on, {splits['dev']} to evaluate on")
    else:
        splits["dev_fraction"] = DEV_FRACTION
        made.reasons.append(
            f"split: {DEV_FRACTION:.0%} of the rows are held out to evaluate on, chosen by a hash "
            "of their text (dev_fraction); set `dev` to a file of your own instead if you have one"
        )
    made.entry.update(splits)
    if made.num_rows >= MOST_ROWS and source.layout == "table":
        reason = f"only the first {MOST_ROWS:,} rows were inspected"
        if source.hub is not None:
            made.entry["first_rows"] = MOST_ROWS
            reason = (
                f"a large split: its first {MOST_ROWS:,} rows were inspected and are streamed "
                "(first_rows); without that key all of it is downloaded"
            )
        made.reasons.append(reason)


def _is_regression(column: Column) -> bool:
    """Return True for fractions and for many different whole numbers."""
    numbers = column.numbers
    return numbers is not None and (column.is_fractions or len(numbers) > _MOST_NUMBERED_CLASSES)
