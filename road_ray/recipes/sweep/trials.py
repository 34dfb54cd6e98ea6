"""Trials of a sweep: its file, with every mistake reported before the first trial, their runs from
the sampled values, and the mean of the metrics over seeds.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from road_ray.config import Config, InvalidConfig, load, override
from road_ray.config import yaml_files as yaml_lines
from road_ray.config.merge import parse_override
from road_ray.config.messages import unknown_key
from road_ray.config.schema import Key, at
from road_ray.distributed.tune.one_trial import (
    SPENT,
    OnReport,
    Record,
    spent,
    trial_directory,
)
from road_ray.distributed.tune.search_config import Range, decode_params
from road_ray.errors import ConfigError, Problem, ResourceError, did_you_mean
from road_ray.evaluation.seed_statistics import summary
from road_ray.objectives.pretraining.registry import objective_class
from road_ray.recipes.config import TrackingConfig
from road_ray.recipes.preflight_checks import metrics_of
from road_ray.recipes.pretraining.config import PretrainConfig
from road_ray.recipes.sweep.config import StageConfig, SweepConfig, locate
from road_ray.recipes.train.config import DistillConfig
from road_ray.system.files import write_atomic
from road_ray.verbs import VERBS, configure

if TYPE_CHECKING:
    from road_ray.distributed.teachers import ActorEnsemble

SECOND = "then."  # prefix of the keys of the second run
# Metrics of every trial besides those of its runs: wall time, parameters of the final model.
COSTS = ("cost/seconds", "cost/parameters")
# The sweep sets these keys of a trial, so they cannot be searched.
OWN = ("run_dir", "console", "seed", "address")


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


def final_metrics(config: Any) -> list[str]:
    """Return the metrics of a finished run that a sweep can optimize."""
    if isinstance(config, PretrainConfig):
        return [f"train/{name}" for name in objective_class(config.objective.name).metric_names]
    return metrics_of(config.data.evaluated_on, config.data)


def periodic_metrics(config: Any) -> list[str]:
    """Return the metrics that a run reports while it trains."""
    if isinstance(config, PretrainConfig):
        return final_metrics(config)
    names = config.data.trained_on if config.training.evaluate_every_steps else ()
    return metrics_of(names, config.data)


def _of_metrics(config: SweepConfig, last: Config, where: str) -> Iterator[Problem]:
    """Yield a problem for a metric that no run reports, or not when the scheduler needs it."""
    verb, allowed = config.stages[-1].verb, [*final_metrics(last), *COSTS]
    for metric in config.metric:
        if metric not in allowed:
            message = f"metric = {metric}: `road {verb}` does not report it"
            message += f"{did_you_mean(metric, allowed)}\n    allowed: {', '.join(allowed)}"
            yield Problem(where, message, "use one of these")
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


def stage_directory(sweep: SweepConfig, seed_directory: Path, number: int) -> Path:
    """Return the directory of the first (0) or second (1) run of a trial with one seed."""
    if sweep.then is None:
        return seed_directory
    first, second = (stage.verb for stage in sweep.stages)
    return seed_directory / (first, f"then-{second}" if second == first else second)[number]


def model_of(directory: Path, trial: Record, config: SweepConfig) -> Path:
    """Return the run directory of a trial's last run, first seed."""
    first = trial_directory(directory, trial.number) / "seed-0"
    return stage_directory(config, first, len(config.stages) - 1)


def runs_of(
    sweep: SweepConfig, changes: Mapping[str, object], directory: Path, number: int
) -> list[tuple[str, Config]]:
    """Return verb and configuration of each run of a trial's ``number``-th seed."""
    runs: list[tuple[str, Any]] = []
    for stage, drawn in zip(sweep.stages, split_by_stage(changes), strict=False):
        base: Any = base_config(stage)
        at = stage_directory(sweep, directory / f"seed-{number}", len(runs))
        sweep_keys: dict[str, Any] = {"run_dir": at, "console": "quiet"}
        sweep_keys["seed"] = base.seed + number
        # A trial's directory is trials/NNNN of the sweep.
        place_below = at.relative_to(directory.parents[1])
        sweep_keys["training.mirror"] = base.training.mirrored_below(place_below).mirror
        if runs:
            sweep_keys["init"] = runs[-1][1].run_dir
        teaching = base.distillation if isinstance(base, DistillConfig) else None
        if teaching is not None and teaching.store is None and teaching.answers != "live":
            # The trials share tables of the sweep, and thus read the same answers.
            sweep_keys["distillation.store"] = sweep.directory / "store"
        if sweep.tracking != TrackingConfig():
            group = sweep.tracking.group or sweep.name
            sweep_keys["tracking"] = sweep.tracking.model_copy(update={"group": group})
        runs.append((stage.verb, override(base, {**drawn, **sweep_keys})))
    return runs


@dataclass(frozen=True)
class TrialRunner:
    """Callable ``trial(directory, record, on_report)`` that runs all seeds of one set of values."""

    sweep: SweepConfig
    teachers: ActorEnsemble | None = None  # that the driver has started

    def __call__(self, directory: Path, record: Record, on_report: OnReport) -> Record:
        """Return the record with the metrics over seeds. Errors of a recipe are raised; they fail
        the trial.
        """
        changes = decode_params(self.sweep.space, record.params)
        seeds = []
        for number in range(self.sweep.seeds):
            # Schedulers see the first seed.
            report = on_report if number == 0 else lambda *_: None
            seeds.append(self._seed(changes, directory, number, report))
        means, deviations = dict[str, float](), dict[str, float | None]()
        for name in seeds[0]:  # of a metric that is not finite, NaN and None
            values = [metrics[name] for metrics in seeds if name in metrics]
            is_finite = all(map(math.isfinite, values))
            means[name], deviations[name] = summary(values) if is_finite else (math.nan, None)
        if missing := [metric for metric in self.sweep.metric if metric not in means]:
            raise ConfigError(
                f"metric = {missing[0]}: the run did not report it\n"
                f"  allowed: {', '.join(sorted(means))}"
            )
        return replace(
            record,
            values=tuple(means[metric] for metric in self.sweep.metric),
            deviation=tuple(deviations[metric] for metric in self.sweep.metric),
            figures=means,
        )

    def _seed(
        self, changes: Mapping[str, object], directory: Path, number: int, on_report: OnReport
    ) -> dict[str, float]:
        """Return the metrics of the last run with one seed; write its time, killed starts too."""
        metric, runs = self.sweep.metric[0], runs_of(self.sweep, changes, directory, number)
        seconds = spent(directory, str(number))
        told = time.monotonic()

        def count() -> None:
            nonlocal seconds, told
            passed = time.monotonic() - told
            told += passed
            seconds += passed
            with suppress(ResourceError):  # a full disk, which the run tells
                write_atomic(directory / f"seed-{number}" / SPENT, str(seconds))

        def report(config: Config, step: int, total: int | None, row: Mapping[str, float]) -> None:
            count()
            if config is runs[-1][1] and metric in row and total and step < total:
                on_report(step, total, float(row[metric]))

        from road_ray.training.run_context import RunContext  # of torch, which a plan does not need

        given = [] if self.teachers is None else [self.teachers]  # to the first run
        for verb, config in runs:
            try:
                context = RunContext(on_row=partial(report, config))
                run = VERBS[verb].run(config, *given, context=context)
            finally:
                count()
            given = []
        metrics = {n: math.nan if v is None else float(v) for n, v in run.metrics.items()}
        metrics["cost/seconds"] = seconds
        metrics["cost/parameters"] = float(parameters(run.hf_dir))
        return metrics


def parameters(hf_dir: Path) -> int:
    """Return the number of parameters in a model directory; 0 if there is no model."""
    from safetensors import safe_open

    total = 0
    for path in hf_dir.glob("*.safetensors"):  # also of a head of one's own
        with safe_open(path, framework="pt") as file:
            total += sum(math.prod(file.get_slice(n).get_shape()) for n in file.keys())  # noqa: SIM118
    return total
