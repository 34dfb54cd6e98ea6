"""The shape that reports expect of the JSON objects of a run: whatever is of another kind there is
left out, and named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

# By file, then by key: a class, or a list with the class of its items. A missing key is no misfit.
Shape = Mapping[str, Any]
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


def misfits(value: Mapping[str, Any], shape: Shape) -> list[str]:
    """The keys whose values are of another kind than ``shape`` says; null is of every kind."""
    return [key for key in shape if not _fits(value.get(key), shape[key])]


def fitted(value: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
    """``value`` without its misfits."""
    odd = set(misfits(value, shape))
    return {key: item for key, item in value.items() if key not in odd}


def model_facts(told: Mapping[str, Any]) -> dict[str, Any]:
    """What a model says of itself (``road_ray.json``), without misfits at any depth."""
    facts = fitted(told, MODEL)
    if facts.get("corpus"):
        facts["corpus"] = fitted(facts["corpus"], CORPUS)
    if facts.get("teachers"):
        named = {"directory": str, "weights_sha256": str}
        facts["teachers"] = [fitted(teacher, named) for teacher in facts["teachers"]]
    return facts


def numbers(figures: Mapping[str, Any]) -> dict[str, Any]:
    """The figures that are numbers, or null."""
    return {name: v for name, v in figures.items() if v is None or isinstance(v, int | float)}


def rows_of(rows: list[Any]) -> Iterator[dict[str, Any]]:
    """The objects among the rows of a journal that have a step, a whole number."""
    for row in rows:
        if isinstance(row, dict) and isinstance(row.get("step"), int):
            yield row


def _fits(value: Any, kind: Any) -> bool:
    if value is None:
        return True
    if isinstance(kind, list):
        return isinstance(value, list) and all(isinstance(item, kind[0]) for item in value)
    return isinstance(value, kind) and not (kind is int and isinstance(value, bool))
