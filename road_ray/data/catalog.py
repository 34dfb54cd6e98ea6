"""The catalogue of tasks and data sets, with look-up by name. To add one, add an entry to
``catalog.yaml``.
"""

from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from ruamel.yaml import YAML

from road_ray.data.task_and_dataset import KINDS, Dataset, Task
from road_ray.errors import ConfigError, did_you_mean

_GROUPS: dict[str, dict[str, Any]] = YAML(typ="safe").load(Path(__file__).with_suffix(".yaml"))
TASKS = {
    name: Task(name, TypeAdapter(KINDS[keys.pop("kind", "classify")]).validate_python(keys))
    for name, keys in _GROUPS.pop("tasks").items()
}
_ENTRY = TypeAdapter(Dataset)


def _entry(name: str, keys: dict[str, Any], *, sets: object, **group: Any) -> Dataset:
    """Return the data set of an entry's keys and those of its group."""
    hub = group.get("hub", {}) | keys.get("hub", {})
    return _ENTRY.validate_python({"name": name, **group, **keys, "hub": hub or None})


DATASETS: dict[str, Dataset] = {
    name: _entry(name, keys, **group)
    for group in _GROUPS.values()
    for name, keys in group["sets"].items()
}


def dataset(name: str) -> Dataset:
    """Return the data set ``name``. Raises ``ConfigError`` with the nearest name."""
    if name not in DATASETS:
        raise ConfigError(
            f"{_unknown('data set', name, DATASETS)}\n"
            "  fix: define it under data.sets, or choose a name of `road data list`"
        )
    return DATASETS[name]


def task(name: str) -> Task:
    """Return the task of that name, or of the data set of that name."""
    if name in TASKS:
        return TASKS[name]
    if name in DATASETS:
        return TASKS[DATASETS[name].task]
    raise ConfigError(_unknown("task", name, [*TASKS, *DATASETS]))


def _unknown(kind: str, name: str, known: object) -> str:
    names = sorted(known)  # type: ignore[call-overload]
    hint = did_you_mean(name, names)
    return f"unknown {kind} {name!r}{hint}\n  known: {', '.join(names)}"
