"""``road reproduce NAME --dry-run``: the plans of the distinct jobs, summed.

Three steps of each distinct training are measured on this machine; its evaluation is counted as a
third of a training step for as many rows, the answers of teachers, which are given once, are not.
Models that are not trained yet are replaced by ones of the same size.
"""

import tempfile
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from road_ray.config import override
from road_ray.config.base import FreeOnResume, as_base, fixed_values
from road_ray.errors import RoadError
from road_ray.experiment.config import ReproduceConfig
from road_ray.experiment.expand import Experiment, Job, epochs_of_all, examples_of
from road_ray.experiment.run import run_job
from road_ray.recipes.config import CombineConfig, TrackingConfig
from road_ray.recipes.plan import measured_steps, sampled_corpus
from road_ray.recipes.pretraining.config import PretrainConfig
from road_ray.recipes.pretraining.pretrain import pretrain
from road_ray.recipes.train.config import (
    DistillConfig,
    FinetuneConfig,
    FinetuneDataConfig,
    MultitaskConfig,
    TeachersConfig,
)
from road_ray.recipes.train.teaching_config import MixTeachingConfig
from road_ray.training.profile import Measured

_FORWARD = 1 / 3  # of the time of a training step, without backward pass and update


def estimate(config: ReproduceConfig) -> dict[str, Any]:
    """Return steps and hours of the teachers and every arm and seed, without those that have
    finished. Nothing is left in ``config.run_dir``.

    Raises the errors of the experiment.
    """
    rows: dict[tuple[str, int | None], dict[str, Any]] = {}
    ends: dict[str, float] = {}
    threads, every = torch.get_num_threads(), 0.0
    with tempfile.TemporaryDirectory(prefix="road-plan-") as place:
        inner = config.model_copy(update={"run_dir": Path(place) / "run"})
        torch.set_num_threads(1 if config.max_concurrent else threads)
        try:
            costs = _Costs(inner, Path(place))
            for name, job in costs.experiment.jobs.items():
                finished = (config.run_dir / name / "metrics.json").is_file()
                try:
                    steps, seconds = (0, 0.0) if finished else costs.steps_and_seconds(job)
                except RoadError as error:
                    error.args = (f"{name}: {error}",)
                    raise
                every += seconds
                ends[name] = seconds + max((ends[needed] for needed in job.after), default=0.0)
                title = job.arm or Path(name).parts[1]
                seed = job.config.seed if job.arm else None
                new = {"arm": title, "seed": seed, "finished": True, "steps": 0, "seconds": 0.0}
                row = rows.setdefault((title, seed), new)
                row["steps"] += steps
                row["seconds"] += seconds
                row["finished"] &= finished
        finally:
            torch.set_num_threads(threads)
    return {
        "comparison": config.comparison,
        "rows": list(rows.values()),
        "runs": sum(not row["finished"] for row in rows.values()),
        "hours": max(every / max(config.max_concurrent, 1), *ends.values()) / 3600,
        "max_concurrent": config.max_concurrent,
    }


class _Costs:
    """Measures each distinct training once, in ``place``."""

    def __init__(self, config: ReproduceConfig, place: Path) -> None:
        self.config, self.place = config, place
        self.experiment = Experiment(config)
        self.measured: dict[str, Measured] = {}

    def steps_and_seconds(self, job: Job) -> tuple[int, float]:
        """Return the steps of a job, and the seconds that they and its evaluation take."""
        config = job.config
        if isinstance(config, TeachersConfig | CombineConfig):
            return 0, 0.0  # all trainings are jobs of their own
        evaluated, times = 0, 1
        if isinstance(config, PretrainConfig | MultitaskConfig):
            measured = self._measure(self._with_models(config))
        else:
            assert isinstance(config, FinetuneConfig)
            plain = as_base(FinetuneConfig, self._with_models(config))
            plain = plain.model_copy(update={"data": as_base(FinetuneDataConfig, plain.data)})
            if isinstance(config, DistillConfig):  # without its teachers, of as many updates
                epochs = epochs_of_all(config.data, config.data.unlabelled)
                plain = override(plain, {"data.epochs": epochs})
                times = config.distillation.generations
            measured = self._measure(plain)
            for name in plain.dev_names:
                evaluated += len(examples_of(name, plain.data, "dev")[: plain.data.max_judged_rows])
        per_row = _FORWARD * measured.seconds_per_step / max(measured.rows_per_step, 1)
        steps = times * measured.total_steps
        return steps, steps * measured.seconds_per_step + per_row * times * evaluated

    def _measure(self, config: Any) -> Measured:
        """Return the cost of a training; those that differ in their seed have the same."""
        key = str(fixed_values(config, FreeOnResume) | {"seed": 0})
        if key not in self.measured:
            self.measured[key] = measured_steps(config, run_job)
        return self.measured[key]

    def _with_models(self, config: Any) -> Any:
        """Return the configuration of a job with models that are there."""
        changes: dict[str, Any] = {}
        init = str(getattr(config, "init", ""))
        if init and Path(init).is_relative_to(self.config.run_dir):
            if not self.config.of_pretraining:
                changes["init"] = self.config.init
            elif isinstance(config, PretrainConfig):  # new weights take as long
                changes = {"init": "", "generator.init": ""}
                if config.generator.kind == "frozen":
                    changes["generator.kind"] = "model"
            else:
                changes["init"] = str(self._encoder)
        if isinstance(config, MultitaskConfig):  # its teachers are not trained yet
            config = config.model_copy(update={"distillation": MixTeachingConfig()})
        return override(config, changes)

    @cached_property
    def _encoder(self) -> Path:
        """Model as large as those of all arms of a comparison of pre-training."""
        stage: Any = next(iter(self.experiment.jobs.values())).config
        place = self.place / "encoder"
        place.mkdir()
        changes = sampled_corpus(stage, place)[0]
        changes |= {"training.steps": 1, "optimizer.warmup_steps": 0, "run_dir": place / "run"}
        # A mirror that holds steps of the estimate would be refused to the experiment itself.
        changes |= {"training.mirror": None, "console": "quiet"}
        untracked = override(stage, changes).model_copy(update={"tracking": TrackingConfig()})
        return pretrain(untracked).directory
