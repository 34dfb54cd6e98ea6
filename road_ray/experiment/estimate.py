"""``road reproduce NAME --dry-run``: the plans of the distinct jobs, summed.

Three steps of each distinct training are measured on this machine; its evaluation is counted as a
third of a training step for as many rows. Models that are not trained yet are replaced by ones of
the same size.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import torch

from road_ray.config import override, to_dict
from road_ray.data.load_split import (
    find_dataset,
    read_examples,
    read_unlabelled_rows,
    root_of,
)
from road_ray.distributed.connection import connected
from road_ray.distributed.resource_estimate import available_resources
from road_ray.experiment.config import ReproduceConfig
from road_ray.experiment.expand import ANSWERS, Job, as_base, expand, num_labelled
from road_ray.experiment.run import RECIPES
from road_ray.recipes.config import TrackingConfig
from road_ray.recipes.distillation.config import DistillConfig
from road_ray.recipes.finetuning.config import (
    FinetuneConfig,
    FinetuneDataConfig,
    TeachersConfig,
    judged_names,
)
from road_ray.recipes.multitask.config import MultitaskConfig
from road_ray.recipes.plan import measured_steps, sampled_corpus, timed_start
from road_ray.recipes.pretraining.config import PretrainConfig
from road_ray.training.performance.profile import Measured

_FORWARD = 1 / 3  # of the time of a training step, without backward pass and update


def estimate(config: ReproduceConfig) -> dict[str, Any]:
    """Return steps and hours of the teachers, their answers and every arm and seed, without those
    that have finished. Nothing is left in ``config.run_dir``.

    Raises the errors of the experiment.
    """
    threads = torch.get_num_threads()
    with tempfile.TemporaryDirectory(prefix="road-plan-") as place:
        changes: dict[str, Any] = {"run_dir": Path(place) / "run", "console": "quiet"}
        # A mirror that holds steps of the estimate would be refused to the experiment itself.
        for section in ("", "multitask.", "pretrain."):
            changes[f"{section}training.mirror"] = None
        changes["gpus_per_worker"] = 0.0
        inner = override(config, changes).model_copy(update={"tracking": TrackingConfig()})
        torch.set_num_threads(1 if config.max_concurrent else threads)
        try:
            return _Estimate(inner, Path(place), config.run_dir).table()
        finally:
            torch.set_num_threads(threads)


class _Estimate:
    """Measures each distinct training once."""

    def __init__(self, config: ReproduceConfig, place: Path, run_dir: Path) -> None:
        self.config, self.place, self.run_dir = config, place, run_dir
        self.jobs = {job.name: job for job in expand(config).jobs}
        self.measured: dict[str, Measured] = {}
        self.models: dict[str, str] = {}

    def table(self) -> dict[str, Any]:
        finished = {name for name in self.jobs if self._is_finished(name)}
        works = {name: self._steps_and_seconds(job) for name, job in self.jobs.items()}
        rows: dict[tuple[str, int | None], list[str]] = {}
        ends: dict[str, float] = {}
        for name, job in self.jobs.items():
            before = max((ends[needed] for needed in job.after), default=0.0)
            ends[name] = before + (0.0 if name in finished else works[name][1])
            title = name if job.verb == ANSWERS else Path(name).parts[1]
            key = (job.arm, job.config.seed) if job.arm else (title, None)
            rows.setdefault(key, []).append(name)
        left = sum(works[name][1] for name in self.jobs if name not in finished)
        side = max(1, min(self.config.max_concurrent, _cores(self.config)))
        lines = []
        for (arm, seed), names in rows.items():
            counted = [name for name in names if name not in finished] or names
            steps, seconds = (sum(works[name][part] for name in counted) for part in (0, 1))
            line = {"arm": arm, "seed": seed, "steps": steps, "seconds": seconds}
            lines.append(line | {"finished": finished.issuperset(names)})
        return {
            "comparison": self.config.comparison,
            "rows": lines,
            "runs": sum(not line["finished"] for line in lines),
            "hours": max(left / side, *ends.values()) / 3600,
            "max_concurrent": side if self.config.max_concurrent else 0,
        }

    def _is_finished(self, name: str) -> bool:
        if self.jobs[name].verb == ANSWERS:
            return all(self._is_finished(n) for n, job in self.jobs.items() if name in job.after)
        return (self.run_dir / name / "metrics.json").is_file()

    def _steps_and_seconds(self, job: Job) -> tuple[int, float]:
        config = job.config
        if isinstance(config, TeachersConfig):
            return 0, 0.0  # all of its trainings are jobs of their own
        if isinstance(config, PretrainConfig | MultitaskConfig):
            measured = self._measure(job.verb, self._with_models(config))
            return measured.total_steps, measured.total_steps * measured.seconds_per_step
        assert isinstance(config, FinetuneConfig)
        plain = self._without_teachers(config)
        measured = self._measure("finetune", plain)
        per_row = _FORWARD * measured.seconds_per_step / max(measured.rows_per_step, 1)
        if job.verb == ANSWERS:
            assert isinstance(config, DistillConfig)
            rows = self._training_rows(config)
            return 0, per_row * rows * config.distillation.teachers_per_row
        most = plain.data.max_judged_rows
        evaluated = 0
        for name in judged_names(plain):
            entry, root = find_dataset(name, plain.data)[0], root_of(name, plain.data)
            evaluated += len(read_examples(entry, "dev", root)[:most])
        steps = measured.total_steps
        times = config.distillation.generations if isinstance(config, DistillConfig) else 1
        return times * steps, times * (steps * measured.seconds_per_step + per_row * evaluated)

    def _measure(self, verb: str, config: Any) -> Measured:
        """Return the cost of a training; those that differ in their seed have the same."""
        free = {"run_dir", "seed", "console", "label_map"}
        key = str({name: value for name, value in to_dict(config).items() if name not in free})
        if key not in self.measured:
            self.measured[key] = measured_steps(config, RECIPES[verb])
        return self.measured[key]

    def _with_models(self, config: Any) -> Any:
        """Return the configuration of a job with models that are there."""
        changes: dict[str, Any] = {}
        init = str(getattr(config, "init", ""))
        if init and Path(init).is_relative_to(self.config.run_dir):
            pretraining = isinstance(config, PretrainConfig)
            changes["init"] = self._model(init, with_generator=pretraining)
            if pretraining and config.generator.init == init:
                changes["generator.init"] = changes["init"]
        if isinstance(config, MultitaskConfig):  # its teachers have answered before
            changes["distillation"] = {}
        return override(config, changes)

    def _without_teachers(self, config: FinetuneConfig) -> FinetuneConfig:
        """Return a training without its teachers, of as many updates."""
        alone = self._with_models(config)
        if not isinstance(config, DistillConfig):
            return as_base(FinetuneConfig, alone)
        data = as_base(FinetuneDataConfig, alone.data)
        plain = as_base(FinetuneConfig, alone.model_copy(update={"data": data}))
        epochs = (
            config.data.epochs
            * self._training_rows(config)
            / num_labelled(config.data.dataset, config.data)
        )
        return override(plain, {"data.epochs": epochs})

    def _model(self, init: str, *, with_generator: bool) -> str:
        """Return a model of the size of one that is not trained yet. The encoders of all arms of a
        comparison are equal, their generators are not.
        """
        config = self.config
        if not config.of_pretraining:
            return config.init
        job = next(iter(self.jobs.values()))
        if with_generator:
            job = self.jobs[Path(init).relative_to(config.run_dir).as_posix()]
        if job.name not in self.models:
            stage = self._with_models(job.config)
            place = self.place / job.name
            place.mkdir(parents=True)
            one = {"training.steps": 1, "optimizer.warmup_steps": 0, "run_dir": place / "run"}
            changes = sampled_corpus(stage, place)[0] | timed_start(stage) | one
            self.models[job.name] = str(RECIPES["pretrain"](override(stage, changes)).directory)
        return self.models[job.name]

    def _training_rows(self, config: DistillConfig) -> int:
        name = config.data.dataset
        unlabelled = read_unlabelled_rows(config.data.unlabelled, name, config.data)
        return num_labelled(name, config.data) + len(unlabelled)


def _cores(config: ReproduceConfig) -> int:
    """Return the cores of the cluster, or of this machine."""
    if config.address is None:
        return os.cpu_count() or 1
    with connected(config.address):
        return int(available_resources().get("CPU", 1))
