"""Alignment of a stored head's labels with a task's, by name: their order is arbitrary."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from road_ray.data.schema import Classify, Tag, Task, plain_label
from road_ray.errors import CheckpointError


def label_order(
    where: str | Path,
    id2label: Mapping[int, str],
    task: Task,
    label_map: Mapping[str, str] | None = None,
    key: str = "label_map",
) -> tuple[int, ...] | None:
    """Return the index in the head of each of the task's labels; None if the order is the same or
    the task has no labels.

    ``aligned[..., i] = logits[..., order[i]]``. ``label_map`` maps the head's names to the task's.
    Case, surrounding spaces, and spaces or hyphens for underscores are ignored unless two names
    differ in nothing else. Raises ``CheckpointError`` for names that are not the task's, such as
    ``LABEL_0``, because a guess could cost accuracy silently. The message begins with ``where``;
    ``key`` is the configuration key of the map.
    """
    if not isinstance(task.kind, Classify | Tag):
        return None
    renamed = {str(theirs).strip(): ours for theirs, ours in (label_map or {}).items()}
    there = [str(id2label[index]) for index in sorted(id2label)]
    names = [renamed.get(name.strip(), name) for name in there]
    wanted = list(task.kind.labels)
    if sorted(names) != sorted(wanted):
        names, wanted = list(map(plain_label, names)), list(map(plain_label, wanted))
    if sorted(names) != sorted(wanted) or len(set(wanted)) < len(wanted):
        raise CheckpointError(
            f"{where}: the labels of its head {there} are not those of task {task.name!r}\n"
            f"  allowed: {list(task.kind.labels)} in any order\n"
            f"{_remedy(there, task.kind.labels, key)}"
        )
    order = tuple(map(names.index, wanted))
    return None if order == tuple(range(len(order))) else order


def _remedy(there: list[str], labels: tuple[str, ...], key: str) -> str:
    if len(there) != len(labels) or len(set(there)) < len(there):
        return "  fix: name a model that was trained on this task"
    written = ", ".join(
        f"{theirs.strip()}: {ours}" for theirs, ours in zip(there, labels, strict=True)
    )
    return (
        "  fix: say by a label_map which of its labels is which of the task's; if they stand in "
        f"this order:\n    {key}='{{{written}}}'"
    )
