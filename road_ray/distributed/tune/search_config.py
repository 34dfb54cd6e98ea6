"""Configuration of a search: its space, sampler, scheduler, budgets and resources.

``SearchConfig`` is the part of a sweep that knows nothing of verbs. ``distributed/tune/study.py``
makes the Optuna study of it and stops its trials early, ``driver.py`` runs them.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from road_ray.config import Config, flatten
from road_ray.config.base import Free

Sampler = Literal["tpe", "gp", "nsga2", "random", "grid"]
Scheduler = Literal["asha", "hyperband", "median", "none"]
Mode = Literal["max", "min"]
_Whole = int  # the name `int` is a key of Range
_PLAIN = bool | int | float | str | None  # of choices that Optuna stores as they are


def _several(value: object) -> Any:
    return (value,) if isinstance(value, str) else value


class Range(Config):
    """Values that one key may take: exactly one of the kinds below."""

    uniform: tuple[float, float] | None = None
    """Real numbers [low, high], uniformly distributed."""
    loguniform: tuple[float, float] | None = None
    """Real numbers [low, high] whose logarithm is uniformly distributed; low is above 0. Use it for
    learning rates."""
    int: tuple[_Whole, _Whole] | None = None
    """Whole numbers [low, high], both included."""
    choice: tuple[Any, ...] | None = Field(None, min_length=1)
    """List of values to choose from: numbers, text, booleans, null or lists."""

    @model_validator(mode="after")
    def _sensible(self) -> Range:
        kinds = [kind for kind in type(self).model_fields if getattr(self, kind) is not None]
        if len(kinds) != 1:
            raise ValueError(
                f"{' and '.join(kinds) or 'no kind'} given; allowed: exactly one of "
                + ", ".join(type(self).model_fields)
            )
        if self.kind != "choice":
            low, high = self.bounds
            if not low < high:
                raise ValueError(
                    f"{self.kind} [{low:g}, {high:g}] is empty; allowed: [low, high], low < high"
                )
            if self.loguniform and low <= 0:
                raise ValueError(
                    f"loguniform [{low:g}, {high:g}] touches 0, which a logarithm cannot; "
                    "allowed: low > 0"
                )
        return self

    @property
    def kind(self) -> str:
        """Name of the kind that is given."""
        return next(k for k in type(self).model_fields if getattr(self, k) is not None)

    @property
    def bounds(self) -> tuple[float, float]:
        """Lowest and highest value of a range of numbers."""
        low, high = getattr(self, self.kind)
        return low, high

    def has(self, value: Any) -> bool:
        """Return True for a value that may be drawn."""
        if self.choice is not None:
            return value in self.choice
        kinds = (int,) if self.int else (int, float)
        return type(value) in kinds and self.bounds[0] <= value <= self.bounds[1]

    @property
    def edges(self) -> tuple[Any, ...]:
        """Values that make all draws valid if they are: choices, or both ends and a fraction."""
        if self.choice is not None:
            return self.choice
        low, high = self.bounds
        return (low, high) if self.int else (low, high, low + (high - low) / math.e)


class SearchConfig(Config):
    """Search for good values: space, objective, sampler, scheduler, budgets and resources of
    trials.
    """

    metric: Annotated[
        tuple[str, ...], BeforeValidator(_several, json_schema_input_type=str | tuple[str, ...])
    ] = Field(min_length=1)
    """Metric to optimize, such as ``eval/squad_v2/f1``, ``cost/seconds`` or ``cost/parameters``.
    Several metrics are optimized as a Pareto front, which needs ``scheduler`` = ``none`` and
    ``sampler`` = ``nsga2``, ``tpe`` or ``random``."""
    mode: Annotated[
        tuple[Mode, ...], BeforeValidator(_several, json_schema_input_type=Mode | tuple[Mode, ...])
    ] = ("max",)
    """Direction of the optimization of each ``metric``: ``max`` or ``min``."""
    trials: Free[int] = Field(16, ge=1)
    """Number of trials, those of earlier starts included. Our choice."""
    budget_hours: Free[float | None] = Field(None, gt=0)
    """Wall time after which no new trial starts, in hours; running trials finish. Trials of earlier
    starts count with their own time. None: no limit."""
    sampler: Free[Sampler] = "tpe"
    """Algorithm that draws values. ``tpe``: tree-structured Parzen estimator. ``gp``: Gaussian
    process. ``nsga2``: genetic, for several metrics. ``random``: independent draws. ``grid``: every
    combination, of choices and whole numbers only. All are Optuna's."""
    scheduler: Free[Scheduler] = "asha"
    """Algorithm that stops poor trials early. ``asha``: asynchronous successive halving.
    ``hyperband``: the same in several brackets. ``median``: stop trials below the median of the
    others. ``none``: no trial is stopped."""
    grace_percent: Free[float] = Field(100 / 9, gt=0, lt=100)
    """Percentage of a trial's steps before it can be stopped. ``asha`` and ``hyperband`` compare
    there and at each multiple by ``reduction``; ``median`` compares from there on. The
    default, 100 / 9, compares at 1/9 and 1/3 of the steps. Our choice."""
    reduction: Free[float] = Field(3.0, gt=1)
    """Reduction factor of ``asha`` and ``hyperband``: about one trial in this many continues
    after each comparison. Li et al. 2018 (Hyperband) suggest 3 or 4."""
    seed: Free[int] = Field(0, ge=0)
    """Random seed of the sampler. Trials get their own seeds from the verb's configuration and
    ``seeds``."""
    max_concurrent: Free[int | None] = Field(None, ge=1)
    """Number of trials that run at the same time. None: as many as the cluster has room for, the
    workers of each trial counted; one if trials start teachers of their own. Fewer let ``tpe``
    learn more from each trial. On a cluster that adds machines, set it for trials with workers."""
    cpus_per_trial: Free[float] = Field(1.0, gt=0)
    """Number of cores of each trial. Trials that start actors or workers request 0.1 cores; their
    actors and workers request the rest."""
    gpus_per_trial: Free[float] = Field(0.0, ge=0)
    """Number of GPUs of each trial. 0: CPU only. A fraction shares one device."""
    trial_timeout_seconds: Free[float | None] = Field(None, gt=0)
    """Time limit of a trial since its last start, in seconds; a trial that exceeds it is ended and
    counts as failed. None: no limit. Set it against trials that hang."""
    retry_failed: Free[bool] = False
    """Try the values of failed trials of earlier starts again, each in a new trial that takes the
    place of the failed one in ``trials``. False: failed trials stay as they are."""
    space: dict[str, Range] = Field(min_length=1)
    """Ranges by dotted key of the verb's configuration, such as ``{weighting.wrong: {uniform: [0,
    1]}}``."""
    points: Free[tuple[dict[str, Any], ...]] = ()
    """Values to try first, by dotted key; keys that a point leaves out are drawn. Empty: all values
    are drawn. Include the published values."""

    @field_validator("space", mode="before")
    @classmethod
    def _dotted(cls, value: object) -> Any:
        return dict(_ranges(value)) if isinstance(value, Mapping) else value

    @field_validator("points", mode="before")
    @classmethod
    def _dotted_points(cls, value: object) -> Any:
        many = value if isinstance(value, list | tuple) else []
        return [flatten(p, keep_empty=True) if isinstance(p, Mapping) else p for p in many] or value

    @model_validator(mode="after")
    def _fitting(self) -> SearchConfig:
        if len(self.metric) != len(self.mode):
            raise ValueError(
                f"metric names {len(self.metric)}, mode {len(self.mode)}; allowed: a mode for each"
            )
        if len(self.metric) > 1:
            if self.scheduler != "none":
                raise ValueError(
                    f"scheduler = {self.scheduler} stops trials by one metric, metric names "
                    f"{len(self.metric)}; allowed: scheduler: none"
                )
            if self.sampler not in ("nsga2", "tpe", "random"):
                raise ValueError(
                    f"sampler = {self.sampler} cannot weigh several metrics; "
                    "allowed: nsga2, tpe, random"
                )
        if self.sampler == "grid" and any(not (r.choice or r.int) for r in self.space.values()):
            raise ValueError("sampler = grid needs whole numbers or choices for every key")
        for point in self.points:
            for key, value in point.items():
                if (scope := self.space.get(key)) is None:
                    raise ValueError(f"points: {key} is no key of the space: {[*self.space]}")
                if not scope.has(value):
                    values = f"{scope.kind} {[*getattr(scope, scope.kind)]}"
                    raise ValueError(f"points: {key} = {value!r} is none of its values: {values}")
        return self

    @property
    def most_trials(self) -> int:
        """Number of trials; of a grid at most all its combinations and the points beside them."""
        return min(self.trials, len(self.first)) if self.sampler == "grid" else self.trials

    @cached_property
    def first(self) -> Mapping[str, Mapping[str, Any]]:
        """Points that are tried before any are drawn, each once, as Optuna stores them, by their
        identity: the given ones, then those of a grid in random order.
        """
        points = [{key: encode_choice(value) for key, value in p.items()} for p in self.points]
        if self.sampler == "grid":
            grid = [*product(*map(grid_of, self.space.values()))]
            random.Random(self.seed).shuffle(grid)
            points += [dict(zip(self.space, values, strict=True)) for values in grid]
        first: dict[str, Mapping[str, Any]] = {}
        for point in points:
            first.setdefault(identity(point), point)
        return first


@dataclass(frozen=True)
class StageDemand:
    """Processes that one stage of a trial starts beside the trial's own, which waits for them."""

    workers: int = 0
    gpus_per_worker: float = 0.0
    min_workers: int = 0  # that have to run at the same time
    teachers: bool = False  # in actors of this trial alone


def _ranges(tree: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield ranges by dotted key; keys that an override nested (``space.optimizer.peak_lr=...``)
    are joined.
    """
    for name, below in tree.items():
        is_range = not isinstance(below, Mapping) or set(below) & set(Range.model_fields)
        if is_range or not below or not all(isinstance(v, Mapping) for v in below.values()):
            yield f"{above}{name}", below
        else:
            yield from _ranges(below, f"{above}{name}.")


def encode_choice(value: object) -> Any:
    """Return a value of a choice as Optuna stores it: lists and mappings as JSON."""
    return value if isinstance(value, _PLAIN) else identity(value)


def decode_params(space: Mapping[str, Range], params: Mapping[str, object]) -> dict[str, Any]:
    """Return the values that the parameters of a study stand for, by dotted key."""
    changes = {}
    for key, value in params.items():
        choices = [choice for choice in space[key].choice or () if not isinstance(choice, _PLAIN)]
        changes[key] = {identity(choice): choice for choice in choices}.get(str(value), value)
    return changes


def grid_of(scope: Range) -> list[Any]:
    """Return every value of a choice or an integer range, as Optuna stores them."""
    if scope.choice is not None:
        return [encode_choice(choice) for choice in scope.choice]
    low, high = scope.bounds
    return list(range(int(low), int(high) + 1))


def identity(value: object) -> str:
    """Return a text that is equal for equal values; 1 is not True."""
    return json.dumps(value, sort_keys=True)
