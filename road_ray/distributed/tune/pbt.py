"""Population-based training: a trial that is among the worst at a look gives way to a child of one
of the best, which goes on from that one's checkpoint with values changed a little.

Source: Jaderberg et al. 2017 (truncation selection, section 4.1). A child is a trial of its own
with fixed values, so that study, records and restarts work as for any other; nobody waits for
others, a trial is measured by all that have come as far.
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

from road_ray.distributed.tune.config import Range, SearchConfig
from road_ray.distributed.tune.study import distributions
from road_ray.errors import CheckpointError
from road_ray.training.checkpoint.checkpoint import step_of

PERCENT = "percent"  # time: how far a trial is, of its own steps
QUANTILE = 0.25  # the worst and the best of those that came as far
_RESAMPLED = 0.25  # how often a value is drawn anew instead of changed
_FACTORS = (0.8, 1.2)
_WRITING_SECONDS = 30.0  # a checkpoint is written after the figures of its step

Breed = Callable[[int, int, int], None]
"""``breed(trial, donor, step)``: a child of ``donor`` from ``step`` on takes the trial's place."""


class PopulationBasedScheduler(FIFOScheduler):  # type: ignore[misc]
    """Looks at every trial each ``grace_percent`` of its own steps."""

    def __init__(self, config: SearchConfig, breed: Breed) -> None:
        super().__init__()
        self._config, self._breed = config, breed
        self._looks: dict[int, dict[int, tuple[float, int]]] = {}  # by look and trial: value, step

    def on_trial_result(self, controller: Any, trial: Any, result: Mapping[str, Any]) -> str:
        """Go on, or give way to a child of a better one."""
        if PERCENT not in result:
            return str(TrialScheduler.CONTINUE)
        number = int(trial.config["number"])
        look = int(result[PERCENT] / self._config.grace_percent + 1e-9)
        seen = self._looks.setdefault(look, {})
        if not look or number in seen:
            return str(TrialScheduler.CONTINUE)
        seen[number] = float(result[self._config.metric[0]]), int(result["step"])
        donor = self._donor(number, seen)
        if donor is None or trial.config.get("told"):
            return str(TrialScheduler.CONTINUE)
        self._breed(number, donor, seen[donor][1])
        return str(TrialScheduler.STOP)

    def _donor(self, number: int, seen: Mapping[int, tuple[float, int]]) -> int | None:
        """One of the best if the trial is one of the worst, else None."""
        sign = 1 if self._config.mode[0] == "max" else -1
        order = sorted(seen, key=lambda one: (sign * seen[one][0], -one))
        few = math.floor(len(order) * QUANTILE)
        if number not in order[:few]:
            return None
        return random.Random(f"{self._config.seed} {number} {len(order)}").choice(order[-few:])


def perturb(
    space: Mapping[str, Range], params: Mapping[str, Any], chance: random.Random
) -> dict[str, Any]:
    """Values near those of the donor: numbers a fifth up or down within their range, choices their
    neighbour; each at times drawn anew.
    """
    found = {}
    for key, limits in distributions(space).items():
        again = chance.random() < _RESAMPLED
        if isinstance(limits, CategoricalDistribution):
            choices = list(limits.choices)
            place = choices.index(params[key]) + chance.choice((-1, 0, 1))
            near = choices[min(max(place, 0), len(choices) - 1)]
            found[key] = chance.choice(choices) if again else near
            continue
        low, high = float(limits.low), float(limits.high)
        if again and limits.log:
            value = math.exp(chance.uniform(math.log(low), math.log(high)))
        elif again:
            value = chance.uniform(low, high)
        else:
            value = float(params[key]) * chance.choice(_FACTORS)
        value = min(max(value, low), high)
        found[key] = round(value) if space[key].kind.endswith("int") else value
    return found


def copy_donor_checkpoint(donor: Path, child: Path, step: int) -> None:
    """Copy the donor's checkpoint of ``step``, or its newest before that, to where the child looks
    for its own. Raises ``CheckpointError`` where there is none.
    """
    place = donor / "seed-0" / "checkpoints"
    there = child / "seed-0" / "checkpoints"
    if there.exists():
        return  # the child has begun before
    waited = time.monotonic() + _WRITING_SECONDS
    while not (found := _newest(place, step)) or step_of(found) < step:
        if time.monotonic() > waited:
            break
        time.sleep(0.2)
    if found is None:
        raise CheckpointError(
            f"{place}: no checkpoint up to step {step} to go on from\n"
            "  fix: leave the directories of a population's trials as they are"
        )
    there.parent.mkdir(parents=True, exist_ok=True)
    staged = there.with_name(".inherited")
    shutil.rmtree(staged, ignore_errors=True)
    shutil.copytree(found, staged / found.name)
    staged.rename(there)


def _newest(place: Path, step: int) -> Path | None:
    fitting = [one for one in place.glob("step-*") if step_of(one) <= step]
    return max(fitting, key=step_of, default=None)
