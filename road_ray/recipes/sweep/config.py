"""A file of `search_spaces/` as a configuration: what a trial runs, over which keys, judged how."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_validator

from road_ray.config import Config, flatten
from road_ray.distributed.tune.config import SearchConfig
from road_ray.errors import ConfigError, nearest
from road_ray.training.checkpoint.remote_copy import check_address

SHIPPED = Path(__file__).parents[2] / "search_spaces"
Runnable = Literal["pretrain", "multitask", "finetune", "teachers", "distill"]


class StageConfig(Config):
    """One run of a verb."""

    verb: Runnable
    preset: str | None = None
    overrides: dict[str, Any] = Field(default_factory=dict)
    """By dotted key."""

    @field_validator("overrides", mode="before")
    @classmethod
    def _dotted_overrides(cls, value: Any) -> Any:
        return flatten(value, keep_empty=True) if isinstance(value, Mapping) else value


class SweepTrackingConfig(Config):
    """Where the figures of all trials go besides their run directories."""

    wandb_project: str | None = None
    """One group of that project; needs road-ray[wandb]."""
    wandb_mode: Literal["online", "offline"] = "offline"
    mlflow_uri: Annotated[str, AfterValidator(check_address)] | None = None
    """One experiment there, named after the sweep."""
    tensorboard: bool = False
    """In every run directory; to look at: road-ray[tensorboard]."""


class SweepConfig(SearchConfig, StageConfig):
    """A sweep: the verb with `overrides` and drawn values, judged by `metric` of its figures."""

    then: StageConfig | None = None
    """A second run from the first one's model, by which the trial is judged: pre-training is worth
    what fine-tuning makes of it.
    """
    seeds: int = Field(1, ge=1)
    """Runs of a trial that differ in their seed, one after the other. The mean is judged, the
    deviation kept; schedulers look at the first seed only, and only what survives has others.
    """
    keep: Literal["all", "best"] = "all"
    """Whose models and checkpoints stay: of all trials, or of the best only. Figures stay of all.
    """
    name: str = ""
    """Of study and W&B group; empty: the file's."""
    run_dir: Path | None = None
    """None: runs/sweeps/NAME."""
    address: str | None = None
    """Of a running Ray cluster; None: one of our own on this machine."""
    console: Literal["rich", "plain", "quiet"] | None = None
    tracking: SweepTrackingConfig = SweepTrackingConfig()

    @property
    def directory(self) -> Path:
        """Where the sweep lies: study, trials, results."""
        return self.run_dir or Path("runs/sweeps") / self.name

    @property
    def stages(self) -> tuple[StageConfig, ...]:
        """The runs of one seed of a trial, in order."""
        return (self,) if self.then is None else (self, self.then)


def shipped() -> dict[str, Path]:
    """The search spaces that come with road_ray, by name."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.yaml"))}


def locate(named: str | Path) -> Path:
    """The file of a search space: a path, or the name of a shipped one (`weighted_kd`,
    `search_spaces/weighted_kd.yaml`). Raises ``ConfigError`` naming the nearest.
    """
    path, known = Path(named).expanduser(), shipped()
    if path.is_file():
        return path
    away = path.parent not in (Path("."), Path("search_spaces"))
    if not away and path.stem in known:
        return known[path.stem]
    near = nearest(path.stem, known)
    hint = f"did you mean {near!r}?" if near else "name a YAML file or one of these"
    raise ConfigError(
        f"search space {str(named)!r}: no such file\n  allowed: a path, or {', '.join(known)}\n"
        f"  fix: {hint}"
    )
