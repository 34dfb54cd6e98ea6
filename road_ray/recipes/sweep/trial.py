"""One trial: the verb's own recipe for every seed, judged by the mean."""

from __future__ import annotations

import json
import math
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from road_ray.distributed.tune.space import decode_params
from road_ray.distributed.tune.trial_record import Outcome, Report, Tell
from road_ray.errors import ConfigError
from road_ray.evaluation.metrics import summary
from road_ray.recipes.sweep.config import SweepConfig
from road_ray.recipes.sweep.stages import runs_of
from road_ray.training.context import RunContext
from road_ray.verbs import VERBS


@dataclass(frozen=True)
class Trial:
    """``trial(directory, params, tell)``: all seeds of one set of values."""

    sweep: SweepConfig

    def __call__(self, directory: Path, params: Mapping[str, Any], tell: Tell) -> Outcome:
        """Figures over seeds. Raises what a recipe raises: the trial has failed then."""
        changes = decode_params(self.sweep.space, params)
        figures, teacher_seconds = [], 0.0
        for number in range(self.sweep.seeds):
            told, seconds = self._seed(changes, directory, number, tell)
            figures.append(told)
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
        self, changes: Mapping[str, Any], directory: Path, number: int, tell: Tell
    ) -> tuple[dict[str, float], float]:
        runs = runs_of(self.sweep, changes, directory, number)
        began = time.monotonic()
        teaching = 0.0
        for place, (verb, config) in enumerate(runs):
            judged = number == 0 and place == len(runs) - 1
            asked = time.monotonic()
            reporter = _Reporter(self.sweep.metric[0], tell) if judged else None
            run = VERBS[verb].run(config, context=RunContext(on_row=reporter))
            teachers: Any = getattr(config, "distillation", None)
            if teachers is not None:
                teaching += (time.monotonic() - asked) * teachers.num_asked
        figures = {
            name: float("nan") if value is None else float(value)
            for name, value in run.metrics.items()
        }
        figures["cost/seconds"] = time.monotonic() - began
        figures["cost/parameters"] = float(parameters(run.hf_dir))
        return figures, teaching


@dataclass(frozen=True)
class _Reporter:
    """Reports the metric of each journal row that has it, before the last step."""

    metric: str
    tell: Tell

    def __call__(self, step: int, total: int | None, row: Mapping[str, float]) -> None:
        if self.metric not in row or not total or step >= total:
            return
        self.tell(Report(step, 100.0 * step / total, float(row[self.metric])))


def _over_seeds(
    figures: list[dict[str, float]],
) -> tuple[dict[str, float], dict[str, float | None]]:
    means: dict[str, float] = {}
    deviations: dict[str, float | None] = {}
    for name in figures[0]:
        values = [one[name] for one in figures if name in one]
        if all(math.isfinite(value) for value in values):
            spread = summary(values)
            means[name], deviations[name] = spread.mean, spread.deviation
        else:
            means[name], deviations[name] = float("nan"), None
    return means, deviations


def parameters(hf_dir: Path) -> int:
    """Numbers in the weights of a model directory; 0 where there is none."""
    total = 0
    for path in hf_dir.glob("*.safetensors"):
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length))
        shapes = [entry["shape"] for name, entry in header.items() if name != "__metadata__"]
        total += sum(math.prod(shape) for shape in shapes)
    return total
