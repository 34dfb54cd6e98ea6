"""``road reproduce``: run the jobs of an experiment, then make the table. ``road demo`` is ROaD at
miniature scale: a pre-training, a multi-task training, and an experiment with three teachers and
students with few labels, with and without distillation; ``demo.yaml`` has their keys.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from road_ray.config import load, read_yaml
from road_ray.data.config import SourceConfig
from road_ray.data.load_split import find_dataset
from road_ray.data.model_files import MODEL_RECORD
from road_ray.data.task_and_dataset import Span
from road_ray.distributed.parallel_runs import NotRunError, run_all
from road_ray.errors import ConfigError, RoadError, first_line
from road_ray.evaluation.glue import electra_score
from road_ray.experiment.config import OWN, ReproduceConfig
from road_ray.experiment.expand import Experiment
from road_ray.recipes.config import CombineConfig, DemoConfig, RunConfig
from road_ray.recipes.evaluate import combine
from road_ray.recipes.pretraining.config import PretrainConfig
from road_ray.recipes.pretraining.pretrain import pretrain
from road_ray.recipes.run_directory.run import Run, load_finished_run, open_run_directory
from road_ray.recipes.several_runs import distill, teachers
from road_ray.recipes.train.config import DistillConfig, MultitaskConfig, TeachersConfig
from road_ray.recipes.train.train import run_training
from road_ray.reporting.health import right_counts
from road_ray.reporting.records.comparison_table import (
    Arm,
    ComparisonTable,
    Failed,
    Score,
    arm_of,
    paired_tests,
)
from road_ray.reporting.records.run_record import read_run
from road_ray.reporting.report import write_report
from road_ray.system.files import read_json, write_json_atomic
from road_ray.training.run_context import RunContext

_log = logging.getLogger(__name__)
KEYS = read_yaml(Path(__file__).with_name("demo.yaml")).values
RECIPES: Mapping[type[RunConfig], Callable[..., Run]] = {
    PretrainConfig: pretrain,
    TeachersConfig: teachers,
    DistillConfig: distill,
    CombineConfig: combine,
}
_SPANS = ("best_f1", "f1", "best_exact", "exact", "HasAns_f1", "NoAns_f1")
Done = dict[str, dict[int, Mapping[str, float]]]
"""Metrics of the runs that have ended well, by arm and seed."""


def reproduce(config: ReproduceConfig, context: RunContext | None = None) -> Run:
    """Run an experiment; ``table.json`` and ``report.html`` compare the arms, the metrics are
    ``eval/<arm>/<data set>/<metric>``, means over seeds.
    """
    if done := load_finished_run(config):
        return done
    with open_run_directory(config):
        return run_experiment(Experiment(config), context)


def run_experiment(experiment: Experiment, context: RunContext | None) -> Run:
    """Run the jobs of an experiment in its open run directory, and make the table.

    A job that fails, with whatever exception, is told at once and skips only those that need it;
    the error comes after the table of the rest, of the kind of the first cause.
    """
    config, directory = experiment.config, experiment.config.run_dir
    configs = {name: job.config for name, job in experiment.jobs.items()}
    after = {name: job.after for name, job in experiment.jobs.items()}
    results = run_all(run_job, configs, config, context, after=after, return_errors=True)
    done: Done = {arm: {} for arm in experiment.arms}
    failed: list[Failed] = []
    for arm, seed in product(experiment.arms, experiment.seeds):
        mine = [(job, results[job.name]) for job in experiment.of_arm(arm, seed)]
        if errors := [found for _, found in mine if isinstance(found, RoadError)]:
            failed.append(Failed(arm=arm, seed=seed, error=str(errors[0])))
            continue
        scored = [found.metrics for job, found in mine if job.scored]
        done[arm][seed] = {key: value for metrics in scored for key, value in metrics.items()}
    table = experiment_table(experiment, done, failed)
    write_json_atomic(directory / "table.json", table.model_dump())
    if failed:
        write_report(directory)
        listed = "\n    ".join(f"{x.arm}, seed {x.seed}: {first_line(x.error)}" for x in failed)
        errors = [found for found in results.values() if isinstance(found, RoadError)]
        causes = [error for error in errors if not isinstance(error, NotRunError)]
        # Errors of configurations are made of problems, not of a message.
        kind = ConfigError if isinstance(causes[0], ConfigError) else type(causes[0])
        raise kind(
            f"{len(failed)} of {len(experiment.arms) * len(experiment.seeds)} runs of {directory} "
            f"failed:\n    {listed}\n  the first: {failed[0].error}\n"
            f"  kept: the others, and their table in {directory / 'table.json'}\n"
            "  fix: remove the cause; to run the failed ones again, run the same command"
        )
    metrics = {}
    for row in table.arms:
        for key, figure in row.figures.items():
            metrics[f"eval/{row.name}/{key}"] = figure.mean
            if figure.deviation is not None:
                metrics[f"eval/{row.name}/{key}_deviation"] = figure.deviation
    write_json_atomic(directory / "metrics.json", metrics)
    return Run(directory, metrics)


def run_job(config: RunConfig, context: RunContext | None = None) -> Run:
    """Run one job; one that is finished is read."""
    return RECIPES.get(type(config), run_training)(config, context=context)


def experiment_table(
    experiment: Experiment, done: Done, failed: Sequence[Failed] = ()
) -> ComparisonTable:
    """Return the table of an experiment: its arms with their metrics, tests between arms on the
    first metric of each data set, the teachers, and runs that failed.
    """
    config, own = experiment.config, experiment.config.run_dir.resolve().name
    metrics = _metrics(config.data, [found for runs in done.values() for found in runs.values()])
    tested = {dataset: names for dataset, names in metrics.items() if names}
    if config.of_pretraining:  # ELECTRA's tables have the mean over the data sets
        entries = [find_dataset(name, config.data)[0] for name in experiment.targets]
        for runs in done.values():
            for seed, found in runs.items():
                single = [electra_score(entry, found) for entry in entries]
                runs[seed] = {"eval/glue/score": sum(single) / len(single), **found}
        tested = {"glue": ["score"]}
        metrics = tested | metrics
    shown = [f"{dataset}/{metric}" for dataset, names in metrics.items() for metric in names]
    arms = [_arm(experiment, arm, runs, shown) for arm, runs in done.items()]
    first = arms[0].name
    against = {name: arm.against or (first,) for name, arm in experiment.arms.items()}
    against[first] = experiment.arms[first].against
    return ComparisonTable(
        comparison=own if config.comparison == OWN else config.comparison,
        about=config.experiment.about or own,
        source=config.experiment.source,
        data_sets=metrics,
        arms=arms,
        teachers=[row for one in experiment.ensembles for row in _teachers(one, shown)],
        tests=paired_tests(arms, against, tested),
        failed=[*failed],
    )


def _metrics(data: SourceConfig, done: Iterable[Mapping[str, float]]) -> dict[str, list[str]]:
    """Return the shown metrics of each evaluated data set, the tested one first."""
    names = [n.removeprefix("eval/") for found in done for n in found if n.startswith("eval/")]
    shown: dict[str, list[str]] = {}
    for name in dict.fromkeys(name.split("/")[0] for name in names):
        entry, task = find_dataset(name, data)
        metrics = _SPANS if isinstance(task.kind, Span) else entry.figures
        if isinstance(task.kind, Span) and f"{name}/NoAns_f1" not in names:
            metrics = ("f1", "exact")
        shown[name] = [metric for metric in metrics if f"{name}/{metric}" in names]
    return shown


def _arm(
    experiment: Experiment,
    name: str,
    runs: Mapping[int, Mapping[str, float]],
    metrics: Sequence[str],
) -> Arm:
    arm = experiment.arms[name]
    jobs = [job for seed in runs for job in experiment.of_arm(name, seed) if job.scored]
    records = (job.config.run_dir / "hf" / MODEL_RECORD for job in jobs)
    sizes = (read_json(path).get("parameters") for path in records if path.is_file())
    counts = [
        right_counts(read_run(job.config.run_dir))
        for job in jobs
        if isinstance(job.config, DistillConfig)
    ]
    sums = [sum(column) for column in zip(*filter(None, counts), strict=False)]
    return arm_of(
        name,
        arm.about or name,
        runs,
        metrics,
        arm.published,
        parameters=next(sizes, None),
        # Shares of labelled training rows on which 0, 1, ... teachers were right.
        teachers_right=[count / sum(sums) for count in sums] if sums else None,
    )


def _teachers(config: TeachersConfig, names: Sequence[str]) -> Iterator[Arm]:
    """Yield the single teachers, with the mean and deviation of their metrics, and their ensemble;
    nothing for teachers that failed.
    """
    path = config.run_dir / "metrics.json"
    recorded = read_json(path) if path.is_file() else {}
    every = [*range(config.num_teachers * config.num_folds)]
    for what, kind, seeds in (("single teachers", "", every), ("the ensemble", "ensemble_", [0])):
        figures = {}
        for metric in names:
            data_set, _, plain = metric.partition("/")
            key = f"eval/{data_set}/{kind}{plain}"
            if (mean := recorded.get(key)) is not None:
                figures[metric] = Score(mean=mean, deviation=recorded.get(f"{key}_deviation"))
        if figures:
            about = f"{config.run_dir.name}: {what}"
            yield Arm(name=about, about=about, seeds=seeds, figures=figures)


def demo(config: DemoConfig, context: RunContext | None = None) -> Run:
    """Run the demo; ``table.json`` and ``report.html`` hold the results."""
    if done := load_finished_run(config):
        return done
    with open_run_directory(config):
        _log.info("pre-training of an encoder on the embedded corpus")
        pretrain(stage(PretrainConfig, "pretrain", config), context)
        _log.info("multi-task training on four data sets")
        run_training(stage(MultitaskConfig, "multitask", config), context)
        _log.info("teachers with all labels, and students with few")
        return run_experiment(Experiment(stage(ReproduceConfig, "students", config)), context)


def stage(kind: type[Any], name: str, config: DemoConfig) -> Any:
    """Return the configuration of a stage: ``pretrain``, ``multitask`` or ``students``."""
    place: Path = config.run_dir
    run: dict[str, Any] = {"seed": config.seed, "console": config.console}
    own = {
        "pretrain": run | {"run_dir": place / name, "data.shards": place / "corpus"},
        "multitask": run | {"run_dir": place / name, "init": place / "pretrain"},
        "students": {"run_dir": place, "init": place / "multitask"}
        | {"num_seeds": config.num_seeds, "distillation.num_teachers": config.num_teachers}
        | {"max_concurrent": config.max_concurrent, "address": config.address},
    }[name]
    return load(kind, base=KEYS[name], overrides=own | {"tracking": config.tracking})
