"""The labels of a stored head, found by name: their order is whatever its training made it."""

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
    """Where a head keeps each of the task's labels; None when the order is the same, or the task
    has no labels.

    ``aligned[..., i] = logits[..., order[i]]``. ``label_map`` maps the head's names to ours; case,
    surrounding spaces, and spaces or hyphens for underscores make no difference unless two names
    differ in nothing else. Raises ``CheckpointError`` for names that are not the task's, such as
    ``LABEL_0``: guessing costs accuracy silently. The message begins with ``where``; ``key`` is
    where a user writes the map.
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
