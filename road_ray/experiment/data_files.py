"""Data files that the arms of an experiment share: rows without labels, rows with noisy labels, and
the text of a domain. Each is written once, below the run directory.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from road_ray.data.config import SourceConfig
from road_ray.data.features.examples_and_features import Example, SpanExample, TextExample
from road_ray.data.load_split import find_dataset, read_examples, root_of, row_order
from road_ray.data.readers.custom_dataset import CustomDataset
from road_ray.data.task_and_dataset import Classify
from road_ray.errors import ConfigError, DataError
from road_ray.system.json_file import write_text_atomic

_TEXTS = ("text", "text_pair")  # of a sentence and of its pair


def training_examples(name: str, source: SourceConfig) -> list[Example]:
    """Return all training examples of a data set."""
    entry, _ = find_dataset(name, source)
    return read_examples(entry, "train", root_of(name, source))


def count_rows(name: str, split: str, source: SourceConfig) -> int:
    """Return the number of examples of a split."""
    entry, _ = find_dataset(name, source)
    return len(read_examples(entry, split, root_of(name, source)))


def num_labelled(name: str, source: SourceConfig) -> int:
    """Return the number of labelled training examples of a data set."""
    count = count_rows(name, "train", source)
    return min(count, source.max_rows or count)


def write_unlabelled(path: Path, name: str, source: SourceConfig, most: int | None) -> int:
    """Write training examples beyond ``source.max_rows`` without labels, at most ``most``, and
    return their number.

    Raises ``ConfigError`` if none is left, or for tags and choices.
    """
    if path.is_file():
        with path.open("rb") as file:
            return sum(1 for _ in file)
    examples = training_examples(name, source)
    beyond = len(examples) if source.max_rows is None else source.max_rows
    chosen = row_order(len(examples))[beyond:][:most]
    if not len(chosen):
        raise ConfigError(
            f"data.max_rows = {source.max_rows}: all {len(examples)} training examples of {name} "
            "keep their labels\n"
            f"  allowed: fewer than {len(examples)}, for the rest are the rows without labels\n"
            "  fix: lower data.max_rows, or name other rows by data.unlabelled"
        )
    write_lines(path, (_fields(examples[index]) for index in sorted(chosen)))
    return len(chosen)


def write_noisy(path: Path, name: str, source: SourceConfig, fraction: float) -> CustomDataset:
    """Write the labelled training examples with ``fraction`` of the labels replaced by another one,
    each other label equally likely; return the data set's entry.

    Raises ``ConfigError`` for a task without classes.
    """
    entry, task = find_dataset(name, source)
    if not isinstance(task.kind, Classify) or name in source.sets:
        raise ConfigError(
            f"data.dataset = {name}: noisy_labels replaces classes\n"
            "  allowed: a data set of the catalogue with one label a text or pair\n"
            "  fix: data.dataset=sst2"
        )
    examples = [x for x in training_examples(name, source) if isinstance(x, TextExample)]
    order = row_order(len(examples))[: source.max_rows]
    labels = task.kind.labels
    rng = np.random.default_rng((round(1e6 * fraction), 6))
    flipped = {*rng.permutation(order)[: round(fraction * len(order))].tolist()}
    rows = []
    for index in sorted(order):
        label = str(examples[index].label)
        label = entry.label_map.get(label, label)
        if index in flipped:
            wrong = [other for other in labels if other != label]
            label = wrong[rng.integers(len(wrong))]
        rows.append(_fields(examples[index]) | {"label": label})
    if not path.is_file():
        write_lines(path, rows)
    return CustomDataset(
        task=entry.task,
        layout="table",
        train=str(path.resolve()),
        text=_TEXTS[: len(entry.columns.text)],
        metrics=entry.metrics,
    )


def write_domain_text(path: Path, name: str, source: SourceConfig) -> None:
    """Write the training texts of a data set, each once, as a corpus of one document a text."""
    if path.is_file():
        return
    texts = dict.fromkeys(
        " ".join(text for key, text in _fields(example).items() if key != "question")
        for example in training_examples(name, source)
    )
    write_lines(path, ({"text": text} for text in texts))


def write_lines(path: Path, rows: Iterable[Mapping[str, str]]) -> None:
    """Write rows as JSON lines, atomically."""
    write_text_atomic(path, "".join(f"{json.dumps(dict(row))}\n" for row in rows))


def _fields(example: Example) -> dict[str, str]:
    match example:
        case TextExample():
            return dict(zip(_TEXTS, example.texts, strict=False))
        case SpanExample():
            return {"question": example.question, "context": example.context}
    raise DataError(
        f"{example.where}: a row of tags or choices has no text of its own\n"
        "  allowed: data sets of sentences, pairs and questions"
    )
