"""``road reproduce``: train the teachers, then every arm with every seed, then make the table."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path

from road_ray.distributed.connection import connected
from road_ray.distributed.parallel_runs import run_all
from road_ray.errors import InterruptedRunError, RoadError
from road_ray.recipes.comparison.config import ReproduceConfig
from road_ray.recipes.comparison.failures import failure, same_kind
from road_ray.recipes.comparison.finetuning_plan import Plan, Unit, make_plan
from road_ray.recipes.comparison.pretraining_comparison import reproduce as reproduce_pretraining
from road_ray.recipes.comparison.table import Outcome, comparison_figures, comparison_table
from road_ray.recipes.distillation.distill import distill, fill_store
from road_ray.recipes.finetuning.finetune import finetune
from road_ray.recipes.finetuning.train_teachers import teachers
from road_ray.recipes.multitask.multitask import multitask
from road_ray.recipes.pretraining.pretrain import pretrain
from road_ray.recipes.run_directory.run import Run, load_finished_run, open_run_directory
from road_ray.reporting.report import write_report
from road_ray.system.json_file import write_json_atomic
from road_ray.training.run_context import RunContext

_log = logging.getLogger(__name__)

RECIPES: Mapping[str, Callable[..., Run]] = {
    "pretrain": pretrain,
    "multitask": multitask,
    "finetune": finetune,
    "distill": distill,
}


def reproduce(config: ReproduceConfig, context: RunContext | None = None) -> Run:
    """Run a comparison; ``table.json`` and ``report.html`` compare the arms, the metrics are
    ``eval/<arm>/<data set>/<metric>``, means over seeds.

    An arm or an ensemble of teachers that fails leaves the arms that do not need it as they are;
    the error comes after the table of the rest.
    """
    if config.of_pretraining:
        return reproduce_pretraining(config, context)
    return load_finished_run(config) or _run(config, context)


def _run(config: ReproduceConfig, context: RunContext | None) -> Run:
    with open_run_directory(config) as directory:
        plan = make_plan(config)
        cpus = config.max_concurrent if config.address is None else None
        cluster = connected(config.address, num_cpus=cpus)
        with cluster if config.max_concurrent else nullcontext():
            broken = _prepare_teachers(plan, context)
            outcomes = _run_units(config, plan, broken, context)
        table = comparison_table(config, plan, outcomes)
        write_json_atomic(directory / "table.json", table)
        figures = comparison_figures(table)
        failed = [outcome for outcome in outcomes if outcome.error is not None]
        if failed:
            write_report(directory)
            names = [(f"{o.unit.arm}, seed {o.unit.seed}", o.error) for o in failed if o.error]
            raise failure(directory, len(outcomes), names, "table.json")
        write_json_atomic(directory / "metrics.json", figures)
    return Run(directory, figures)


def _prepare_teachers(plan: Plan, context: RunContext | None) -> dict[Path, RoadError]:
    """Train all teachers and fill the store with their answers. Return the error of each ensemble
    that failed, by its directory.
    """
    broken: dict[Path, RoadError] = {}
    for ensemble in plan.ensembles:
        if error := _error_of(f"teachers {ensemble.run_dir.name}", teachers, ensemble, context):
            broken[ensemble.run_dir] = error
    for distillation in plan.distillations:
        needed = [ensemble.run_dir for ensemble in plan.ensembles_of(distillation)]
        if broken.keys().isdisjoint(needed):
            title = f"answers of {', '.join(place.name for place in needed)}"
            if error := _error_of(title, fill_store, distillation):
                broken |= dict.fromkeys(needed, error)
    return broken


def _error_of(title: str, function: Callable[..., object], *values: object) -> RoadError | None:
    """Call a function; return the error with which it failed, or None. A stop is raised."""
    try:
        function(*values)
    except InterruptedRunError:
        raise
    except RoadError as error:
        _log.error("%s failed; arms without them go on: %s", title, error)
        return same_kind(error, f"{title} failed: {error}")
    except Exception as error:
        _log.error("%s failed; arms without them go on: %s", title, traceback.format_exc())
        return RoadError(f"{title} failed: {type(error).__name__}: {error}")
    return None


def _run_units(
    config: ReproduceConfig,
    plan: Plan,
    broken: Mapping[Path, RoadError],
    context: RunContext | None,
) -> list[Outcome]:
    """Return the outcomes of all units, in order; those whose teachers failed are not run."""
    reasons = [
        next((broken[e.run_dir] for e in plan.needed_by(unit) if e.run_dir in broken), None)
        for unit in plan.units
    ]
    able = [unit for unit, reason in zip(plan.units, reasons, strict=True) if reason is None]
    results = iter(run_all(run_unit, able, config, context, return_errors=True))
    outcomes: list[Outcome] = []
    for unit, reason in zip(plan.units, reasons, strict=True):
        result = next(results) if reason is None else reason
        if isinstance(result, RoadError):  # also of a run whose process died
            result = Outcome(unit, error=result)
        outcomes.append(result)
    return outcomes


def run_unit(unit: Unit, context: RunContext | None = None) -> Outcome:
    """Run the unfinished trainings of one arm with one seed; return the metrics of the scored ones,
    or the error of the first that failed.

    Raises ``InterruptedRunError`` if the run was stopped.
    """
    metrics: dict[str, float] = {}
    for job in unit.jobs:
        try:
            run = RECIPES[job.verb](job.config, context=context)
        except InterruptedRunError:
            raise
        except RoadError as error:
            return Outcome(unit, metrics, error)
        except Exception as error:
            _log.error("%s, seed %d: %s", unit.arm, unit.seed, traceback.format_exc())
            return Outcome(unit, metrics, RoadError(f"{type(error).__name__}: {error}"))
        if job.scored:
            metrics |= run.metrics
    return Outcome(unit, metrics)
