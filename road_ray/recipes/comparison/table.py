"""The table of a comparison: figures of each arm over seeds, tests between arms, published figures
beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from road_ray.data.loading import find_dataset
from road_ray.data.model_files import MODEL_RECORD
from road_ray.data.schema import Span
from road_ray.errors import RoadError
from road_ray.evaluation.metrics import summary
from road_ray.evaluation.significance import compare, holm, interval
from road_ray.recipes.comparison.config import ReproduceConfig
from road_ray.recipes.comparison.finetuning_catalog import Arm
from road_ray.recipes.comparison.units import Plan, Unit
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
    done = [one for one in outcomes if one.error is None]
    metrics = _metrics(config, done)
    by_arm = {
        arm.name: {one.unit.seed: one for one in done if one.unit.arm == arm.name}
        for arm in plan.arms
    }
    return {
        "comparison": config.comparison,
        "about": plan.comparison.about,
        "source": plan.comparison.source,
        "data_sets": {name: list(own) for name, own in metrics.items()},
        "arms": [_arm(arm, by_arm[arm.name], metrics) for arm in plan.arms],
        "ensembles": [_ensemble(one, metrics) for one in plan.ensembles],
        "tests": [
            test for name, own in metrics.items() if own for test in _tests(plan, by_arm, name, own)
        ],
        "failed": [
            {"arm": one.unit.arm, "seed": one.unit.seed, "error": str(one.error)}
            for one in outcomes
            if one.error is not None
        ],
    }


def comparison_figures(table: Mapping[str, Any]) -> dict[str, float]:
    """Return ``eval/<arm>/<data set>/<metric>`` and its ``_deviation``."""
    found = {}
    for arm in table["arms"]:
        for name, figure in arm["figures"].items():
            found[f"eval/{arm['name']}/{name}"] = figure["mean"]
            if figure["deviation"] is not None:
                found[f"eval/{arm['name']}/{name}_deviation"] = figure["deviation"]
    return found


def _metrics(config: ReproduceConfig, done: Iterable[Outcome]) -> dict[str, list[str]]:
    """Return the shown metrics of each evaluated data set, the tested one first."""
    names = {
        name.removeprefix("eval/"): None
        for one in done
        for name in one.metrics
        if name.startswith("eval/")
    }
    found: dict[str, list[str]] = {}
    for name in dict.fromkeys(name.split("/")[0] for name in names):
        entry, task = find_dataset(name, config.data)
        wanted = _SPANS if isinstance(task.kind, Span) else entry.metrics
        if isinstance(task.kind, Span) and f"{name}/NoAns_f1" not in names:
            wanted = ("f1", "exact")
        found[name] = [one for one in wanted if f"{name}/{one}" in names]
    return found


def _arm(
    arm: Arm, by_seed: Mapping[int, Outcome], metrics: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    figures = {}
    for dataset, own in metrics.items():
        for metric in own:
            values = _values(by_seed, dataset, metric)
            if values:
                figure = _figure(values)
                figure["published"] = arm.published.get(f"{dataset}/{metric}")
                figures[f"{dataset}/{metric}"] = figure
    row = {"name": arm.name, "about": arm.about, "seeds": sorted(by_seed), "figures": figures}
    units = [by_seed[seed].unit for seed in sorted(by_seed)]
    return row | _cost(units) | _right(units)


def _values(by_seed: Mapping[int, Outcome], dataset: str, metric: str) -> dict[int, float]:
    name = f"eval/{dataset}/{metric}"
    return {
        seed: float(by_seed[seed].metrics[name])
        for seed in sorted(by_seed)
        if name in by_seed[seed].metrics
    }


def _figure(values: Mapping[int, float]) -> dict[str, Any]:
    found, around = summary([*values.values()]), interval([*values.values()])
    return {
        "mean": found.mean,
        "deviation": found.deviation,
        "low": around[0] if around else None,
        "high": around[1] if around else None,
        "values": {str(seed): value for seed, value in values.items()},
    }


def _ensemble(config: Any, metrics: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the figures of an ensemble and the mean and deviation of its teachers."""
    found = read_json(config.run_dir / "metrics.json")
    figures = {}
    for dataset, own in metrics.items():
        for metric in own:
            single = found.get(f"eval/{dataset}/{metric}")
            if single is not None:
                figures[f"{dataset}/{metric}"] = {
                    "teachers": single,
                    "deviation": found.get(f"eval/{dataset}/{metric}_deviation"),
                    "ensemble": found.get(f"eval/{dataset}/ensemble_{metric}"),
                }
    return {"name": config.run_dir.name, "teachers": config.num_teachers, "figures": figures}


def _tests(
    plan: Plan,
    by_arm: Mapping[str, Mapping[int, Outcome]],
    dataset: str,
    metrics: Sequence[str],
) -> list[dict[str, Any]]:
    """Return the tests on one data set; ``p_holm`` corrects for the number of them."""
    found = []
    for arm in plan.arms[1:]:
        ours = _values(by_arm[arm.name], dataset, metrics[0])
        for other in arm.against or (plan.arms[0].name,):
            theirs = _values(by_arm[other], dataset, metrics[0])
            both = sorted(ours.keys() & theirs.keys())
            if len(both) < 2:
                continue
            test = compare([ours[seed] for seed in both], [theirs[seed] for seed in both])
            row = {"data_set": dataset, "metric": metrics[0], "arm": arm.name, "against": other}
            found.append(row | asdict(test))
    corrected = holm([row["p_value"] for row in found])
    return [row | {"p_holm": value} for row, value in zip(found, corrected, strict=True)]


def _cost(units: Sequence[Unit]) -> dict[str, Any]:
    """Return parameters, and rows a second where they were measured, of the first trained model."""
    for unit in units:
        path = unit.jobs[-1].config.run_dir / "hf" / MODEL_RECORD
        if path.is_file():
            record = read_json(path)
            cost = record.get("cost") or {}
            return {
                "parameters": record.get("parameters"),
                "rows_per_second": cost.get("rows_per_second"),
            }
    return {"parameters": None, "rows_per_second": None}


def _right(units: Sequence[Unit]) -> dict[str, Any]:
    """Return the shares of labelled training rows on which 0, 1, ... teachers were right."""
    counts = [
        right_counts(read_run(job.config.run_dir))
        for unit in units
        for job in unit.jobs
        if job.scored and job.verb == "distill"
    ]
    sums = [sum(column) for column in zip(*filter(None, counts), strict=False)]
    return {"teachers_right": [one / sum(sums) for one in sums] if sums else None}
