"""Table of an experiment: metrics of each arm over seeds, tests between arms, published ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from road_ray.data.config import SourceConfig
from road_ray.data.load_split import find_dataset
from road_ray.data.model_files import MODEL_RECORD
from road_ray.data.task_and_dataset import Span
from road_ray.errors import RoadError
from road_ray.evaluation.glue import electra_figure
from road_ray.experiment.expand import Experiment, Job
from road_ray.recipes.train.config import TeachersConfig
from road_ray.reporting.health import right_counts
from road_ray.reporting.records.comparison_table import figure_over_seeds, paired_tests
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
) -> dict[str, Any]:
    """Return the content of ``table.json``: ``arms`` with their figures, ``tests`` between arms on
    the first metric of each data set, ``ensembles``, and ``failed`` runs.
    """
    done = [outcome for outcome in outcomes if outcome.error is None]
    if experiment.config.of_pretraining:  # ELECTRA's tables have the mean over the data sets
        entries = [find_dataset(name, experiment.config.data)[0] for name in experiment.targets]
        for number, outcome in enumerate(done):
            scores = [electra_figure(entry, outcome.metrics) for entry in entries]
            score = {f"eval/{SCORE}": sum(scores) / len(scores)}
            done[number] = replace(outcome, metrics=score | dict(outcome.metrics))
    metrics = _metrics(experiment.config.data, done)
    by_arm: dict[str, dict[int, Outcome]] = {arm: {} for arm in experiment.arms}
    for outcome in done:
        by_arm[outcome.arm][outcome.seed] = outcome
    return {
        "comparison": name or experiment.config.comparison,
        "about": experiment.config.compared.about or experiment.config.run_dir.name,
        "source": experiment.config.compared.source,
        "data_sets": metrics,
        "arms": [_arm(experiment, arm, by_arm[arm], metrics) for arm in by_arm],
        "ensembles": [_ensemble(ensemble, metrics) for ensemble in experiment.ensembles],
        "tests": [
            test
            for dataset, names in metrics.items()
            if names and not (experiment.config.of_pretraining and dataset != "glue")
            for test in _tests(experiment, by_arm, dataset, names)
        ],
        "failed": [
            {"arm": failed.arm, "seed": failed.seed, "error": str(failed.error)}
            for failed in outcomes
            if failed.error is not None
        ],
    }


def experiment_metrics(table: Mapping[str, Any]) -> dict[str, float]:
    """Return ``eval/<arm>/<data set>/<metric>`` and its ``_deviation``."""
    figures = {}
    for arm in table["arms"]:
        for name, figure in arm["figures"].items():
            figures[f"eval/{arm['name']}/{name}"] = figure["mean"]
            if figure["deviation"] is not None:
                figures[f"eval/{arm['name']}/{name}_deviation"] = figure["deviation"]
    return figures


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


def _arm(
    experiment: Experiment,
    name: str,
    by_seed: Mapping[int, Outcome],
    metrics: Mapping[str, Sequence[str]],
) -> dict[str, Any]:
    arm, figures = experiment.arms[name], {}
    for dataset, names in metrics.items():
        for metric in names:
            values = _values(by_seed, dataset, metric)
            if values:
                figure = figure_over_seeds(values)
                figure["published"] = arm.published.get(f"{dataset}/{metric}")
                figures[f"{dataset}/{metric}"] = figure
    jobs = [job for seed in sorted(by_seed) for job in experiment.of_arm(name, seed) if job.scored]
    records = (job.config.run_dir / "hf" / MODEL_RECORD for job in jobs)
    sizes = (read_json(path).get("parameters") for path in records if path.is_file())
    return {
        "name": name,
        "about": arm.about or name,
        "seeds": sorted(by_seed),
        "figures": figures,
        "parameters": next(sizes, None),
        "teachers_right": _right(jobs),
    }


def _values(by_seed: Mapping[int, Outcome], dataset: str, metric: str) -> dict[int, float]:
    name = f"eval/{dataset}/{metric}"
    return {
        seed: float(by_seed[seed].metrics[name])
        for seed in sorted(by_seed)
        if name in by_seed[seed].metrics
    }


def _ensemble(config: TeachersConfig, metrics: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the figures of an ensemble and the mean and deviation of its teachers; an ensemble
    that failed has none.
    """
    path = config.run_dir / "metrics.json"
    recorded = read_json(path) if path.is_file() else {}
    figures = {}
    for dataset, names in metrics.items():
        for metric in names:
            single = recorded.get(f"eval/{dataset}/{metric}")
            if single is not None:
                figures[f"{dataset}/{metric}"] = {
                    "teachers": single,
                    "deviation": recorded.get(f"eval/{dataset}/{metric}_deviation"),
                    "ensemble": recorded.get(f"eval/{dataset}/ensemble_{metric}"),
                }
    return {"name": config.run_dir.name, "teachers": config.num_teachers, "figures": figures}


def _tests(
    experiment: Experiment,
    by_arm: Mapping[str, Mapping[int, Outcome]],
    dataset: str,
    metrics: Sequence[str],
) -> list[dict[str, Any]]:
    """Return the tests on one data set; ``p_holm`` corrects for the number of them."""
    scores = {name: _values(by_arm[name], dataset, metrics[0]) for name in experiment.arms}
    first, *others = experiment.arms
    against = {name: experiment.arms[name].against or (first,) for name in others}
    both = {"data_set": dataset, "metric": metrics[0]}
    return [both | test for test in paired_tests(scores, against)]


def _right(jobs: Iterable[Job]) -> list[float] | None:
    """Return the shares of labelled training rows on which 0, 1, ... teachers were right."""
    counts = [right_counts(read_run(job.config.run_dir)) for job in jobs if job.verb == "distill"]
    sums = [sum(column) for column in zip(*filter(None, counts), strict=False)]
    return [count / sum(sums) for count in sums] if sums else None
