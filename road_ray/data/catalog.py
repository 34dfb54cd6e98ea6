"""The catalogue of tasks and data sets, with look-up by name. To add one, add an entry to
``catalog.yaml``.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from road_ray.data.task_and_dataset import KINDS, Columns, Dataset, Hub, Task
from road_ray.errors import ConfigError, did_you_mean


def _task(name: str, kind: str = "classify", **values: Any) -> Task:
    fields: Any = {key: tuple(v) if isinstance(v, list) else v for key, v in values.items()}
    return Task(name, KINDS[kind](**fields))


def _dataset(name: str, keys: Mapping[str, Any]) -> Dataset:
    """Return the data set of an entry's keys and those of its group."""
    keys = {"text": (), "metrics": ("accuracy",), **keys}
    text, on_hub, only = tuple(keys["text"]), None, keys.get("only")
    if "hub_label" in keys:
        on_hub = Columns(tuple(keys.get("hub_text", text)), keys["hub_label"], keys.get("hub_id"))
    hub = keys.get("hub") and Hub(
        keys["hub"],
        keys.get("configuration"),
        only=only and tuple(only),
        splits=keys.get("hub_splits", {}),
        columns=on_hub,
    )
    files = {split: keys[split] for split in ("train", "dev", "test") if keys.get(split)}
    return Dataset(
        name,
        keys["task"],
        keys["layout"],
        keys["folder"],
        columns=Columns(text, keys.get("label"), keys.get("id")),
        splits={split: tuple(x) if isinstance(x, list) else x for split, x in files.items()},
        metrics=tuple(keys["metrics"]),
        hub=hub,
        label_map=keys.get("label_map", {}),
        test_columns=Columns(tuple(keys["test_text"]), id="index") if "test_text" in keys else None,
        also=tuple(keys.get("also", ())),
    )


_GROUPS: dict[str, dict[str, Any]] = YAML(typ="safe").load(Path(__file__).with_suffix(".yaml"))
TASKS = {name: _task(name, **keys) for name, keys in _GROUPS.pop("tasks").items()}
DATASETS: dict[str, Dataset] = {
    name: _dataset(name, group | keys)
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
