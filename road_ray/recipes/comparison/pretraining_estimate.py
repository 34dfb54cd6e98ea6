"""``road reproduce NAME --dry-run`` for comparisons of pre-training: a few steps of every arm are
measured on a sample of the corpus, and the fine-tunings that score them from a model of one step.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from road_ray.config import override
from road_ray.recipes.comparison.config import ArmConfig, ReproduceConfig
from road_ray.recipes.comparison.finetuning_estimate import (
    FinetuningTimes,
    Work,
    measured_work,
    row_of,
    sum_of,
    totals,
)
from road_ray.recipes.comparison.pretraining_comparison import plan, require_probe_data
from road_ray.recipes.config import TrackingConfig
from road_ray.recipes.finetuning.config import FinetuneConfig
from road_ray.recipes.plan import sampled_corpus, timed_start
from road_ray.recipes.pretraining.config import PretrainConfig
from road_ray.recipes.pretraining.pretrain import pretrain


def estimate_pretraining(config: ReproduceConfig) -> dict[str, Any]:
    """Return steps, tokens and hours of every arm and seed, without those that have finished.
    Nothing is left in ``config.run_dir``.
    """
    with tempfile.TemporaryDirectory(prefix="road-plan-") as place:
        return _Estimate(config, Path(place)).table()


class _Estimate:
    """Estimator that times the pre-training of each arm once, and the scoring of one model."""

    def __init__(self, config: ReproduceConfig, place: Path) -> None:
        self.config, self.place, self.arms = config, place, plan(config)
        require_probe_data(self.arms)
        self.corpora: dict[str, tuple[dict[str, Any], float | None]] = {}
        self.stages: dict[str, Work] = {}
        self.scored: dict[str, Work] = {}
        self.times: FinetuningTimes | None = None

    def table(self) -> dict[str, Any]:
        rows = [self._row(arm) for arm in self.arms]
        return totals(self.config, rows, {row["arm"] for row in rows})

    def _row(self, arm: ArmConfig) -> dict[str, Any]:
        works = [
            self._stage(arm, number)
            for number, stage in enumerate(arm.stages)
            if not _is_finished(stage.run_dir)
        ]
        works += [self._probe(probe) for probe in arm.probes if not _is_finished(probe.run_dir)]
        finished = _is_finished(arm.run_dir)
        return row_of(_name(arm), arm.seed, sum_of(works), finished=finished)

    def _stage(self, arm: ArmConfig, number: int) -> Work:
        """Return the work of one pre-training of an arm; all seeds take the same time."""
        key = f"{_name(arm)}-{number}"
        if key not in self.stages:
            config, rows = self._alone(arm, number)
            self.stages[key] = measured_work(pretrain, config, rows)
        return self.stages[key]

    def _probe(self, probe: FinetuneConfig) -> Work:
        """Return the work of a fine-tuning that scores an arm; encoders of all arms are equal."""
        if self.times is None:
            self.times = FinetuningTimes(self._model(self.arms[0], 0), self.place)
        name = probe.data.dataset
        if name not in self.scored:
            changes = {"init": self.times.init, "training.mirror": None, "console": "quiet"}
            self.scored[name] = self.times.work(override(probe, changes))
        return self.scored[name]

    def _model(self, arm: ArmConfig, number: int) -> str:
        """Return a run of one step of a stage, from which the next one and the scoring start."""
        place = self.place / "models" / f"{_name(arm)}-{number}"
        alone, _ = self._alone(arm, number)
        keys = {"training.steps": 1, "run_dir": place, "optimizer.warmup_steps": 0}
        return str(pretrain(override(alone, keys)).directory)

    def _alone(self, arm: ArmConfig, number: int) -> tuple[PretrainConfig, float | None]:
        """Return a stage on a sample of its corpus, and the rows of a step of the whole corpus."""
        own = {"run_dir": self.place / "stage", "training.mirror": None, "console": "quiet"}
        if number:
            before = self._model(arm, number - 1)
            own |= {"init": before, "generator.init": before}
        stage = override(arm.stages[number], own)
        stage = stage.model_copy(update={"tracking": TrackingConfig()})
        key = str(stage.data)
        if key not in self.corpora:
            place = self.place / f"corpus-{len(self.corpora)}"
            place.mkdir()
            self.corpora[key] = sampled_corpus(stage, place)
        sample, rows = self.corpora[key]
        return override(stage, sample | timed_start(stage)), rows


def _name(arm: ArmConfig) -> str:
    return arm.run_dir.parent.name


def _is_finished(run_dir: Path) -> bool:
    return (run_dir / "metrics.json").is_file()
