"""Trials of a sweep: their runs from the sampled values, and the mean of the metrics over seeds."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from road_ray.config import Config, override
from road_ray.distributed.tune.one_trial import (
    OnReport,
    Outcome,
    Record,
    Report,
    trial_directory,
)
from road_ray.distributed.tune.search_config import decode_params
from road_ray.errors import ConfigError
from road_ray.evaluation.seed_statistics import summary
from road_ray.recipes.config import TrackingConfig
from road_ray.recipes.run_directory.recorded_config import mirrored_below
from road_ray.recipes.sweep.config import SweepConfig, base_config, split_by_stage
from road_ray.recipes.train.config import DistillConfig
from road_ray.verbs import VERBS

if TYPE_CHECKING:
    from road_ray.distributed.teachers import ActorEnsemble


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
        sweep_keys["training.mirror"] = mirrored_below(base.training, place_below).mirror
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
    """Callable ``trial(directory, params, on_report)`` that runs all seeds of one set of values."""

    sweep: SweepConfig
    # Teachers that the driver has started, at most one ensemble of them.
    teachers: list[ActorEnsemble] = field(default_factory=list)

    def __call__(self, directory: Path, params: Mapping[str, Any], on_report: OnReport) -> Outcome:
        """Return the metrics over seeds. Errors of a recipe are raised; they fail the trial."""
        changes = decode_params(self.sweep.space, params)
        seeds, teacher_seconds = [], 0.0
        for number in range(self.sweep.seeds):
            # Schedulers see the first seed.
            report = on_report if number == 0 else lambda report: None
            metrics, seconds = self._seed(changes, directory, number, report)
            seeds.append(metrics)
            teacher_seconds += seconds
        means, deviations = dict[str, float](), dict[str, float | None]()
        for name in seeds[0]:  # of a metric that is not finite, NaN and None
            values = [metrics[name] for metrics in seeds if name in metrics]
            spread = summary(values) if all(map(math.isfinite, values)) else None
            means[name] = spread.mean if spread else math.nan
            deviations[name] = spread.deviation if spread else None
        if missing := [metric for metric in self.sweep.metric if metric not in means]:
            raise ConfigError(
                f"metric = {missing[0]}: the run did not report it\n"
                f"  allowed: {', '.join(sorted(means))}"
            )
        return Outcome(
            values=[means[metric] for metric in self.sweep.metric],
            deviation=[deviations[metric] for metric in self.sweep.metric],
            figures=means,
            teacher_seconds=teacher_seconds,
        )

    def _seed(
        self, changes: Mapping[str, object], directory: Path, number: int, on_report: OnReport
    ) -> tuple[dict[str, float], float]:
        """Return the metrics of the last run with one seed, and the seconds of the teachers."""
        metric, runs = self.sweep.metric[0], runs_of(self.sweep, changes, directory, number)

        def report(step: int, total: int | None, row: Mapping[str, float]) -> None:
            if metric in row and total and step < total:
                on_report(Report(step, total, float(row[metric])))

        from road_ray.training.run_context import RunContext  # of torch, which a plan does not need

        began, teacher_seconds = time.monotonic(), 0.0
        for place, (verb, config) in enumerate(runs):
            started = time.monotonic()
            context = RunContext(on_row=report if place == len(runs) - 1 else None)
            run = VERBS[verb].run(config, *([] if place else self.teachers), context=context)
            teachers: int = getattr(config, "total_teachers", 0)  # pre-training has none
            teacher_seconds += (time.monotonic() - started) * teachers
        metrics = {
            name: float("nan") if value is None else float(value)
            for name, value in run.metrics.items()
        }
        metrics["cost/seconds"] = time.monotonic() - began
        metrics["cost/parameters"] = float(parameters(run.hf_dir))
        return metrics, teacher_seconds


def parameters(hf_dir: Path) -> int:
    """Return the number of parameters in a model directory; 0 if there is no model."""
    from safetensors import safe_open

    total = 0
    for path in hf_dir.glob("*.safetensors"):
        with safe_open(path, framework="pt") as file:
            total += sum(math.prod(file.get_slice(n).get_shape()) for n in file.keys())  # noqa: SIM118
    return total
