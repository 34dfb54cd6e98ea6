"""Corrections of training labels: a table as ``road data errors`` writes it, edited or not."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from road_ray.data.features.examples_and_features import Example, TextExample
from road_ray.data.task_and_dataset import Classify, Dataset, Task
from road_ray.errors import ConfigError, DataError, did_you_mean

DROP = "drop"
FIELDS = (
    "correction",
    "label",
    "suggested",
    "self_confidence",
    "margin",
    "text",
    "text_pair",
    "id",
)


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
