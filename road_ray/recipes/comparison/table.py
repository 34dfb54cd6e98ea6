"""Table of a comparison: figures of each arm over seeds, tests between arms, published figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from road_ray.data.load_split import find_dataset
from road_ray.data.model_files.locate_model import MODEL_RECORD
from road_ray.data.task_and_dataset import Span
from road_ray.errors import RoadError
from road_ray.evaluation.seed_statistics import compare, holm, interval, summary
from road_ray.recipes.comparison.config import ReproduceConfig
from road_ray.recipes.comparison.finetuning_arms import Arm
from road_ray.recipes.comparison.finetuning_plan import Plan, Unit
from road_ray.reporting.health import right_counts
from road_ray.reporting.records.run_record import read_run
from road_ray.system.json_file import read_json

_SPANS = ("best_f1", "f1", "best_exact", "exact", "HasAns_f1", "NoAns_f1")


@dataclass(frozen=True)
class Outcome:
    """Metrics of an arm with one seed, or the error that ended it."""

    unit: Unit
    metrics: Mapping[str, float] = field(default_factory=dict)
    error: RoadError | None = None


def comparison_table(
    config: ReproduceConfig, plan: Plan, outcomes: Sequence[Outcome]
) -> dict[str, Any]:
    """Return the content of ``table.json``: ``arms`` with their figures, ``tests`` between arms on
    the first metric of each data set, ``ensembles``, and ``failed`` runs.
    """
    done = [outcome for outcome in outcomes if outcome.error is None]
    metrics = _metrics(config, done)
    by_arm: dict[str, dict[int, Outcome]] = {arm.name: {} for arm in plan.arms}
    for outcome in done:
        by_arm[outcome.unit.arm][outcome.unit.seed] = outcome
    speeds = _speeds(done)
    return {
        "comparison": config.comparison,
        "about": plan.comparison.about,
        "source": plan.comparison.source,
        "data_sets": metrics,
        "arms": [_arm(arm, by_arm[arm.name], metrics, speeds) for arm in plan.arms],
        "ensembles": [_ensemble(ensemble, metrics) for ensemble in plan.ensembles],
        "tests": [
            test
            for dataset, names in metrics.items()
            if names
            for test in _tests(plan, by_arm, dataset, names)
        ],
        "failed": [
            {"arm": failed.unit.arm, "seed": failed.unit.seed, "error": str(failed.error)}
            for failed in outcomes
            if failed.error is not None
        ],
    }


def comparison_figures(table: Mapping[str, Any]) -> dict[str, float]:
    """Return ``eval/<arm>/<data set>/<metric>`` and its ``_deviation``."""
    figures = {}
    for arm in table["arms"]:
        for name, figure in arm["figures"].items():
            figures[f"eval/{arm['name']}/{name}"] = figure["mean"]
            if figure["deviation"] is not None:
                figures[f"eval/{arm['name']}/{name}_deviation"] = figure["deviation"]
    return figures


def _metrics(config: ReproduceConfig, done: Iterable[Outcome]) -> dict[str, list[str]]:
    """Return the shown metrics of each evaluated data set, the tested one first."""
    names = {
        name.removeprefix("eval/"): None
        for outcome in done
        for name in outcome.metrics
        if name.startswith("eval/")
    }
    shown: dict[str, list[str]] = {}
    for name in dict.fromkeys(name.split("/")[0] for name in names):
        entry, task = find_dataset(name, config.data)
        metrics = _SPANS if isinstance(task.kind, Span) else entry.metrics
        if isinstance(task.kind, Span) and f"{name}/NoAns_f1" not in names:
            metrics = ("f1", "exact")
        shown[name] = [metric for metric in metrics if f"{name}/{metric}" in names]
    return shown


def _arm(
    arm: Arm,
    by_seed: Mapping[int, Outcome],
    metrics: Mapping[str, Sequence[str]],
    speeds: Mapping[int, float],
) -> dict[str, Any]:
    figures = {}
    for dataset, names in metrics.items():
        for metric in names:
            values = _values(by_seed, dataset, metric)
            if values:
                figure = _figure(values)
                figure["published"] = arm.published.get(f"{dataset}/{metric}")
                figures[f"{dataset}/{metric}"] = figure
    units = [by_seed[seed].unit for seed in sorted(by_seed)]
    parameters = next((record.get("parameters") for record in _records(units)), None)
    return {
        "name": arm.name,
        "about": arm.about,
        "seeds": sorted(by_seed),
        "figures": figures,
        "parameters": parameters,
        "rows_per_second": speeds.get(parameters or 0),
        "teachers_right": _right(units),
    }


def _values(by_seed: Mapping[int, Outcome], dataset: str, metric: str) -> dict[int, float]:
    name = f"eval/{dataset}/{metric}"
    return {
        seed: float(by_seed[seed].metrics[name])
        for seed in sorted(by_seed)
        if name in by_seed[seed].metrics
    }


def _figure(values: Mapping[int, float]) -> dict[str, Any]:
    statistics, bounds = summary([*values.values()]), interval([*values.values()])
    return {
        "mean": statistics.mean,
        "deviation": statistics.deviation,
        "low": bounds[0] if bounds else None,
        "high": bounds[1] if bounds else None,
        "values": {str(seed): value for seed, value in values.items()},
    }


def _ensemble(config: Any, metrics: Mapping[str, Sequence[str]]) -> dict[str, Any]:
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
    plan: Plan,
    by_arm: Mapping[str, Mapping[int, Outcome]],
    dataset: str,
    metrics: Sequence[str],
) -> list[dict[str, Any]]:
    """Return the tests on one data set; ``p_holm`` corrects for the number of them."""
    rows = []
    for arm in plan.arms[1:]:
        values = _values(by_arm[arm.name], dataset, metrics[0])
        for other in arm.against or (plan.arms[0].name,):
            baseline = _values(by_arm[other], dataset, metrics[0])
            seeds = sorted(values.keys() & baseline.keys())
            if len(seeds) < 2:
                continue
            test = compare([values[seed] for seed in seeds], [baseline[seed] for seed in seeds])
            row = {"data_set": dataset, "metric": metrics[0], "arm": arm.name, "against": other}
            rows.append(row | asdict(test))
    corrected = holm([row["p_value"] for row in rows])
    return [row | {"p_holm": value} for row, value in zip(rows, corrected, strict=True)]


def _records(units: Iterable[Unit]) -> list[dict[str, Any]]:
    """Return the model records of the trained models."""
    paths = [unit.jobs[-1].config.run_dir / "hf" / MODEL_RECORD for unit in units]
    return [read_json(path) for path in paths if path.is_file()]


def _speeds(outcomes: Iterable[Outcome]) -> dict[int, float]:
    """Return rows a second for each number of parameters: the most that was measured, because
    models of one size share an architecture and other work only makes a measurement slower.
    """
    speeds: dict[int, float] = {}
    for record in _records(outcome.unit for outcome in outcomes):
        for cost in filter(None, (record.get("cost_of_init"), record.get("cost"))):
            size = cost["parameters"]
            speeds[size] = max(cost["rows_per_second"], speeds.get(size, 0.0))
    return speeds


def _right(units: Sequence[Unit]) -> list[float] | None:
    """Return the shares of labelled training rows on which 0, 1, ... teachers were right."""
    counts = [
        right_counts(read_run(job.config.run_dir))
        for unit in units
        for job in unit.jobs
        if job.scored and job.verb == "distill"
    ]
    sums = [sum(column) for column in zip(*filter(None, counts), strict=False)]
    return [count / sum(sums) for count in sums] if sums else None
