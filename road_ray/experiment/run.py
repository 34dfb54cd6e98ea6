"""``road reproduce``: run the jobs of an experiment, then make the table. ``road demo`` is ROaD at
miniature scale: a pre-training, a multi-task training, and an experiment with three teachers and
students with few labels, with and without distillation; ``demo.yaml`` has their keys.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

from road_ray.config import load, override, read_yaml
from road_ray.data.config import MINIATURE
from road_ray.distributed.parallel_runs import NotRunError, run_all
from road_ray.errors import ConfigError, RoadError, first_line
from road_ray.experiment.config import ReproduceConfig
from road_ray.experiment.expand import ANSWERS, Experiment, Job
from road_ray.experiment.table import Outcome, experiment_table
from road_ray.recipes.config import IN_THIS_PROCESS, DemoConfig
from road_ray.recipes.evaluate import combine
from road_ray.recipes.pretraining.config import PretrainConfig
from road_ray.recipes.pretraining.pretrain import pretrain
from road_ray.recipes.run_directory.run import Run, load_finished_run, open_run_directory
from road_ray.recipes.several_runs import distill, teachers
from road_ray.recipes.train.config import MultitaskConfig
from road_ray.recipes.train.train import label_training_rows, run_training
from road_ray.reporting.report import write_report
from road_ray.system.files import write_json_atomic
from road_ray.training.run_context import RunContext

_log = logging.getLogger(__name__)
ROOT = MINIATURE  # the sizes of the demo are made for it
KEYS = read_yaml(Path(__file__).with_name("demo.yaml")).values
RECIPES: Mapping[str, Callable[..., Run]] = {
    "pretrain": pretrain,
    "multitask": run_training,
    "finetune": run_training,
    "teachers": teachers,
    "distill": distill,
    "combine": combine,
}


def reproduce(config: ReproduceConfig, context: RunContext | None = None) -> Run:
    """Run an experiment; ``table.json`` and ``report.html`` compare the arms, the metrics are
    ``eval/<arm>/<data set>/<metric>``, means over seeds.
    """
    if done := load_finished_run(config):
        return done
    with open_run_directory(config) as directory:
        return run_experiment(directory, Experiment(config), config, context)


def run_experiment(
    directory: Path,
    experiment: Experiment,
    settings: ReproduceConfig | DemoConfig,
    context: RunContext | None,
    name: str = "",
) -> Run:
    """Run the jobs of an experiment in its open run directory, and make the table. ``name`` is its
    title, by default that of the comparison.

    A job that fails, with whatever exception, is told at once and skips only those that need it;
    the error comes after the table of the rest.
    """
    jobs = experiment.jobs
    numbers = {job.name: number for number, job in enumerate(jobs)}
    after = [[numbers[needed] for needed in job.after] for job in jobs]
    runs = run_all(run_job, jobs, settings, context, after=after, return_errors=True)
    results = {job.name: run for job, run in zip(jobs, runs, strict=True)}
    outcomes = []
    for arm, seed in product(experiment.arms, experiment.seeds):
        mine = [(job, results[job.name]) for job in experiment.of_arm(arm, seed)]
        errors = [result for _, result in mine if isinstance(result, RoadError)]
        metrics: dict[str, float] = {}
        for job, result in mine:
            if job.scored and isinstance(result, Run):
                metrics |= result.metrics
        outcomes.append(Outcome(arm, seed, metrics, errors[0] if errors else None))
    table = experiment_table(experiment, outcomes, name)
    write_json_atomic(directory / "table.json", table.model_dump())
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    if failed:
        write_report(directory)
        raise _failure(directory, len(outcomes), failed)
    metrics = {}
    for row in table.arms:
        for key, figure in row.figures.items():
            metrics[f"eval/{row.name}/{key}"] = figure.mean
            if figure.deviation is not None:
                metrics[f"eval/{row.name}/{key}_deviation"] = figure.deviation
    write_json_atomic(directory / "metrics.json", metrics)
    return Run(directory, metrics)


def run_job(job: Job, context: RunContext | None = None) -> Run:
    """Run one job; one that is finished is read."""
    if job.verb == ANSWERS:
        here = {"distillation.host": "process", **IN_THIS_PROCESS}
        label_training_rows(override(job.config, here))  # type: ignore[arg-type]
        return Run(job.config.run_dir, {})
    return RECIPES[job.verb](job.config, context=context)


def _failure(directory: Path, count: int, failed: list[Outcome]) -> RoadError:
    """Return the error of ``failed`` arms of ``count``, of the kind of the first cause and with its
    exit code.
    """
    errors = [(f"{one.arm}, seed {one.seed}", one.error) for one in failed if one.error]
    listed = "\n    ".join(f"{name}: {first_line(error)}" for name, error in errors)
    first = errors[0][1]
    cause = first.cause if isinstance(first, NotRunError) else first
    # Errors of configurations are made of problems, not of a message.
    kind = ConfigError if isinstance(cause, ConfigError) else type(cause)
    return kind(
        f"{len(errors)} of {count} runs of {directory} failed:\n    {listed}\n"
        f"  the first: {first}\n"
        f"  kept: the others, and their table in {directory / 'table.json'}\n"
        "  fix: remove the cause; to run the failed ones again, run the same command"
    )


def demo(config: DemoConfig, context: RunContext | None = None) -> Run:
    """Run the demo; ``table.json`` and ``report.html`` hold the results."""
    if done := load_finished_run(config):
        return done
    with open_run_directory(config) as directory:
        _log.info("pre-training of an encoder on the embedded corpus")
        pretrain(stage(PretrainConfig, "pretrain", config), context)
        _log.info("multi-task training on four data sets")
        run_training(stage(MultitaskConfig, "multitask", config), context)
        _log.info("teachers with all labels, and students with few")
        experiment = Experiment(stage(ReproduceConfig, "students", config))
        return run_experiment(directory, experiment, config, context, "demo")


def stage(kind: type[Any], name: str, config: DemoConfig) -> Any:
    """Return the configuration of a stage: ``pretrain``, ``multitask`` or ``students``."""
    place = config.run_dir
    own: dict[str, Any] = {"data.root": ROOT, "tracking": config.tracking}
    if name != "students":
        own |= {"run_dir": place / name, "seed": config.seed, "console": config.console}
    match name:
        case "pretrain":
            own["data.shards"] = place / "corpus"
        case "multitask":
            own["init"] = place / "pretrain"
        case "students":
            own |= {"run_dir": place, "init": place / "multitask", "comparison": "own"}
            own["num_seeds"] = config.num_seeds
            own["distillation.num_teachers"] = config.num_teachers
    return load(kind, base=KEYS[name], overrides=own)
