"""Changes of training rows: rows without labels that are added, labels that are corrected."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from road_ray.data.features.examples_and_features import Example, TextExample
from road_ray.data.readers.layouts import table_examples
from road_ray.data.readers.squad import squad_rows
from road_ray.data.readers.tables import Row, Table, named_rows
from road_ray.data.readers.text_files import numbered_lines
from road_ray.data.task_and_dataset import Choose, Classify, Columns, Dataset, Span, Tag, Task
from road_ray.errors import ConfigError, DataError, did_you_mean

DROP = "drop"
FIELDS = (
    *("correction", "label", "suggested", "self_confidence", "margin"),
    *("text", "text_pair", "id"),
)
"""Correction that leaves a row out, and the columns of a table of corrections."""
REST = "rest"
"""Entry of ``data.unlabelled`` that names the training rows beyond ``data.max_rows``."""


def unlabelled_file(name: str, root: Path | None) -> Path | None:
    """Return the file that an entry of ``data.unlabelled`` names, below ``root`` or as a path; None
    if there is none, so that it names a data set.
    """
    place = Path(name).expanduser()
    below = [root / place] if root is not None else []
    return next((path for path in (*below, place) if path.is_file()), None)


def read_unlabelled(path: Path, dataset: Dataset, task: Task) -> list[Example]:
    """Return the rows of a text, table or SQuAD file as examples of ``task`` without labels.

    A table has the text columns of the data set, or ``text`` and ``text_pair``, or ``question`` and
    ``context``. A text file has one text a line. Raises ``DataError`` for a row without them and an
    empty file, ``ConfigError`` for a task of tags.
    """
    if isinstance(task.kind, Tag):
        raise ConfigError(
            f"data.unlabelled with data.dataset = {dataset.name}: rows of tags cannot be unlabelled"
            "\n  allowed: tasks of classes, numbers, answers and choices"
        )
    rows: Iterator[tuple[str, Row]]
    if isinstance(task.kind, Span):
        gold = {"id", "answers", "is_impossible"}  # of no use here, whether they are right or not
        rows = ((w, {c: row[c] for c in row if c not in gold}) for w, row in squad_rows(path))
        layout, columns = "squad_json", Columns(())
    elif isinstance(task.kind, Choose):
        columns = replace(dataset.columns, label=None, id=None)
        rows, layout = named_rows(path), dataset.layout
    else:
        usual = zip(dataset.columns.text, ("text", "text_pair"), strict=False)
        columns = Columns(tuple(f"{own}|{other}" for own, other in usual))
        rows, layout = named_rows(path), "table"
        if path.suffix == ".txt":
            lines = ((f"{path}:{n}", line.strip()) for n, line in numbered_lines(path))
            rows = ((where, {"text": line}) for where, line in lines if line)
    entry = replace(dataset, layout=layout, columns=columns)
    examples = table_examples(Table(str(path), rows, columns), entry, "test")
    return [example.unlabelled() for example in examples]


def corrected(
    examples: Sequence[Example], path: Path, dataset: Dataset, task: Task
) -> list[Example]:
    """Return the examples without those that the table drops, and with its labels.

    A row of the table is of all examples with its texts and its ``label``; without a ``correction``
    it changes nothing. Raises ``DataError`` for a row of no example and for an unknown label,
    ``ConfigError`` for a task without classes.
    """
    if not isinstance(task.kind, Classify):
        raise ConfigError(
            f"data.corrections = {path}: {dataset.name} has no classes\n"
            "  allowed: data sets with one label a text or pair"
        )
    corrections = _read(path, [DROP, *task.kind.labels])
    kept, unused = list[Example](), set(corrections)
    for example in examples:
        assert isinstance(example, TextExample)
        label = dataset.label_map.get(str(example.label), str(example.label))
        same = (example.fold_text(), label)
        correction = corrections.get(same)
        unused.discard(same)
        if correction is None:
            kept.append(example)
        elif correction != DROP:
            kept.append(replace(example, label=correction))
    if unused:
        text, label = min(unused)
        raise DataError(
            f"{path}: {len(unused)} of {len(corrections)} rows are of no training row of "
            f"{dataset.name}, such as {text[:80]!r} with the label {label!r}\n"
            "  fix: use the table of this data set, with the same data.max_rows and "
            "data.label_noise; only its column correction may be edited"
        )
    return kept


def _read(path: Path, allowed: Sequence[str]) -> dict[tuple[str, str], str]:
    """Return the correction of each row that has one, by its texts and label."""
    corrections = {}
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = csv.DictReader(file)
            missing = {"correction", "label", "text"} - set(rows.fieldnames or ())
            if missing:
                raise DataError(
                    f"{path}: has no column {', '.join(sorted(missing))}\n"
                    f"  allowed: a table of `road data errors`, with {', '.join(FIELDS)}"
                )
            for row in rows:
                correction = (row["correction"] or "").strip()
                if correction and correction not in allowed:
                    raise DataError(
                        f"{path}:{rows.line_num}: correction = {correction!r}"
                        f"{did_you_mean(correction, allowed)}\n  allowed: {', '.join(allowed)}"
                    )
                texts = [row["text"], *([row["text_pair"]] if row.get("text_pair") else [])]
                example = TextExample("", tuple(texts), None, "")
                if correction:
                    corrections[example.fold_text(), row["label"]] = correction
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"data.corrections = {path}: cannot be read: {error}") from error
    return corrections
