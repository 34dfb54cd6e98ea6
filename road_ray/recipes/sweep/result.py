"""Result of a sweep: its trials, the best of them, and the files that record them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from road_ray.distributed.tune.trial_record import DIVERGED, Record
from road_ray.errors import DivergedError, ResourceError
from road_ray.recipes.sweep.config import SweepConfig
from road_ray.reporting.records.sweep_record import pareto_front
from road_ray.system.files import write_json_atomic

_RETRY = "remove the cause, then run the same command with retry_failed=true"


@dataclass(frozen=True)
class Sweep:
    """A finished sweep."""

    directory: Path
    config: SweepConfig
    trials: Sequence[Record]

    @property
    def best(self) -> Sequence[Record]:
        """Return the best trial or, with several metrics, the Pareto front."""
        return best_of(self.trials, self.config.mode)

    @property
    def failed(self) -> Sequence[Record]:
        """Return the failed trials that no other trial has retried. Diverged trials do not count:
        divergence is a result of their values.
        """
        retried = {trial.retry_of for trial in self.trials}
        return [
            trial
            for trial in self.trials
            if trial.state == "failed"
            and trial.number not in retried
            and not trial.reason.startswith(DIVERGED)
        ]

    def check_usable(self) -> None:
        """Raise an error if trials failed and none is complete: ``DivergedError`` if all of them
        diverged, which is a result of their values, else ``ResourceError`` with the first failure.
        """
        ended = [trial for trial in self.trials if trial.state == "failed"]
        if self.best or not ended:
            return
        count = f"no trial of {self.config.name} is complete; {len(ended)} failed"
        if self.failed:
            raise ResourceError(self._told(count, self.failed[0], _RETRY))
        lower = "name=ANOTHER with a space of lower rates (optimizer.peak_lr), or other overrides"
        raise DivergedError(self._told(count, ended[0], lower))

    def check_complete(self) -> None:
        """Raise ``ResourceError`` if trials failed; all results are written."""
        if self.failed:
            count = f"{len(self.failed)} of {len(self.trials)} trials failed"
            raise ResourceError(self._told(count, self.failed[0], _RETRY))

    def _told(self, count: str, first: Record, fix: str) -> str:
        return (
            f"{count}, the first is {first.number}:\n  {first.reason}\n  fix: {fix}\n"
            f"  kept: all trials in {self.directory}, with each failed one's error.txt"
        )


def best_of(trials: Sequence[Record], modes: Sequence[str]) -> list[Record]:
    """Return the Pareto front of complete trials; with one metric, the best one (the earliest of
    equals).
    """
    signs = [1.0 if mode == "max" else -1.0 for mode in modes]
    done = [
        trial
        for trial in trials
        if trial.state == "complete" and all(math.isfinite(value) for value in trial.values)
    ]

    scores = [
        tuple(sign * value for sign, value in zip(signs, trial.values, strict=True))
        for trial in done
    ]
    return [done[number] for number in pareto_front(scores)]


def row_of(trial: Record, config: SweepConfig) -> dict[str, Any]:
    """Return a trial as a row of a table."""
    row: dict[str, Any] = {"trial": trial.number, "state": trial.state}
    for place, metric in enumerate(config.metric):
        row[metric] = trial.values[place] if place < len(trial.values) else None
        if config.seeds > 1:
            deviations = trial.deviation
            row[f"{metric} +-"] = deviations[place] if place < len(deviations) else None
    row |= {key: trial.params.get(key) for key in config.space}
    row["seconds"] = round(trial.seconds, 1)
    row["reason"] = trial.reason.splitlines()[0][:60] if trial.reason else ""
    return row


def write_result(sweep: Sweep) -> None:
    """Write ``sweep.json`` with every trial and ``metrics.json`` with the best trial's figures."""
    best = [trial.number for trial in sweep.best]
    write_json_atomic(
        sweep.directory / "sweep.json",
        {
            "name": sweep.config.name,
            "metric": sweep.config.metric,
            "mode": sweep.config.mode,
            "best": best,
            "trials": [asdict(trial) for trial in sweep.trials],
        },
    )
    if sweep.best:
        write_json_atomic(sweep.directory / "metrics.json", dict(sweep.best[0].figures))
