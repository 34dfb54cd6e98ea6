"""Expected types in the JSON files of a run; a value of another type is left out and reported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

# By file and key: a type, or a list with the type of its items. Missing keys are allowed.
Shape = Mapping[str, type | list[type]]
ModelFacts = dict[str, Any]  # the content of road_ray.json
CONFIGURATION: Shape = dict.fromkeys(
    [
        *("data", "tracking", "optimizer", "training", "encoder", "generator", "mixing"),
        *("objective", "distillation", "weighting"),
    ],
    dict,
)
ENVIRONMENT: Shape = {"command": [str], "packages": dict, "devices": [str]}
EVENT: Shape = {"time": str, "kind": str}
MODEL: Shape = {
    **{"teachers": [dict], "datasets": [str], "metrics": dict, "corpus": dict, "files": dict},
    **dict.fromkeys(("task", "init", "objective", "weights_sha256"), str),
}
CORPUS: Shape = {"tokens": int, "source": str}


def misfits(value: Mapping[str, object], shape: Shape) -> list[str]:
    """Return the keys whose values do not have the type in ``shape``; null has every type."""
    return [key for key in shape if not _fits(value.get(key), shape[key])]


def fitted(value: Mapping[str, object], shape: Shape) -> dict[str, Any]:
    """Return ``value`` without its misfits."""
    excluded = set(misfits(value, shape))
    return {key: item for key, item in value.items() if key not in excluded}


def model_facts(record: Mapping[str, object]) -> ModelFacts:
    """Return the facts of a model (``road_ray.json``) without misfits at any depth."""
    facts = fitted(record, MODEL)
    if facts.get("corpus"):
        facts["corpus"] = fitted(facts["corpus"], CORPUS)
    if facts.get("teachers"):
        shape = {"directory": str, "weights_sha256": str}
        facts["teachers"] = [fitted(teacher, shape) for teacher in facts["teachers"]]
    return facts


def numbers(figures: Mapping[str, object]) -> dict[str, Any]:
    """Return the figures that are numbers or null."""
    return {name: v for name, v in figures.items() if v is None or isinstance(v, int | float)}


def rows_of(rows: list[object]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a journal that are objects with an integer ``step``."""
    for row in rows:
        if isinstance(row, dict) and isinstance(row.get("step"), int):
            yield row


def _fits(value: object, kind: type | list[type]) -> bool:
    if value is None:
        return True
    if isinstance(kind, list):
        return isinstance(value, list) and all(isinstance(item, kind[0]) for item in value)
    return isinstance(value, kind) and not (kind is int and isinstance(value, bool))
