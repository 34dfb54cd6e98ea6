"""Alignment of a stored head's labels with a task's, by name: their order is arbitrary."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from road_ray.data.schema import Classify, Tag, Task, plain_label
from road_ray.errors import CheckpointError

LabelMap: TypeAlias = Mapping[str, str | Mapping[str, str]]
"""Names of a head's labels mapped to those of a task, for all models or by model: a directory
mapped to the names of its head."""


def names_for(label_map: LabelMap | None, directory: Path) -> dict[str, str]:
    """Return the names that a map has for one model: those for all, and its own instead of them."""
    shared = {key: name for key, name in (label_map or {}).items() if isinstance(name, str)}
    for place, own in (label_map or {}).items():
        named = [Path(place).expanduser(), Path(place).expanduser() / "hf"]
        if not isinstance(own, str) and directory.resolve() in [one.resolve() for one in named]:
            return shared | dict(own)
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
    if not isinstance(task.kind, Classify | Tag):
        return None
    named = names_for(label_map, directory)
    renamed = {theirs.strip(): ours for theirs, ours in named.items()}
    there = [str(id2label[index]) for index in sorted(id2label)]
    names = [renamed.get(name.strip(), name) for name in there]
    wanted = list(task.kind.labels)
    if sorted(names) != sorted(wanted):
        names, wanted = list(map(plain_label, names)), list(map(plain_label, wanted))
    if sorted(names) != sorted(wanted) or len(set(wanted)) < len(wanted):
        raise CheckpointError(
            f"{directory / 'config.json'}: the labels of its head {there} are not those of task "
            f"{task.name!r}\n"
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
