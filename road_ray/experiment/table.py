"""Table of an experiment: metrics of each arm over seeds, tests between arms, published ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from road_ray.data.config import SourceConfig
from road_ray.data.load_split import find_dataset
from road_ray.data.model_files import MODEL_RECORD
from road_ray.data.task_and_dataset import Span
from road_ray.errors import RoadError
from road_ray.evaluation.glue import electra_score
from road_ray.experiment.expand import Experiment, Job
from road_ray.recipes.train.config import TeachersConfig
from road_ray.reporting.health import right_counts
from road_ray.reporting.records.comparison_table import (
    Arm,
    ComparisonTable,
    Failed,
    Score,
    Scores,
    arm_of,
    paired_tests,
)
from road_ray.reporting.records.run_record import read_run
from road_ray.system.files import read_json

_SPANS = ("best_f1", "f1", "best_exact", "exact", "HasAns_f1", "NoAns_f1")
SCORE = "glue/score"  # of comparisons of pre-training: the mean over the data sets


@dataclass(frozen=True)
class Outcome:
    """Metrics of an arm with one seed, or the error that ended it."""

    arm: str
    seed: int
    metrics: Mapping[str, float] = field(default_factory=dict)
    error: RoadError | None = None


def experiment_table(
    experiment: Experiment, outcomes: Sequence[Outcome], name: str = ""
) -> ComparisonTable:
    """Return the table of an experiment: its arms with their metrics, tests between arms on the
    first metric of each data set, the teachers, and runs that failed.
    """
    done = [outcome for outcome in outcomes if outcome.error is None]
    if experiment.config.of_pretraining:  # ELECTRA's tables have the mean over the data sets
        entries = [find_dataset(name, experiment.config.data)[0] for name in experiment.targets]
        for number, outcome in enumerate(done):
            single = [electra_score(entry, outcome.metrics) for entry in entries]
            score = {f"eval/{SCORE}": sum(single) / len(single)}
            done[number] = replace(outcome, metrics=score | dict(outcome.metrics))
    metrics = _metrics(experiment.config.data, done)
    tested = {
        dataset: names
        for dataset, names in metrics.items()
        if names and (dataset == "glue" or not experiment.config.of_pretraining)
    }
    shown = [f"{dataset}/{metric}" for dataset, names in metrics.items() for metric in names]
    scores = {
        arm: _scores([one for one in done if one.arm == arm], shown) for arm in experiment.arms
    }
    first, *others = experiment.arms
    against = {arm: experiment.arms[arm].against or (first,) for arm in others}
    return ComparisonTable(
        comparison=name or experiment.config.comparison,
        about=experiment.config.compared.about or experiment.config.run_dir.name,
        source=experiment.config.compared.source,
        data_sets=metrics,
        arms=[
            _arm(experiment, arm, sorted(one.seed for one in done if one.arm == arm), scores[arm])
            for arm in experiment.arms
        ],
        teachers=[row for one in experiment.ensembles for row in _teachers(one, shown)],
        tests=paired_tests(scores, against, tested),
        failed=[
            Failed(arm=one.arm, seed=one.seed, error=str(one.error))
            for one in outcomes
            if one.error is not None
        ],
    )


def _scores(of_arm: Sequence[Outcome], shown: Sequence[str]) -> Scores:
    """Return the values of an arm by metric and seed, in the order of the seeds."""
    ordered = sorted(of_arm, key=lambda outcome: outcome.seed)
    return {
        name: {
            outcome.seed: float(outcome.metrics[f"eval/{name}"])
            for outcome in ordered
            if f"eval/{name}" in outcome.metrics
        }
        for name in shown
    }


def _metrics(data: SourceConfig, done: Iterable[Outcome]) -> dict[str, list[str]]:
    """Return the shown metrics of each evaluated data set, the tested one first."""
    names = {
        name.removeprefix("eval/"): None
        for outcome in done
        for name in outcome.metrics
        if name.startswith("eval/")
    }
    shown: dict[str, list[str]] = {}
    for name in dict.fromkeys(name.split("/")[0] for name in names):
        if f"{name}/score" == SCORE:
            shown[name] = ["score"]
            continue
        entry, task = find_dataset(name, data)
        metrics = _SPANS if isinstance(task.kind, Span) else entry.metrics
        if isinstance(task.kind, Span) and f"{name}/NoAns_f1" not in names:
            metrics = ("f1", "exact")
        shown[name] = [metric for metric in metrics if f"{name}/{metric}" in names]
    return shown


def _arm(experiment: Experiment, name: str, seeds: Sequence[int], scores: Scores) -> Arm:
    arm = experiment.arms[name]
    jobs = [job for seed in seeds for job in experiment.of_arm(name, seed) if job.scored]
    records = (job.config.run_dir / "hf" / MODEL_RECORD for job in jobs)
    sizes = (read_json(path).get("parameters") for path in records if path.is_file())
    about, parameters, right = arm.about or name, next(sizes, None), _right(jobs)
    return arm_of(
        name, about, seeds, scores, arm.published, parameters=parameters, teachers_right=right
    )


def _teachers(config: TeachersConfig, names: Sequence[str]) -> Iterator[Arm]:
    """Yield the single teachers, with the mean and deviation of their metrics, and their ensemble;
    nothing for teachers that failed.
    """
    path, name = config.run_dir / "metrics.json", config.run_dir.name
    recorded = read_json(path) if path.is_file() else {}
    single, together = {}, {}
    for metric in names:
        data_set, _, plain = metric.partition("/")
        if (mean := recorded.get(f"eval/{metric}")) is not None:
            deviation = recorded.get(f"eval/{metric}_deviation")
            single[metric] = Score(mean=mean, deviation=deviation)
        if (mean := recorded.get(f"eval/{data_set}/ensemble_{plain}")) is not None:
            together[metric] = Score(mean=mean)
    for what, seeds, figures in (
        ("single teachers", [*range(config.num_teachers)], single),
        ("the ensemble", [0], together),
    ):
        if figures:
            about = f"{name}: {what}"
            yield Arm(name=about, about=about, seeds=seeds, figures=figures)


def _right(jobs: Iterable[Job]) -> list[float] | None:
    """Return the shares of labelled training rows on which 0, 1, ... teachers were right."""
    counts = [right_counts(read_run(job.config.run_dir)) for job in jobs if job.verb == "distill"]
    sums = [sum(column) for column in zip(*filter(None, counts), strict=False)]
    return [count / sum(sums) for count in sums] if sums else None
