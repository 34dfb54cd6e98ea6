"""Task of a custom data set: one of the catalogue, one that custom sets share, or a new one.

If an entry has no labels, the error lists those of its file.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from road_ray.data import catalog
from road_ray.data.features.examples_and_features import Example, TagExample, TextExample
from road_ray.data.readers.conll import UNTYPED
from road_ray.data.readers.custom_dataset import TOO_FEW_LABELS, CustomDataset
from road_ray.data.task_and_dataset import Classify, Dataset, Tag, Task, below_zero, plain_label
from road_ray.errors import ConfigError, DataError, nearest, shorten

_MOST_LABELS = 200  # more different values are numbers, ids or texts


def custom_task(name: str, sets: Mapping[str, CustomDataset]) -> Task:
    """Return the task of the custom data set ``name``; its labels may be empty.

    Sets with one ``task`` share its head. Labels are matched by name, in the order of the
    catalogue, or of the first set that has labels. Raises ``ConfigError`` for sets that do not fit
    together.
    """
    custom = sets[name]
    shared = custom.task_name(name)
    if shared in catalog.TASKS:
        task = catalog.TASKS[shared]
        _check_fit(name, custom, task, f"task {shared}")
        return task
    peers = {other: peer for other, peer in sets.items() if peer.task_name(other) == shared}
    if len(peers) == 1 and custom.task is not None and nearest(shared, catalog.TASKS, 0.8):
        catalog.task(shared)  # raises, with the nearest name
    first = next((other for other, peer in peers.items() if peer.labels), next(iter(peers)))
    task = peers[first].new_task(shared)
    if first != name:
        _check_fit(name, custom, task, f"data.sets.{first} of the same task {shared}")
    return task


def _check_fit(name: str, custom: CustomDataset, task: Task, other: str) -> None:
    """Raise ``ConfigError`` unless a data set has the kind and the labels of a task."""
    custom_kind, kind = custom.new_task(task.name).kind, task.kind
    if not isinstance(kind, type(custom_kind)):
        raise ConfigError(
            f"data.sets.{name}: kind is {custom.kind}, {other} is of kind {type(kind).__name__}\n"
            "  fix: set kind, or name another task"
        )
    if isinstance(custom_kind, Classify | Tag) and isinstance(kind, Classify | Tag):
        plain = plain_label if isinstance(kind, Classify) else str  # tags are read as they are
        labels = sorted(map(plain, kind.labels))
        if custom.labels and sorted(map(plain, custom.labels)) != labels:
            remedy = ", or map the values of the file by label_map" * isinstance(kind, Classify)
            raise ConfigError(
                f"data.sets.{name}: labels = {list(custom.labels)}, those of {other} are "
                f"{list(kind.labels)}\n  allowed: the same labels, in any order\n"
                f"  fix: correct them{remedy}"
            )
        if unknown := sorted(set(custom.label_map.values()) - {*kind.labels, *custom.labels}):
            raise ConfigError(
                f"data.sets.{name}: label_map names {', '.join(map(repr, unknown))}, labels of "
                f"{other} are {list(kind.labels)}"
            )
    elif task.name not in catalog.TASKS and custom_kind != kind:
        raise ConfigError(
            f"data.sets.{name}: {custom_kind}, {other} has {kind}\n"
            "  allowed: the same, for one head"
        )


def with_labels_of(task: Task, custom: CustomDataset, dataset: Dataset) -> Dataset:
    """Return the entry of a custom data set whose ``label_map`` also maps the set's spelling of its
    labels to that of the task, and whose test labels may be below 0 if one of the task is.
    """
    if not isinstance(task.kind, Classify):
        return dataset
    known = (*task.kind.labels, *custom.labels, *custom.label_map)
    dataset = replace(dataset, negative_labels=any(map(below_zero, known)))
    if not custom.labels:
        return dataset
    names = {plain_label(label): label for label in task.kind.labels}
    spellings = {label: names[plain_label(label)] for label in custom.labels}
    label_map = {value: spellings[label] for value, label in custom.label_map.items()}
    others = {own: label for own, label in spellings.items() if own != label}
    return replace(dataset, label_map={**others, **label_map})


def labels_missing(
    dataset: Dataset, kind: str, read: Callable[[Dataset, str], Sequence[Example]]
) -> ConfigError:
    """Return the error of a data set without labels, with those of its file ready to paste."""
    split = next(s for s in ("train", "dev", "test") if getattr(dataset.splits, s))
    problem = f"data.sets.{dataset.name}: labels are not given"
    try:
        examples = read(replace(dataset, dev_fraction=None), split)
    except DataError as error:
        reason = str(error).splitlines()[0]
        return ConfigError(f"{problem}: {TOO_FEW_LABELS}\n  they cannot be listed: {reason}")
    counts = label_counts(examples)
    where = f"{getattr(dataset.splits, split)} has"
    if len(counts) > _MOST_LABELS:
        few = ", ".join(map(repr, list(counts)[:3]))
        return ConfigError(
            f"{problem}; {where} {len(counts):,} different values in column "
            f"{dataset.columns.label!r}: {few}, ...\n  fix: for numbers kind: regress; or name "
            "another column as label"
        )
    if len(counts) < 2:
        return ConfigError(
            f"{problem}: {TOO_FEW_LABELS}\n  {where} {len(counts)} in column "
            f"{dataset.columns.label!r}: {', '.join(counts)}\n  fix: name the column of the label"
        )
    listed = ", ".join(f"{label} ({count:,})" for label, count in counts.most_common())
    labels = list(counts) if kind == "classify" else tag_labels(counts)
    return ConfigError(
        f"{problem}\n  {where}: {shorten(listed, 300)}\n"
        f"  fix: below data.sets.{dataset.name} write\n    labels: {flow_list(labels)}"
    )


def label_counts(examples: Sequence[Example]) -> Counter[str]:
    """Return how often each label occurs, sorted by label; numbers by value."""
    counts: Counter[str] = Counter()
    for example in examples:
        if isinstance(example, TextExample) and example.label is not None:
            counts[example.label] += 1
        elif isinstance(example, TagExample):
            counts.update(example.tags or ())
    return Counter({label: counts[label] for label in sorted_labels(counts)})


def sorted_labels(labels: Iterable[str]) -> list[str]:
    """Return the labels sorted: numbers by value, then texts."""
    return sorted(labels, key=_label_key)


def tag_labels(tags: Sequence[str] | Counter[str]) -> list[str]:
    """Return the labels of an IOB2 scheme with the entity types of these tags."""
    types = sorted({tag[2:] or UNTYPED for tag in tags if tag != "O"})
    return ["O", *(f"{mark}-{kind}" for kind in types for mark in "BI")]


def flow_list(labels: Sequence[str]) -> str:
    """Return the labels as a YAML list on one line, all of them text."""
    return json.dumps(list(labels), ensure_ascii=False)


def _label_key(label: str) -> tuple[bool, float, str]:
    try:
        return False, float(label), label
    except ValueError:
        return True, 0.0, label
