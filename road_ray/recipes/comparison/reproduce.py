"""``road reproduce``: train the teachers, then every arm with every seed, then make the table."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

from road_ray.distributed.connection import connected
from road_ray.distributed.parallel import run_all
from road_ray.errors import InterruptedRunError, RoadError
from road_ray.recipes.comparison.config import ReproduceConfig
from road_ray.recipes.comparison.pretraining_comparison import reproduce as reproduce_pretraining
from road_ray.recipes.comparison.table import Outcome, comparison_figures, comparison_table
from road_ray.recipes.comparison.units import Unit, make_plan
from road_ray.recipes.distillation.distill import distill, fill_store
from road_ray.recipes.finetuning.finetune import finetune
from road_ray.recipes.finetuning.teachers import teachers
from road_ray.recipes.multitask.multitask import multitask
from road_ray.recipes.pretraining.pretrain import pretrain
from road_ray.recipes.run_directory.run import Run, load_finished_run, open_run_directory
from road_ray.reporting.report import write_report
from road_ray.system.json_file import write_json_atomic
from road_ray.training.context import RunContext

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

    An arm that fails leaves the others as they are; the error comes after the table of the rest.
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
            for ensemble in plan.ensembles:
                teachers(ensemble, context)
            for distillation in plan.distillations:
                fill_store(distillation)
            outcomes: list[Outcome] = run_all(run_unit, plan.units, config, context)
        table = comparison_table(config, plan, outcomes)
        write_json_atomic(directory / "table.json", table)
        figures = comparison_figures(table)
        failed = [outcome for outcome in outcomes if outcome.error is not None]
        if failed:
            write_report(directory)
            raise _failure(directory, len(outcomes), failed)
        write_json_atomic(directory / "metrics.json", figures)
    return Run(directory, figures)


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


def _failure(directory: Path, count: int, failed: Sequence[Outcome]) -> RoadError:
    """Return the error of a comparison with failed runs, of the kind of the first."""
    first = failed[0].error
    assert first is not None
    lines = [
        f"{outcome.unit.arm}, seed {outcome.unit.seed}: {str(outcome.error).splitlines()[0]}"
        for outcome in failed
    ]
    listed = "\n    ".join(lines)
    return type(first)(
        f"{len(failed)} of {count} runs of {directory} failed:\n    {listed}\n"
        f"  the first: {first}\n"
        f"  kept: the others, and their table in {directory / 'table.json'}\n"
        "  fix: remove the cause; to run the failed ones again, run the same command"
    )
