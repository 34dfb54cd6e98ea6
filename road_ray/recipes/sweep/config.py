"""Configuration of ``road sweep``: a file of ``search_spaces/``.

``SweepConfig`` adds to a search (``distributed/tune/search_config.py``) the verb that a trial runs,
its seeds and the retention of models. ``load_sweep`` reads a file and reports every mistake before
the first trial, ``sweep.py`` runs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator

from road_ray.config import Config, InvalidConfig, flatten, load, override
from road_ray.config import yaml_files as yaml_lines
from road_ray.config.base import Free
from road_ray.config.merge import locate_beside, parse_override
from road_ray.config.messages import unknown_key
from road_ray.config.schema import Key, at
from road_ray.distributed.tune.search_config import Range, SearchConfig
from road_ray.errors import ConfigError, Problem, did_you_mean, nearest
from road_ray.recipes.config import TrackingConfig
from road_ray.recipes.preflight_checks import final_metrics, periodic_metrics
from road_ray.verbs import VERBS, configure

SECOND = "then."  # prefix of the keys of the second run
# Metrics of every trial besides those of its runs: wall time, parameters of the final model.
COSTS = ("cost/seconds", "cost/parameters")
# The sweep sets these keys of a trial, so they cannot be searched.
OWN = ("run_dir", "console", "seed", "address")
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


def base_config(stage: StageConfig) -> Config:
    """Return the configuration of a run before sampled values are applied."""
    return configure(stage.verb, preset=stage.preset, overrides=stage.overrides)


def split_by_stage(changes: Mapping[str, object]) -> tuple[dict[str, object], dict[str, object]]:
    """Return the values of the first run and those of the second, by dotted key."""
    first = {key: value for key, value in changes.items() if not key.startswith(SECOND)}
    second = {key.removeprefix(SECOND): value for key, value in changes.items() if key not in first}
    return first, second


def load_sweep(
    name: str | Path, overrides: Sequence[str] | Mapping[str, Any] = (), **keys: object
) -> SweepConfig:
    """Return the sweep of a file or a shipped name. Overrides, as texts or by key, are keys of the
    sweep (``trials=8``) or of its verb (``data.root=...``, short for ``overrides.data.root=...``).

    Raises ``InvalidConfig`` with the line of every mistake, before anything starts.
    """
    path = locate(name)
    written = yaml_lines.read_yaml(path)
    addressed = _addressed(overrides, keys, written.values)
    config = load(SweepConfig, path=path, overrides=addressed)
    if not config.name:
        config = config.model_copy(update={"name": path.stem})
    lines: dict[Key, str] = {key: f"{path}:{line}" for key, line in written.lines.items()}
    for key, value in addressed.items():
        lines[tuple(filter(None, key.split(".", 1)))] = f"override '{key}={value}'"

    def where(section: str, key: str = "") -> str:
        return lines.get((section, key), lines.get((section,), f"{path}: {section}.{key}"))

    bases = [base_config(stage) for stage in config.stages]  # raises for mistakes of its own
    problems: list[Problem] = []
    for key, scope in config.space.items():
        problems += _of_range(key, scope, bases, where("space", key))
    for point in config.points if not problems else ():
        for base, values in zip(bases, split_by_stage(point), strict=False):
            problems += _refused(base, [values], where("points"))
    problems += _of_metrics(config, bases[-1], where("metric"))
    if problems:
        raise InvalidConfig(problems)
    return config


def _addressed(
    overrides: Sequence[str] | Mapping[str, Any],
    keys: Mapping[str, Any],
    written: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the overrides by key, with those of the verb's keys below ``overrides``. A text is
    parsed as the key of its class: ``init=1e5`` names a directory.
    """
    kinds = {
        prefix: VERBS[stage["verb"]].config
        for prefix, stage in (("overrides.", written), ("then.overrides.", written.get("then")))
        if stage and stage.get("verb") in VERBS
    }
    of_verb = kinds.get("overrides.", SweepConfig).model_fields

    def address(key: str) -> str:
        head = key.strip().partition(".")[0]
        short = head in of_verb and head not in SweepConfig.model_fields
        return f"overrides.{key.strip()}" if short else key.strip()

    if isinstance(overrides, Mapping):
        return {address(key): value for key, value in {**overrides, **keys}.items()}
    addressed = {}
    for text in [overrides] if isinstance(overrides, str) else overrides:
        key = address(text.partition("=")[0])
        prefix = next((name for name in kinds if key.startswith(name)), "")
        kind = kinds.get(prefix, SweepConfig)
        addressed[key] = parse_override(text, kind, key.removeprefix(prefix))
    return addressed | {address(key): value for key, value in keys.items()}


def _of_range(key: str, scope: Range, bases: Sequence[Config], where: str) -> Iterator[Problem]:
    """Yield the mistakes of one range of the space."""
    number, stage_key = int(key.startswith(SECOND)), key.removeprefix(SECOND)
    place = tuple(stage_key.split("."))
    if number >= len(bases):
        yield Problem(where, f"{key}: there is no `then`", "add one")
    elif stage_key in OWN:
        message = f"{key}: the sweep sets directory and seed of a trial"
        yield Problem(where, message, "leave it out; `seeds` repeats trials")
    elif at(type(bases[number]), place) is None:
        yield unknown_key(type(bases[number]), place, scope.model_dump(exclude_none=True), where)
    else:
        yield from _refused(bases[number], ({stage_key: value} for value in scope.edges), where)


def _refused(
    base: Config, candidates: Iterable[Mapping[str, object]], where: str
) -> Iterator[Problem]:
    """Yield the mistakes of the first candidates that the configuration of a run refuses."""
    for changes in candidates:
        try:
            override(base, changes)
        except InvalidConfig as error:
            for problem in error.problems:
                yield Problem(where, problem.message, problem.remedy)
            return


def _of_metrics(config: SweepConfig, last: Config, where: str) -> Iterator[Problem]:
    """Yield a problem for a metric that no run reports, or not when the scheduler needs it."""
    verb, allowed = config.stages[-1].verb, [*final_metrics(last), *COSTS]
    for metric in config.metric:
        if metric not in allowed:
            near = nearest(metric, allowed, 0.4)
            message = f"metric = {metric}: `road {verb}` does not report it\n    allowed: "
            remedy = f"did you mean {near!r}?" if near else "use one of these"
            yield Problem(where, message + ", ".join(allowed), remedy)
            return
    periodic = periodic_metrics(last)
    if config.scheduler != "none" and config.metric[0] not in periodic:
        reported = ", ".join(periodic) or "nothing: training.evaluate_every_steps is not set"
        yield Problem(
            where,
            f"metric = {config.metric[0]} is reported at the end of a run only, and scheduler = "
            f"{config.scheduler} needs it during the run\n    reported then: {reported}",
            "scheduler=none, or set training.evaluate_every_steps and take its metrics",
        )
