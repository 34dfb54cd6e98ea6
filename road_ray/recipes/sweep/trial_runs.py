"""A trial of a sweep: the verb's recipe for each seed, and the mean of its figures."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from road_ray.distributed.tune.search_config import decode_params
from road_ray.distributed.tune.trial_record import OnReport, Outcome, Report
from road_ray.errors import ConfigError
from road_ray.evaluation.seed_statistics import summary
from road_ray.recipes.sweep.config import SweepConfig
from road_ray.recipes.sweep.stages import runs_of
from road_ray.training.run_context import RunContext
from road_ray.verbs import VERBS

if TYPE_CHECKING:
    from road_ray.distributed.teachers.client import ActorEnsemble


@dataclass(frozen=True)
class Trial:
    """Callable ``trial(directory, params, on_report)`` that runs all seeds of one set of values."""

    sweep: SweepConfig
    # Teachers that the driver has started, at most one ensemble of them.
    teachers: list[ActorEnsemble] = field(default_factory=list)

    def __call__(self, directory: Path, params: Mapping[str, Any], on_report: OnReport) -> Outcome:
        """Return the figures over seeds. Errors of a recipe are raised; they fail the trial."""
        changes = decode_params(self.sweep.space, params)
        figures, teacher_seconds = [], 0.0
        for number in range(self.sweep.seeds):
            metrics, seconds = self._seed(changes, directory, number, on_report)
            figures.append(metrics)
            teacher_seconds += seconds
        means, deviations = _over_seeds(figures)
        missing = [metric for metric in self.sweep.metric if metric not in means]
        if missing:
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
        runs = runs_of(self.sweep, changes, directory, number)
        began = time.monotonic()
        teacher_seconds = 0.0
        for place, (verb, config) in enumerate(runs):
            judged = number == 0 and place == len(runs) - 1
            started = time.monotonic()
            reporter = _Reporter(self.sweep.metric[0], on_report) if judged else None
            extra = self.teachers if place == 0 else []
            run = VERBS[verb].run(config, *extra, context=RunContext(on_row=reporter))
            teachers: Any = getattr(config, "distillation", None)
            if teachers is not None:
                teacher_seconds += (time.monotonic() - started) * teachers.total_teachers
        figures = {
            name: float("nan") if value is None else float(value)
            for name, value in run.metrics.items()
        }
        figures["cost/seconds"] = time.monotonic() - began
        figures["cost/parameters"] = float(parameters(run.hf_dir))
        return figures, teacher_seconds


@dataclass(frozen=True)
class _Reporter:
    """Row callback that reports the metric with the progress of the run."""

    metric: str
    on_report: OnReport

    def __call__(self, step: int, total: int | None, row: Mapping[str, float]) -> None:
        if self.metric not in row or not total or step >= total:
            return
        self.on_report(Report(step, 100.0 * step / total, float(row[self.metric])))


def _over_seeds(
    figures: list[dict[str, float]],
) -> tuple[dict[str, float], dict[str, float | None]]:
    means: dict[str, float] = {}
    deviations: dict[str, float | None] = {}
    for name in figures[0]:
        values = [metrics[name] for metrics in figures if name in metrics]
        if all(math.isfinite(value) for value in values):
            spread = summary(values)
            means[name], deviations[name] = spread.mean, spread.deviation
        else:
            means[name], deviations[name] = float("nan"), None
    return means, deviations


def parameters(hf_dir: Path) -> int:
    """Return the number of parameters in a model directory; 0 if there is no model."""
    from safetensors import safe_open

    total = 0
    for path in hf_dir.glob("*.safetensors"):
        with safe_open(path, framework="pt") as file:
            total += sum(math.prod(file.get_slice(n).get_shape()) for n in file.keys())  # noqa: SIM118
    return total
