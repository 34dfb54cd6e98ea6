"""Population-based training: one of the worst trials is replaced by a child of one of the best,
which resumes the donor's checkpoint with perturbed values.

Source: Jaderberg et al. 2017 (truncation selection, section 4.1). A child is a trial of its own
with fixed values, so study, records and restarts work as for any other trial. The algorithm is
asynchronous: a trial is compared with all trials that have reached the same milestone.
"""

from __future__ import annotations

import math
import random
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from optuna.distributions import CategoricalDistribution
from ray.tune.schedulers import FIFOScheduler, TrialScheduler

from road_ray.distributed.tune.search_config import Range, SearchConfig
from road_ray.distributed.tune.study import distributions
from road_ray.errors import CheckpointError
from road_ray.training.checkpoint.atomic_commit import step_of

PERCENT = "percent"  # time attribute: progress of a trial in percent of its steps
QUANTILE = 0.25  # share of the worst and of the best trials at a milestone
_RESAMPLED = 0.25  # probability that a value is resampled instead of perturbed
_FACTORS = (0.8, 1.2)
_WRITING_SECONDS = 30.0  # a checkpoint is written after the report of its step

Breed = Callable[[int, int, int], None]
"""``breed(trial, donor, step)``: a child of ``donor`` from ``step`` on takes the trial's place."""


class PopulationBasedScheduler(FIFOScheduler):  # type: ignore[misc]
    """Scheduler that compares every trial with the population each ``grace_percent`` of
    its steps.
    """

    def __init__(self, config: SearchConfig, breed: Breed) -> None:
        super().__init__()
        self._config, self._breed = config, breed
        self._milestones: dict[int, dict[int, tuple[float, int]]] = {}  # by trial: value, step

    def on_trial_result(self, controller: object, trial: Any, result: Mapping[str, Any]) -> str:
        """Continue, or stop in favour of a child of a better trial."""
        if PERCENT not in result:
            return str(TrialScheduler.CONTINUE)
        number = int(trial.config["number"])
        milestone = int(result[PERCENT] / self._config.grace_percent + 1e-9)
        results = self._milestones.setdefault(milestone, {})
        if not milestone or number in results:
            return str(TrialScheduler.CONTINUE)
        results[number] = float(result[self._config.metric[0]]), int(result["step"])
        donor = self._donor(number, results)
        if donor is None or trial.config.get("replayed"):
            return str(TrialScheduler.CONTINUE)
        self._breed(number, donor, results[donor][1])
        return str(TrialScheduler.STOP)

    def _donor(self, number: int, results: Mapping[int, tuple[float, int]]) -> int | None:
        """Return one of the best trials if the trial is one of the worst, else None."""
        sign = 1 if self._config.mode[0] == "max" else -1
        order = sorted(results, key=lambda trial: (sign * results[trial][0], -trial))
        few = math.floor(len(order) * QUANTILE)
        if number not in order[:few]:
            return None
        return random.Random(f"{self._config.seed} {number} {len(order)}").choice(order[-few:])


def perturb(
    space: Mapping[str, Range], params: Mapping[str, Any], generator: random.Random
) -> dict[str, Any]:
    """Return values near those of the donor: numbers change by a fifth within their range, choices
    move to a neighbour, and each is sometimes resampled.
    """
    values = {}
    for key, limits in distributions(space).items():
        resample = generator.random() < _RESAMPLED
        if isinstance(limits, CategoricalDistribution):
            choices = list(limits.choices)
            place = choices.index(params[key]) + generator.choice((-1, 0, 1))
            near = choices[min(max(place, 0), len(choices) - 1)]
            values[key] = generator.choice(choices) if resample else near
            continue
        low, high = float(limits.low), float(limits.high)
        if resample and limits.log:
            value = math.exp(generator.uniform(math.log(low), math.log(high)))
        elif resample:
            value = generator.uniform(low, high)
        else:
            value = float(params[key]) * generator.choice(_FACTORS)
        value = min(max(value, low), high)
        values[key] = round(value) if space[key].kind.endswith("int") else value
    return values


def copy_donor_checkpoint(donor: Path, child: Path, step: int) -> None:
    """Copy the donor's checkpoint of ``step``, or its newest before that, into the child's
    directory.

    Raises ``CheckpointError`` if there is none.
    """
    place = donor / "seed-0" / "checkpoints"
    target = child / "seed-0" / "checkpoints"
    if target.exists():
        return  # the child has started before
    deadline = time.monotonic() + _WRITING_SECONDS
    while not (newest := _newest(place, step)) or step_of(newest) < step:
        if time.monotonic() > deadline:
            break
        time.sleep(0.2)
    if newest is None:
        raise CheckpointError(
            f"{place}: no checkpoint up to step {step} to resume\n"
            "  fix: do not change the directories of a population's trials"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    staged = target.with_name(".inherited")
    shutil.rmtree(staged, ignore_errors=True)
    shutil.copytree(newest, staged / newest.name)
    staged.rename(target)


def _newest(place: Path, step: int) -> Path | None:
    earlier = [path for path in place.glob("step-*") if step_of(path) <= step]
    return max(earlier, key=step_of, default=None)
