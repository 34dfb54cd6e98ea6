"""Verbs whose run may consist of several: ``finetune`` (seeds, data sets), ``teachers`` (seeds,
folds) and ``distill`` (generations). Each inner run is a run of its own below the run directory,
resumes by itself and has the next seed.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, TypeVar

from road_ray.config import override
from road_ray.config.base import as_base
from road_ray.data.load_split import has_files
from road_ray.data.model_files import locate_model
from road_ray.distributed.connection import connected
from road_ray.distributed.parallel_runs import run_all
from road_ray.errors import ConfigError
from road_ray.evaluation.glue import average
from road_ray.evaluation.seed_statistics import means
from road_ray.recipes.config import IN_THIS_PROCESS
from road_ray.recipes.evaluate import evaluate_ensemble
from road_ray.recipes.preflight_checks import check_evaluated_once, require_plain_head
from road_ray.recipes.run_directory.run import Run, load_finished_run, open_run_directory
from road_ray.recipes.train import train as single
from road_ray.recipes.train.config import (
    DistillConfig,
    FinetuneConfig,
    FinetuneDataConfig,
    FinetuningsConfig,
    TeachersConfig,
)
from road_ray.recipes.train.find_teachers import locate_teachers
from road_ray.recipes.train.teaching_config import resolve_teachers
from road_ray.system.files import staged_directory, write_json_atomic
from road_ray.training.run_context import RunContext

if TYPE_CHECKING:
    from road_ray.distributed.teachers import ActorEnsemble

_log = logging.getLogger(__name__)
C = TypeVar("C", bound=FinetuneConfig)


def finetune(config: FinetuneConfig, context: RunContext | None = None) -> Run:
    """Run one fine-tuning, or one for each seed and data set; each resumes where it stopped.

    Metrics of several are means over seeds, with ``_deviation``, ``_median`` and ``_best`` beside
    them, and for GLUE ``glue/electra`` and ``glue/leaderboard``.
    """
    if not isinstance(config, FinetuningsConfig) or (not config.pool and config.num_seeds == 1):
        return single.run_training(as_base(FinetuneConfig, config), context)
    if done := load_finished_run(config):
        return done
    every = finetunings(config)
    if context is not None and context.plan_only:
        if config.pool:
            raise ConfigError(
                "pool: is not planned whole\n"
                "  fix: plan one of it: data.dataset=..., and no preset with a pool"
            )
        return single.run_training(every[0], context)  # all cost the same
    check_evaluated_once((x.data.dataset, x.data.evaluated_on) for x in every)
    named = {str(finetuning.run_dir): finetuning for finetuning in every}
    after = {name: [x.init] for name, x in named.items() if x.init in named}
    for name, finetuning in named.items():
        if name not in after:
            single.check(finetuning)
    with open_run_directory(config) as directory:
        runs = run_all(single.run_training, named, config, context, after=after)
        by_seed: dict[int, dict[str, float]] = {}
        for name, run in runs.items():
            by_seed.setdefault(named[name].seed, {}).update(run.metrics)
        metrics = summarise_seeds([*by_seed.values()])
        write_json_atomic(directory / "metrics.json", metrics)
    return Run(directory, metrics)


def finetunings(config: FinetuningsConfig) -> list[FinetuneConfig]:
    """Return all fine-tunings, each after the one whose model it starts from."""
    pool = [config.data.dataset]
    if config.pool:
        has = partial(has_files, source=config.data)
        pool = [name for name in config.pool if has(name, "train") and has(name, "dev")]
        if not pool:
            raise ConfigError(f"pool: none of its data sets is available: {', '.join(config.pool)}")
        if missing := [name for name in config.pool if name not in pool]:
            _log.warning("no files of %s below the data root: left out", ", ".join(missing))
    inits = {name: str(config.pool.get(name, {}).get("init")) for name in pool}
    before = {name: other for name, other in inits.items() if other in config.pool}
    for name, other in before.items():
        if other not in pool or other in before:
            raise ConfigError(
                f"pool.{name}.init = {other}: is not there, or starts from another one itself\n"
                "  allowed: a data set of the pool that starts from init: "
                f"{', '.join(sorted(set(pool) - set(before)))}\n  nothing was started"
            )
    made = []
    for name in sorted(pool, key=before.__contains__):
        changes: dict[str, Any] = {"data.dataset": name, **config.pool.get(name, {})}
        for number in range(config.num_seeds):
            seed = f"seed-{config.seed + number}"
            if name in before:
                changes["init"] = str(config.run_dir / before[name] / seed)
            place = Path(name, seed)
            one = _inner(FinetuneConfig, config, place, number, IN_THIS_PROCESS | changes)
            if "data.evaluate_on" in changes:
                there = [x for x in one.data.evaluated_on if has_files(x, "dev", config.data)]
                one = override(one, {"data.evaluate_on": there})
            made.append(one)
    return made


def _inner(
    kind: type[C], config: FinetuneConfig, place: Path, number: int, changes: Mapping[str, Any]
) -> C:
    """Return run ``number`` of the runs of ``config``, in ``place`` below its run directory."""
    own = {
        "run_dir": config.run_dir / place,
        "training": config.training.mirrored_below(place),
        "seed": config.seed + number,
    }
    return override(as_base(kind, config.model_copy(update=own)), changes)


def summarise_seeds(by_seed: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean and ``_deviation`` of every metric over seeds, ``_median`` and ``_best`` of
    those of ``eval/``, and GLUE's averages of each: ``glue/electra_median`` is the average of
    medians.
    """
    rows = [{**row, **average(row)} for row in by_seed]
    metrics = means(rows)
    evaluated = [name for name in rows[0] if name.startswith("eval/") and name in metrics]
    for statistic, of in (("median", median), ("best", max)) if len(rows) > 1 else ():
        values = {}
        for name in evaluated:  # a calibration error is best where it is smallest
            best = min if of is max and "/ece" in name else of
            values[name] = float(best([row[name] for row in rows]))
        values |= average(values)
        metrics |= {f"{name}_{statistic}": value for name, value in values.items()}
    return metrics


def teachers(config: TeachersConfig, context: RunContext | None = None) -> Run:
    """Train all teachers; ``teachers.json`` lists directory, seed and metrics of each.

    Metrics are means over the teachers, their ``_deviation``, and those of the ensemble:
    ``eval/<data set>/ensemble_<metric>``.
    """
    if done := load_finished_run(config):
        return done
    require_plain_head(config.data)
    every = single_teachers(config)
    if context is not None and context.plan_only:
        return single.run_training(every[0], context)  # all cost the same
    with open_run_directory(config) as directory:
        named = {str(teacher.run_dir): teacher for teacher in every}
        runs = [*run_all(single.run_training, named, config, context).values()]
        metrics = means([run.metrics for run in runs])
        metrics |= _list_and_evaluate(directory, every, runs)
        write_json_atomic(directory / "metrics.json", metrics)
    return Run(directory, metrics)


def single_teachers(config: TeachersConfig) -> list[FinetuneConfig]:
    """Return the fine-tuning of each teacher, fold after fold."""
    made = []
    for fold in range(config.num_folds):
        changes, place = dict(IN_THIS_PROCESS), Path()
        if config.num_folds > 1:
            changes["data.held_out_fold"] = (fold, config.num_folds)
            place = Path(f"fold-{fold}")
        for number in range(config.num_teachers):
            teacher = place / f"teacher-{number}"
            made.append(_inner(FinetuneConfig, config, teacher, number, changes))
    return made


def _list_and_evaluate(
    directory: Path, configs: Sequence[FinetuneConfig], runs: Sequence[Run]
) -> dict[str, float]:
    """Write ``teachers.json``, with directories relative to it, so that both may move together, and
    the fold that each teacher has not seen. Return the metrics of the models' mean.
    """
    entries, folds = [], 1
    for config, run in zip(configs, runs, strict=True):
        where = os.path.relpath(run.hf_dir, directory)
        entry = {"directory": where, "seed": config.seed, "metrics": dict(run.metrics)}
        if config.data.held_out_fold is not None:
            entry["fold"], folds = config.data.held_out_fold
        entries.append(entry)
    listed = {"num_folds": folds} if folds > 1 else {}
    write_json_atomic(directory / "teachers.json", {**listed, "teachers": entries})
    data: FinetuneDataConfig = configs[0].data
    models, own = [run.hf_dir for run in runs], directory / "predictions" / "ensemble"
    return evaluate_ensemble(models, data, data.evaluated_on, predictions=own, tune_on=data.dataset)


def distill(
    config: DistillConfig, ensemble: ActorEnsemble | None = None, context: RunContext | None = None
) -> Run:
    """Train and evaluate a student, or several generations. The run starts and stops the teachers,
    unless ``ensemble`` is given: then its owner stops them, and ``distillation.teachers`` may be
    omitted, except for out-of-fold teachers, whose ``teachers.json`` records which rows each has
    not seen.
    """
    if ensemble is not None:
        config = _with_teachers(config, list(ensemble.directories))
    if config.distillation.generations > 1:
        return _born_again(config, ensemble, context)
    actors = None if ensemble is None else {config.data.dataset: ensemble}
    return single.run_training(config, context, actors)


def _with_teachers(config: DistillConfig, directories: list[str]) -> DistillConfig:
    """Return the configuration with the teachers of an ensemble. Raises ``ConfigError`` if it
    names out-of-fold teachers, or models beside files, that differ from them.
    """
    named = resolve_teachers(config.distillation.teachers)
    if named.folds == 1 and len(named.models) == len(named.names):
        return override(config, {"distillation.teachers": directories})
    (located,) = locate_teachers(config).values()
    listed = [Path(place).resolve() for place in located.models]
    if listed != [Path(locate_model(directory)).resolve() for directory in directories]:
        raise ConfigError(
            f"distillation.teachers = {config.distillation.teachers[0]}: names {len(listed)} "
            f"models, and the ensemble has {len(directories)} others or in another order\n"
            "  fix: start the ensemble with the directories of that list, fold after fold"
        )
    return config


def _born_again(
    config: DistillConfig, ensemble: ActorEnsemble | None, context: RunContext | None
) -> Run:
    """Train ``distillation.generations`` students below the run directory. The first learns from
    the configured teachers, each other one from its predecessor; finished students are reused.

    ``hf/`` is the last student. ``teachers.json`` lists all of them, so that a further student can
    learn from the ensemble, whose own metrics are ``eval/<data set>/ensemble_<metric>``. Source:
    Furlanello et al. 2018 (BAN, and BANE for the ensemble).
    """
    if done := load_finished_run(config):
        return done
    every = generations(config)
    if context is not None and context.plan_only:
        return distill(every[0], ensemble, context)  # all cost the same
    actors = config.distillation.host == "actors"
    with open_run_directory(config) as directory:
        with connected(config.address) if actors else nullcontext():
            runs = [distill(every[0], ensemble, context)]
            runs += [distill(later, None, context) for later in every[1:]]
        with staged_directory(directory / "hf") as staged:
            shutil.copytree(runs[-1].hf_dir, staged, dirs_exist_ok=True)
        metrics = dict(runs[-1].metrics)
        for number, run in enumerate(runs, 1):
            scores = {name: run.metrics[name] for name in run.metrics if name.startswith("eval/")}
            metrics |= {f"generation-{number}/{name}": value for name, value in scores.items()}
        metrics |= _list_and_evaluate(directory, every, runs)
        write_json_atomic(directory / "metrics.json", metrics)
    return Run(directory, metrics)


def generations(config: DistillConfig) -> list[DistillConfig]:
    """Return the distillation of each student of the chain."""
    made: list[DistillConfig] = []
    for number in range(config.distillation.generations):
        changes: dict[str, Any] = {"distillation.generations": 1}
        if made:
            changes["distillation.teachers"] = [str(made[-1].run_dir / "hf")]
            changes["distillation.num_teachers"] = 1
        place = Path(f"generation-{number + 1}")
        made.append(_inner(DistillConfig, config, place, number, changes))
    return made
