"""``road reproduce NAME --dry-run``: the plans of the distinct jobs, summed.

Three steps of each distinct training are measured on this machine; its evaluation is counted as a
third of a training step for as many rows. Models that are not trained yet are replaced by ones of
the same size.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from road_ray.config import override, to_dict
from road_ray.config.base import as_base
from road_ray.data.load_split import (
    find_dataset,
    read_examples,
    read_unlabelled_rows,
    root_of,
)
from road_ray.distributed.connection import connected
from road_ray.distributed.room import available_resources
from road_ray.experiment.config import ReproduceConfig
from road_ray.experiment.expand import ANSWERS, Experiment, Job, num_labelled
from road_ray.experiment.run import RECIPES
from road_ray.recipes.config import CombineConfig, TrackingConfig
from road_ray.recipes.plan import measured_steps, sampled_corpus
from road_ray.recipes.pretraining.config import PretrainConfig
from road_ray.recipes.train.config import (
    DistillConfig,
    FinetuneConfig,
    FinetuneDataConfig,
    MultitaskConfig,
    TeachersConfig,
)
from road_ray.training.profile import Measured

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
            costs = _Costs(inner, Path(place))
            works = {name: costs.steps_and_seconds(job) for name, job in costs.jobs.items()}
        finally:
            torch.set_num_threads(threads)
    return _table(config, costs.jobs, works)


def _table(
    config: ReproduceConfig, jobs: Mapping[str, Job], works: Mapping[str, tuple[int, float]]
) -> dict[str, Any]:
    """Return a row for each ensemble, its answers, and each arm and seed, and the hours of all."""

    def is_finished(name: str) -> bool:
        if jobs[name].verb == ANSWERS:
            return all(is_finished(other) for other, job in jobs.items() if name in job.after)
        return (config.run_dir / name / "metrics.json").is_file()

    rows: dict[tuple[str, int | None], list[str]] = {}
    left: dict[str, float] = {}
    ends: dict[str, float] = {}
    for name, job in jobs.items():
        left[name] = 0.0 if is_finished(name) else works[name][1]
        ends[name] = left[name] + max((ends[needed] for needed in job.after), default=0.0)
        title = name if job.verb == ANSWERS else Path(name).parts[1]
        key = (job.arm, job.config.seed) if job.arm else (title, None)
        rows.setdefault(key, []).append(name)
    lines = []
    for (arm, seed), names in rows.items():
        waiting = [name for name in names if not is_finished(name)]
        steps, seconds = (sum(works[name][part] for name in waiting or names) for part in (0, 1))
        line = {"arm": arm, "seed": seed, "steps": steps, "seconds": seconds}
        lines.append(line | {"finished": not waiting})
    cores = float(os.cpu_count() or 1)
    if config.address is not None:
        with connected(config.address):
            cores = available_resources().get("CPU", 1.0)
    side = max(1, min(config.max_concurrent, int(cores)))
    return {
        "comparison": config.comparison,
        "rows": lines,
        "runs": sum(not line["finished"] for line in lines),
        "hours": max(sum(left.values()) / side, *ends.values()) / 3600,
        "max_concurrent": side if config.max_concurrent else 0,
    }


class _Costs:
    """Measures each distinct training once, in ``place``."""

    def __init__(self, config: ReproduceConfig, place: Path) -> None:
        self.config, self.place = config, place
        self.jobs = {job.name: job for job in Experiment(config).jobs}
        self.measured: dict[str, Measured] = {}
        self.models: dict[str, str] = {}

    def steps_and_seconds(self, job: Job) -> tuple[int, float]:
        """Return the steps of a job, and the seconds that they and its evaluation take."""
        config = job.config
        if isinstance(config, TeachersConfig | CombineConfig):
            return 0, 0.0  # all trainings are jobs of their own
        if isinstance(config, PretrainConfig | MultitaskConfig):
            measured = self._measure(job.verb, self._with_models(config))
            return measured.total_steps, measured.total_steps * measured.seconds_per_step
        assert isinstance(config, FinetuneConfig)
        plain = as_base(FinetuneConfig, self._with_models(config))
        plain = plain.model_copy(update={"data": as_base(FinetuneDataConfig, plain.data)})
        rows = times = 1
        if isinstance(config, DistillConfig):  # without its teachers, of as many updates
            data, labelled = config.data, num_labelled(config.data.dataset, config.data)
            rows = labelled + len(read_unlabelled_rows(data.unlabelled, data.dataset, data))
            plain = override(plain, {"data.epochs": rows / labelled * data.epochs})
            times = config.distillation.generations
        measured = self._measure("finetune", plain)
        per_row = _FORWARD * measured.seconds_per_step / max(measured.rows_per_step, 1)
        if isinstance(config, DistillConfig) and job.verb == ANSWERS:
            return 0, per_row * rows * config.distillation.teachers_per_row
        evaluated = 0
        for name in plain.dev_names:
            entry, root = find_dataset(name, plain.data)[0], root_of(name, plain.data)
            evaluated += len(read_examples(entry, "dev", root)[: plain.data.max_judged_rows])
        seconds = measured.total_steps * measured.seconds_per_step + per_row * evaluated
        return times * measured.total_steps, times * seconds

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
            changes = sampled_corpus(stage, place)[0] | one
            self.models[job.name] = str(RECIPES["pretrain"](override(stage, changes)).directory)
        return self.models[job.name]
