"""Many fine-tunings as one run: N seeds of a data set, or of each of a pool such as GLUE."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from road_ray.config import override
from road_ray.data.load_split import has_files
from road_ray.distributed.parallel_runs import run_all
from road_ray.errors import ConfigError
from road_ray.evaluation.glue import average
from road_ray.evaluation.seed_statistics import summary
from road_ray.recipes.finetuning.config import FinetuneConfig, FinetuningsConfig
from road_ray.recipes.metric_names import check_stopping_metric
from road_ray.recipes.preflight_checks import check_evaluated_once, require_splits
from road_ray.recipes.run_directory.recorded_config import mirrored_below
from road_ray.recipes.run_directory.run import Run, load_finished_run, open_run_directory
from road_ray.recipes.train import train as single
from road_ray.recipes.train.mixture import Mixture
from road_ray.reporting.text_tables import is_principal
from road_ray.system.json_file import write_json_atomic
from road_ray.training.run_context import RunContext

_log = logging.getLogger(__name__)

Figures = Mapping[str, float]


def finetune(config: FinetuneConfig, context: RunContext | None = None) -> Run:
    """Run one fine-tuning, or one for each seed and data set; each resumes where it stopped.

    With several, ``tasks.json`` is their table; metrics are means over seeds, with ``_deviation``,
    ``_median`` and ``_best`` beside them, and for GLUE ``glue/electra`` and ``glue/leaderboard``.
    """
    if not isinstance(config, FinetuningsConfig):
        return single.finetune(config, context)
    if not config.pool and config.num_seeds == 1:
        return single.finetune(FinetuneConfig(**_shared(config)), context)
    return load_finished_run(config) or _run(config, context)


def _run(config: FinetuningsConfig, context: RunContext | None) -> Run:
    every = plan_runs(config)
    if context is not None and context.plan_only:
        if len(every) == 1:
            return single.finetune(every[0], context)
        raise ConfigError(
            f"{len(every)} fine-tunings are not planned together\n"
            "  fix: plan one of them: pool={} num_seeds=1 data.dataset=..."
        )
    check_evaluated_once((x.data.dataset, x.data.evaluated_on) for x in every)
    for finetuning in every:
        Mixture.of(finetuning).check()
        check_stopping_metric(finetuning)
    require_splits(
        (split for finetuning in every for split in finetuning.data.splits()),
        "leave them out of `pool`, or set only_at_hand=true, which does so",
    )
    places = [str(finetuning.run_dir) for finetuning in every]
    after = [[places.index(x.init)] if x.init in places else [] for x in every]
    with open_run_directory(config) as directory:
        runs = run_all(single.finetune, every, config, context, after=after)
        by_seed = _by_seed(config, every, runs)
        figures = summarise_seeds(by_seed)
        write_json_atomic(directory / "tasks.json", table(figures, config.num_seeds))
        write_json_atomic(directory / "metrics.json", figures)
    return Run(directory, figures)


def plan_runs(config: FinetuningsConfig) -> list[FinetuneConfig]:
    """Return all fine-tunings, each after the one whose model it starts from."""
    pool = _at_hand(config) if config.only_at_hand else list(config.pool or [config.data.dataset])
    for name, before in config.start_from.items():
        if name in pool and (before not in pool or before in config.start_from):
            raise ConfigError(
                f"start_from: {name} is to start from {before}\n"
                f"  allowed: a data set of the pool that starts from init: "
                f"{', '.join(sorted(set(pool) - set(config.start_from)))}\n  nothing was started"
            )
    first_to_last = sorted(pool, key=config.start_from.__contains__)
    return [_single(config, name, n) for name in first_to_last for n in range(config.num_seeds)]


def _single(config: FinetuningsConfig, name: str, number: int) -> FinetuneConfig:
    before = config.start_from.get(name)
    place = _place(config, name, number)
    shared = _shared(config) | {
        "run_dir": place,
        "training": mirrored_below(config.training, place.relative_to(config.run_dir)),
        "seed": config.seed + number,
        "init": str(_place(config, before, number)) if before else config.init,
        "workers": 0,
        "gpus_per_worker": 0.0,  # those of the Ray task
        "address": None,
    }
    changes: dict[str, Any] = {"data.dataset": name, **config.pool.get(name, {})}
    if "data.evaluate_on" in changes and config.only_at_hand:
        changes["data.evaluate_on"] = [
            judged
            for judged in changes["data.evaluate_on"]
            if has_files(judged, "dev", config.data)
        ]
    return override(FinetuneConfig(**shared), changes)


def _place(config: FinetuningsConfig, name: str, number: int) -> Path:
    return config.run_dir / name / f"seed-{config.seed + number}"


def _shared(config: FinetuneConfig) -> dict[str, Any]:
    return {name: getattr(config, name) for name in FinetuneConfig.model_fields}


def _at_hand(config: FinetuningsConfig) -> list[str]:
    """Return the data sets of the pool that have files of their training and dev splits."""
    available = [
        name
        for name in config.pool
        if has_files(name, "train", config.data) and has_files(name, "dev", config.data)
    ]
    missing = [name for name in config.pool if name not in available]
    if missing:
        _log.warning("no files of %s below the data root: left out", ", ".join(missing))
    if not available:
        raise ConfigError(f"pool: none of its data sets is available: {', '.join(config.pool)}")
    return available


def _by_seed(
    config: FinetuningsConfig, configs: Sequence[FinetuneConfig], runs: Sequence[Run]
) -> list[dict[str, float]]:
    """Return the figures of all data sets, seed by seed."""
    figures: list[dict[str, float]] = [{} for _ in range(config.num_seeds)]
    for finetuning, run in zip(configs, runs, strict=True):
        figures[finetuning.seed - config.seed] |= run.metrics
    return figures


def summarise_seeds(by_seed: Sequence[Figures]) -> dict[str, float]:
    """Return the mean of every figure over seeds, ``_deviation``, ``_median`` and ``_best`` of
    those of ``eval/``, and GLUE's averages of each: ``glue/electra_median`` is the average of
    medians.
    """
    summaries = {name: summary([row[name] for row in by_seed]) for name in by_seed[0]}
    figures = {name: value.mean for name, value in summaries.items()} | average(
        {name: value.mean for name, value in summaries.items()}
    )
    if len(by_seed) == 1:
        return figures
    judged = {name: value for name, value in summaries.items() if name.startswith("eval/")}
    for statistic in ("median", "best"):
        values: dict[str, float] = {name: getattr(s, statistic) for name, s in judged.items()}
        values |= average(values)
        figures |= {f"{name}_{statistic}": value for name, value in values.items()}
    averages = [average(row) for row in by_seed]
    deviations = {name: value.deviation for name, value in judged.items()} | {
        name: summary([row[name] for row in averages]).deviation for name in averages[0]
    }
    return figures | {f"{k}_deviation": v for k, v in deviations.items() if v is not None}


def table(figures: Figures, num_seeds: int) -> list[dict[str, Any]]:
    """Return a row for each metric that papers print, GLUE's averages last."""
    names = [name for name in figures if is_principal(name)]
    names += [name for name in figures if name in ("glue/electra", "glue/leaderboard")]
    rows = []
    for name in names:
        place, metric = name.removeprefix("eval/").split("/", 1)
        row: dict[str, Any] = {"data set": place, "metric": metric, "mean": figures[name]}
        statistics = {s: figures.get(f"{name}_{s}") for s in ("deviation", "median", "best")}
        rows.append(row | (statistics if num_seeds > 1 else {}))
    return rows
