"""Alignment of a stored head's labels with a task's, by name: their order is arbitrary."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from road_ray.data.task_and_dataset import Classify, MultiLabel, Tag, Task, plain_label
from road_ray.errors import CheckpointError
from road_ray.models.load_weights import ADAPTER, merge_adapter

LabelMap: TypeAlias = Mapping[str, str | Mapping[str, str]]
"""Names of a head's labels mapped to those of a task, for all models or by model: a directory or a
name of the hub mapped to the names of its head."""


def names_for(label_map: LabelMap | None, directory: Path) -> dict[str, str]:
    """Return the names of a map for one model: names given for it override names for all models."""
    shared = {key: name for key, name in (label_map or {}).items() if isinstance(name, str)}
    for place, names in (label_map or {}).items():
        if isinstance(names, str):
            continue
        path = Path(place).expanduser()
        # The directory of the model, or of its run; the files of a model of the hub are in
        # models--OWNER--NAME/snapshots/REVISION.
        places = [path.resolve(), (path / "hf").resolve()]
        if (path / ADAPTER).is_file():
            places.append(merge_adapter(path.resolve()))
        repository = directory.resolve().parent.parent.name
        if directory.resolve() in places or repository == f"models--{place.replace('/', '--')}":
            return shared | dict(names)
    return shared


def label_order(
    directory: Path,
    id2label: Mapping[int, str],
    task: Task,
    label_map: LabelMap | None = None,
    key: str = "label_map",
) -> tuple[int, ...] | None:
    """Return the index in the head of each of the task's labels; None if the order is the same or
    the task has no labels.

    ``aligned[..., i] = logits[..., order[i]]``. ``label_map`` maps the head's names to the task's.
    Case, surrounding spaces, and spaces or hyphens for underscores are ignored unless two names
    differ in nothing else. Raises ``CheckpointError`` for names that are not the task's, such as
    ``LABEL_0``, because a guess could cost accuracy silently. ``key`` is the
    configuration key of the map.
    """
    if not isinstance(task.kind, Classify | MultiLabel | Tag):
        return None
    label_names = names_for(label_map, directory)
    renamed = {head_label.strip(): label for head_label, label in label_names.items()}
    head_labels = [str(id2label[index]) for index in sorted(id2label)]
    names = [renamed.get(name.strip(), name) for name in head_labels]
    labels = list(task.kind.labels)
    if sorted(names) != sorted(labels):
        names, labels = list(map(plain_label, names)), list(map(plain_label, labels))
    if sorted(names) != sorted(labels) or len(set(labels)) < len(labels):
        where = f"{directory}: its labels"  # of a file of answers
        if not directory.is_file():
            where = f"{directory / 'config.json'}: the labels of its head"
        raise CheckpointError(
            f"{where} {head_labels} are not those of task {task.name!r}\n"
            f"  allowed: {list(task.kind.labels)} in any order\n"
            f"{_remedy(head_labels, task.kind.labels, key)}"
        )
    order = tuple(map(names.index, labels))
    return None if order == tuple(range(len(order))) else order


def _remedy(head_labels: list[str], labels: tuple[str, ...], key: str) -> str:
    if len(head_labels) != len(labels) or len(set(head_labels)) < len(head_labels):
        return "  fix: name a model that was trained on this task"
    written = ", ".join(
        f"{head_label.strip()}: {label}"
        for head_label, label in zip(head_labels, labels, strict=True)
    )
    return (
        "  fix: map its labels to those of the task by a label_map; if they are in this order:\n"
        f"    {key}='{{{written}}}'"
    )
