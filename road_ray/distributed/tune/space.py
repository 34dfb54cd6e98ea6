"""Search space: values of a choice in a study and back, grids.

It does not depend on recipes; ``road_ray.recipes.sweep`` defines what a trial runs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from road_ray.distributed.tune.search_config import Range, _Whole


def encode_choice(value: object) -> Any:
    """Return a value of a choice as Optuna stores it: lists and mappings as JSON."""
    if value is None or isinstance(value, bool | float | _Whole | str):
        return value
    return json.dumps(value, sort_keys=True)


def decode_params(space: Mapping[str, Range], params: Mapping[str, object]) -> dict[str, Any]:
    """Return the values that the parameters of a study stand for, by dotted key."""
    changes = {}
    for key, value in params.items():
        choices = space[key].choice or ()
        original = [choice for choice in choices if _same(encode_choice(choice), value)]
        changes[key] = original[0] if original else value
    return changes


def _same(value: object, other: object) -> bool:
    return value == other and isinstance(value, bool) == isinstance(other, bool)


def grid_of(scope: Range) -> list[Any]:
    """Return every value of a choice or an integer range, as Optuna stores them."""
    if scope.choice is not None:
        return [encode_choice(choice) for choice in scope.choice]
    low, high = scope.bounds
    return list(range(int(low), int(high) + 1))
