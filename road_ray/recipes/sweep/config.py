"""Configuration of ``road sweep``: a file of ``search_spaces/``.

``SweepConfig`` adds to a search (``distributed/tune/search_config.py``) the verb that a trial runs,
its seeds and the retention of models. ``recipes/sweep/trials.py`` validates it against the
verb's own configuration, ``sweep.py`` runs it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator

from road_ray.config import Config, flatten
from road_ray.config.base import Free
from road_ray.config.merge import locate_beside
from road_ray.distributed.tune.search_config import SearchConfig
from road_ray.errors import ConfigError, did_you_mean
from road_ray.recipes.config import TrackingConfig
from road_ray.verbs import VERBS

SHIPPED = Path(__file__).parents[2] / "search_spaces"
Runnable = Literal["pretrain", "multitask", "finetune", "teachers", "distill"]


class StageConfig(Config):
    """One run of a verb in a trial: the verb, its preset and its overrides."""

    verb: Runnable
    """Verb that the run performs: ``pretrain``, ``multitask``, ``finetune``, ``teachers`` or
    ``distill``."""
    preset: str | None = None
    """Preset of the verb that the overrides change. None: the defaults of the verb."""
    overrides: dict[str, Any] = Field({})
    """Values of the verb's configuration by dotted key, such as ``{data.root: miniature}``. Drawn
    values replace them. Files of own data sets may lie beside the sweep's file."""

    @field_validator("overrides", mode="before")
    @classmethod
    def _dotted_overrides(cls, value: object) -> Any:
        return flatten(value, keep_empty=True) if isinstance(value, Mapping) else value


class SweepConfig(SearchConfig, StageConfig):
    """Hyper-parameter search: the runs of a trial, their seeds, the search and the retention of
    models.
    """

    then: StageConfig | None = None
    """Second run of a trial, which starts from the model of the first; ``metric`` is then one that
    the second reports. None: one run. Use it to select a pre-training by the fine-tuning that
    follows; keys of ``space`` that begin with ``then.`` belong to it."""
    seeds: int = Field(1, ge=1)
    """Number of runs of a trial with different seeds, one after another. Their mean is the trial's
    value, their deviation is recorded. Schedulers see the first seed, so that a stopped trial runs
    no others."""
    keep: Free[Literal["all", "best"]] = "all"
    """Models and checkpoints to keep. ``all``: those of all trials. ``best``: those of the best
    trial, or of the Pareto front, once the sweep has ended. Metrics of all trials are always kept.
    """
    name: Free[str] = ""
    """Name of the study and of the group in trackers. Empty: the name of the file."""
    run_dir: Free[Path | None] = None
    """Directory of the sweep: study, trials and results. The same command on the same directory
    resumes the sweep. None: ``runs/sweeps/`` and the name."""
    address: Free[str | None] = None
    """Address of a running Ray cluster, such as ``10.0.0.1:6379``. None: the cluster of the
    environment variable ``RAY_ADDRESS`` or of the surrounding Ray job, else a local one that ends
    with the sweep."""
    console: Free[Literal["plain", "quiet"]] = "plain"
    """Output on the terminal. ``plain``: one line for each trial that starts or ends. ``quiet``:
    nothing."""
    tracking: Free[TrackingConfig] = TrackingConfig()
    """Experiment trackers of all trials. By default there are none."""

    @classmethod
    def locate(cls, values: dict[str, Any], file: Path) -> None:
        """Make paths in overrides absolute: they are those of the verbs' configurations."""
        stages: list[Any] = [values, values.get("then")]
        for stage in (stage for stage in stages if isinstance(stage, dict)):
            overrides, verb = stage.get("overrides"), stage.get("verb")
            if isinstance(overrides, dict) and verb in VERBS:
                locate_beside(VERBS[str(verb)].config, file, overrides)

    @property
    def directory(self) -> Path:
        """Directory of the sweep: study, trials, results."""
        return self.run_dir or Path("runs/sweeps") / self.name

    @property
    def stages(self) -> tuple[StageConfig, ...]:
        """Runs of one seed of a trial, in order."""
        return (self,) if self.then is None else (self, self.then)


def shipped() -> dict[str, Path]:
    """Return the search spaces that come with road_ray, by name."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.yaml"))}


def locate(name: str | Path) -> Path:
    """Return the file of a search space: a path, or the name of a shipped one (``weighted_kd``,
    ``search_spaces/weighted_kd.yaml``). Raises ``ConfigError`` naming the nearest.
    """
    path, known = Path(name).expanduser(), shipped()
    if path.is_file():
        return path
    away = path.parent not in (Path("."), Path("search_spaces"))
    if not away and path.stem in known:
        return known[path.stem]
    raise ConfigError(
        f"search space {str(name)!r}: no such file{did_you_mean(path.stem, known)}\n"
        f"  allowed: a path, or {', '.join(known)}"
    )
