"""Entry and task of a custom data set: a task of the catalogue, one that sets share, or a new one.

If an entry has no labels, the error lists those of its file.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from road_ray.data import catalog
from road_ray.data.examples import Example, TagExample, TextExample
from road_ray.data.readers.conll import UNTYPED
from road_ray.data.readers.custom_dataset import TOO_FEW_LABELS, CustomDataset
from road_ray.data.task_and_dataset import (
    Classify,
    Dataset,
    MultiLabel,
    Regress,
    Tag,
    Task,
    below_zero,
    listed_labels,
    plain_label,
)
from road_ray.errors import ConfigError, nearest, shorten

_MOST_LABELS = 200  # more different values are numbers, ids or texts


def custom_entry(name: str, sets: Mapping[str, CustomDataset]) -> tuple[Dataset, Task]:
    """Return the entry of the custom data set ``name`` and its task, whose labels may be empty.

    Sets with one ``task`` share its head. Labels are matched by name, in the order of the
    catalogue, or of the first set that has labels: ``label_map`` of the entry also maps the set's
    spelling of its labels to that of the task. Raises ``ConfigError`` for sets that do not fit
    together.
    """
    custom = sets[name]
    shared = custom.task_name(name)
    peers = {other: peer for other, peer in sets.items() if peer.task_name(other) == shared}
    if shared in catalog.TASKS:
        task = catalog.TASKS[shared]
        _check_fit(name, custom, task, f"task {shared}")
    else:
        if len(peers) == 1 and custom.task is not None and nearest(shared, catalog.TASKS, 0.8):
            catalog.task(shared)  # raises, with the nearest name
        first = next((other for other, peer in peers.items() if peer.labels), next(iter(peers)))
        task = peers[first].new_task(shared)
        if first != name:
            _check_fit(name, custom, task, f"data.sets.{first} of the same task {shared}")
    kind, dataset = task.kind, custom.dataset(name)
    if isinstance(kind, Regress):
        return replace(dataset, negative_labels=kind.low < 0), task
    if not isinstance(kind, Classify | MultiLabel):
        return dataset, task
    known = (*kind.labels, *custom.labels, *custom.label_map)
    names = {plain_label(label): label for label in kind.labels}
    own = {label: names[plain_label(label)] for label in custom.labels}
    others = {label: name for label, name in own.items() if label != name}
    mapped = {v: names.get(plain_label(label), label) for v, label in custom.label_map.items()}
    negative = any(map(below_zero, known))
    return replace(dataset, negative_labels=negative, label_map={**others, **mapped}), task


def _check_fit(name: str, custom: CustomDataset, task: Task, other: str) -> None:
    """Raise ``ConfigError`` unless a data set has the kind, the head and the labels of a task."""
    custom_kind, kind = custom.new_task(task.name).kind, task.kind
    if not isinstance(kind, type(custom_kind)):
        problem = f"kind is {custom.kind}, {other} is of kind {type(kind).__name__}"
        remedy = "fix: set kind, or name another task"
    elif custom.head != task.head:
        problem = f"head is {custom.head}, that of {other} is {task.head}"
        remedy = "fix: give both the same, or name another task"
    elif isinstance(kind, Classify | MultiLabel | Tag):
        plain = str if isinstance(kind, Tag) else plain_label  # tags are read as they are
        named = set(map(plain, custom.labels)) or set(map(plain, custom.label_map.values()))
        known = set(map(plain, kind.labels))
        if named == known or (not custom.labels and named <= known):
            return
        problem = f"labels {sorted(named)}, those of {other} are {list(kind.labels)}"
        remedy = "allowed: the same labels, in any order; label_map maps values of the file to them"
    elif task.name in catalog.TASKS or custom_kind == kind:
        return
    else:
        problem = f"{custom_kind}, {other} has {kind}"
        remedy = "allowed: the same, for one head"
    raise ConfigError(f"data.sets.{name}: {problem}\n  {remedy}")


def labels_missing(
    dataset: Dataset, kind: str, read: Callable[[Dataset, str], Sequence[Example]]
) -> ConfigError:
    """Return the error of a data set without labels, with those of its file ready to paste."""
    split = next(s for s in ("train", "dev", "test") if getattr(dataset.splits, s))
    problem = f"data.sets.{dataset.name}: labels are not given"
    counts = label_counts(read(replace(dataset, dev_fraction=None), split), kind)
    where = f"{getattr(dataset.splits, split)} has"
    if not 2 <= len(counts) <= _MOST_LABELS:
        few = ", ".join(map(repr, list(counts)[:3]))
        return ConfigError(
            f"{problem}: {TOO_FEW_LABELS}\n  {where} {len(counts):,} different values in column "
            f"{dataset.columns.label!r}: {few}\n  fix: name the column of the label"
        )
    listed = ", ".join(f"{label} ({count:,})" for label, count in counts.most_common())
    labels = tag_labels(counts) if kind == "tag" else list(counts)
    return ConfigError(
        f"{problem}\n  {where}: {shorten(listed, 300)}\n  fix: below data.sets.{dataset.name} write"
        f"\n    labels: {json.dumps(labels, ensure_ascii=False)}"
    )


def label_counts(examples: Sequence[Example], kind: str = "classify") -> Counter[str]:
    """Return how often each label occurs, sorted by label; numbers by value."""
    counts: Counter[str] = Counter()
    for example in examples:
        if isinstance(example, TextExample) and example.label is not None:
            label, several = example.label, kind == "multi"
            counts.update(listed_labels(label, example.where) if several else [label])
        elif isinstance(example, TagExample):
            counts.update(example.tags or ())
    return Counter({label: counts[label] for label in sorted_labels(counts)})


def sorted_labels(labels: Iterable[str]) -> list[str]:
    """Return the labels sorted: numbers by value, then texts."""

    def key(label: str) -> tuple[bool, float, str]:
        try:
            return False, float(label), label
        except ValueError:
            return True, 0.0, label

    return sorted(labels, key=key)


def tag_labels(tags: Iterable[str]) -> list[str]:
    """Return the labels of an IOB2 scheme with the entity types of these tags."""
    types = sorted({tag[2:] or UNTYPED for tag in tags if tag != "O"})
    return ["O", *(f"{mark}-{kind}" for kind in types for mark in "BI")]
