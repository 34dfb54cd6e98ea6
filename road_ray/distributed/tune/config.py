"""Configuration of a search: what is searched, how, and by which figures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from road_ray.config import Config, flatten
from road_ray.errors import nearest
from road_ray.training.monitoring.database_url import check_database

Sampler = Literal["tpe", "gp", "nsga2", "random", "grid"]


Scheduler = Literal["asha", "hyperband", "median", "pbt", "none"]


Mode = Literal["max", "min"]


_Whole = int  # the name `int` is a key of Range


class Range(Config):
    """The values one key may take: exactly one of the kinds below."""

    uniform: tuple[float, float] | None = None
    """[low, high]."""
    loguniform: tuple[float, float] | None = None
    """[low, high], low > 0."""
    int: tuple[_Whole, _Whole] | None = None
    """[low, high], both included."""
    logint: tuple[_Whole, _Whole] | None = None
    choice: tuple[Any, ...] | None = Field(None, min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _known(cls, value: Any) -> Any:
        odd = (
            [kind for kind in value if kind not in cls.model_fields]
            if isinstance(value, Mapping)
            else []
        )
        if odd:
            near = nearest(str(odd[0]), cls.model_fields, 0.7)
            raise ValueError(
                f"{odd[0]} is no kind of range{f', did you mean {near}?' if near else ''}; "
                f"allowed: exactly one of {', '.join(cls.model_fields)}"
            )
        return value

    @model_validator(mode="after")
    def _sensible(self) -> Range:
        given = [kind for kind in type(self).model_fields if getattr(self, kind) is not None]
        if len(given) != 1:
            raise ValueError(
                f"{' and '.join(given) or 'no kind'} given; allowed: exactly one of "
                + ", ".join(type(self).model_fields)
            )
        if self.kind != "choice":
            low, high = self.bounds
            if not low < high:
                raise ValueError(
                    f"{self.kind} [{low:g}, {high:g}] is empty; allowed: [low, high], low < high"
                )
            if self.kind.startswith("log") and low <= 0:
                raise ValueError(
                    f"{self.kind} [{low:g}, {high:g}] touches 0, which a logarithm cannot; "
                    "allowed: low > 0"
                )
        return self

    @property
    def kind(self) -> str:
        """Which of the kinds it is."""
        return next(k for k in type(self).model_fields if getattr(self, k) is not None)

    @property
    def bounds(self) -> tuple[float, float]:
        """Both ends of a range of numbers."""
        low, high = getattr(self, self.kind)
        return low, high

    @property
    def edges(self) -> tuple[Any, ...]:
        """Both ends, or every choice: what must be allowed for all draws to be."""
        return self.choice if self.choice is not None else self.bounds


class SearchConfig(Config):
    """How values are drawn, judged and stopped, and how much may be spent."""

    metric: tuple[str, ...] = Field(min_length=1)
    """Several: a Pareto front (sampler nsga2)."""
    mode: tuple[Mode, ...] = ("max",)
    """Of each metric."""
    trials: int = Field(16, ge=1)
    budget_hours: float | None = Field(None, gt=0)
    """Then no new trial begins, those begun end."""
    budget_teacher_seconds: float | None = Field(None, gt=0)
    """Seconds of trials times teachers."""
    sampler: Sampler = "tpe"
    scheduler: Scheduler = "asha"
    grace_percent: float = Field(100 / 9, gt=0, lt=100)
    """ASHA compares at this share of a trial's steps, and at `reduction` times as many again;
    hyperband lets some trials pass the first of these, and some all; median waits so long before it
    acts; pbt looks each time after so much, and `trials` is the size of its population.
    """
    reduction: float = Field(3.0, gt=1)
    seed: int = Field(0, ge=0)
    """Of the sampler."""
    max_concurrent: int | None = Field(None, ge=1)
    """None: as many as the cluster has room for."""
    cpus_per_trial: float = Field(1.0, gt=0)
    gpus_per_trial: float = Field(0.0, ge=0)
    """A fraction shares a device."""
    trial_timeout_seconds: float | None = Field(None, gt=0)
    """Since its last (re)start."""
    storage: Annotated[str, AfterValidator(check_database)] | None = None
    """An RDB's URL, its password in $ROAD_SWEEP_PASSWORD; None: study.journal beside the trials."""
    space: dict[str, Range] = Field(min_length=1)
    """By dotted key of the verb's configuration."""
    points: tuple[dict[str, Any], ...] = ()
    """Tried first; a key left out is drawn."""
    warm_from: tuple[Path, ...] = ()
    """Earlier sweeps of the same space: their trials count here."""

    @field_validator("metric", "mode", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @field_validator("space", mode="before")
    @classmethod
    def _dotted(cls, value: Any) -> Any:
        return dict(_ranges(value)) if isinstance(value, Mapping) else value

    @field_validator("points", mode="before")
    @classmethod
    def _dotted_points(cls, value: Any) -> Any:
        many = value if isinstance(value, list | tuple) else []
        return [flatten(p, keep_empty=True) if isinstance(p, Mapping) else p for p in many] or value

    @model_validator(mode="after")
    def _fitting(self) -> SearchConfig:
        if len(self.metric) != len(self.mode):
            raise ValueError(
                f"metric names {len(self.metric)} figures, mode {len(self.mode)}; "
                "allowed: a mode for each"
            )
        if len(self.metric) > 1:
            if self.scheduler != "none":
                raise ValueError(
                    f"scheduler = {self.scheduler} stops trials by one figure, metric names "
                    f"{len(self.metric)}; allowed: scheduler: none"
                )
            if self.sampler not in ("nsga2", "tpe", "random"):
                raise ValueError(
                    f"sampler = {self.sampler} cannot weigh several metrics; "
                    "allowed: nsga2, tpe, random"
                )
        if self.scheduler == "pbt" and self.sampler != "random":
            raise ValueError(
                "scheduler = pbt changes the values of trials itself, and sampler = "
                f"{self.sampler} would not learn from those; allowed: sampler: random"
            )
        if self.sampler == "grid" and any(r.kind in _ENDLESS for r in self.space.values()):
            raise ValueError("sampler = grid needs whole numbers or choices for every key")
        for point in self.points:
            if odd := set(point) - set(self.space):
                raise ValueError(
                    f"points: {', '.join(sorted(odd))} of {point} is no key of the space: "
                    + ", ".join(self.space)
                )
        return self


_ENDLESS = ("uniform", "loguniform", "logint")


def _ranges(tree: Mapping[str, Any], above: str = "") -> list[tuple[str, Any]]:
    """Ranges by dotted key; what an override nested (``space.optimizer.peak_lr=...``) is joined."""
    found: list[tuple[str, Any]] = []
    for name, below in tree.items():
        key = f"{above}{name}"
        is_range = not isinstance(below, Mapping) or set(below) & set(Range.model_fields)
        nested = isinstance(below, Mapping) and all(isinstance(v, Mapping) for v in below.values())
        if is_range or not nested or not below:
            found.append((key, below))
        else:
            found += _ranges(below, f"{key}.")
    return found
