"""Checks of recipes before they start: the initial model, the files that they read, and the names
of the metrics that are evaluated.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from road_ray.data.config import SourceConfig
from road_ray.data.load_split import Split, check_own_names, find_dataset, has_files, root_of
from road_ray.data.readers.layouts import found_paths
from road_ray.data.task_and_dataset import SPECIAL_HEADS, MultiLabel, Span, Tag
from road_ray.errors import ConfigError, DataError, did_you_mean
from road_ray.recipes.config import RunConfig
from road_ray.system.files import nearest_path, path_of

_log = logging.getLogger(__name__)


def warn_of_rates(config: RunConfig, family: str) -> None:
    """Warn where a model of another family gets the default rates of a verb, which are ELECTRA's.

    Published rates of BERT and its successors are lower, and all their layers have one.
    """
    given: Any = config
    default = type(config).model_fields["optimizer"].default
    rates, usual = ((of.peak_lr, of.layer_decay) for of in (given.optimizer, default))
    if family != "electra" and rates == usual:
        _log.warning(
            "optimizer.peak_lr=%g and layer_decay=%g are rates of ELECTRA, but the family of init "
            "is %s: try optimizer.peak_lr=5e-5 optimizer.layer_decay=1 (Devlin et al. 2019)",
            *(*usual, family),
        )


def require_init(init: str, key: str = "init") -> str:
    """Return ``init``, the value of ``key``. Raises ``ConfigError`` if it is empty or a missing
    local directory; a name that looks like one of the hub is checked by the loader.
    """
    if not init:
        raise ConfigError(
            f"{key} is not given\n"
            "  allowed: a run directory (say runs/pretrain), an hf/ directory or a hub name\n"
            f"  fix: add {key}=..."
        )
    place = path_of(init, key)
    if len(place.parts) > 1 and place.parent.is_dir() and not place.exists():
        seen = f"{key} = {init}: no such directory{nearest_path(place)}"
        raise ConfigError(f"{seen}\n  fix: name one in {place.parent}")
    return init


def require_plain_head(source: SourceConfig) -> None:
    """Raise ``ConfigError`` for a head that plain transformers cannot load, as teachers must be."""
    for head in SPECIAL_HEADS:
        if getattr(source, head.key) == head.value:
            raise ConfigError(
                f"data.{head.key} = {head.value}: teachers are run through transformers, which "
                "has no class for that head\n"
                f"  allowed: {SourceConfig.model_fields[head.key].default}\n  fix: leave it out"
            )


def require_splits(needed: Iterable[tuple[str, str, SourceConfig]], fix: str) -> None:
    """Raise ``DataError`` that names every split without files. ``needed`` has the data set, the
    split and the source of each, ``fix`` is the remedy.

    Raises ``ConfigError`` for a data set that has no such split.
    """
    missing: dict[str, Path] = {}
    expected: dict[str, None] = {}
    for name, split, source in needed:
        dataset, task = find_dataset(name, source)
        check_own_names(dataset)
        if task.head is not None:
            from road_ray.models.heads import own_head  # with torch, which other checks do without

            own_head(task.head, f"data.sets.{name}.head")
        if has_files(name, split, source) or (root := root_of(name, source)) is None:
            continue
        for file in found_paths(dataset, root, split):
            expected[str(Path(dataset.folder) / file)] = None
        missing[f"{name} ({split})"] = root
    if missing:
        places = ", ".join(dict.fromkeys(map(str, missing.values())))
        raise DataError(
            f"no files of {', '.join(missing)} below {places}\n"
            f"  expected: {', '.join(expected)}\n"
            f"  fix: {fix}\n  kept: nothing was started"
        )


def check_evaluated_once(evaluated: Iterable[tuple[str, Sequence[str]]]) -> None:
    """Raise ``ConfigError`` if two trainings of one table evaluate on the same data set, as both
    metrics would have one name. ``evaluated`` has the data set and the evaluation sets of each.
    """
    first: dict[str, str] = {}
    for trained_on, names in evaluated:
        for name in names:
            if (other := first.setdefault(name, trained_on)) != trained_on:
                raise ConfigError(
                    f"data.evaluate_on: {name} is evaluated after {other} and after {trained_on}, "
                    f"and both metrics would be eval/{name}/...\n"
                    "  allowed: each data set for one training\n"
                    f"  fix: leave {name} out of one of them, or train them in two runs\n"
                    "  kept: nothing was started"
                )


def fit_positions(split: Split, positions: int) -> Split:
    """Return the split with batches that are no wider than the model's position table. Raises
    ``ConfigError`` if a row is longer.
    """
    longest = int(split.features.lengths.max())
    if longest > positions:
        raise ConfigError(
            f"data.max_length_tokens: {split.dataset.name} has rows of {longest} tokens, "
            f"the model knows {positions} positions\n  fix: data.max_length_tokens={positions}"
        )
    limit = min(split.features.max_length_tokens or positions, positions)
    return replace(split, features=replace(split.features, max_length_tokens=limit))


_SPAN = (
    *("exact", "f1", "at_threshold_exact", "at_threshold_f1", "best_exact", "best_f1"),
    *("no_answer_f1", "answerability_accuracy"),
)


def check_stopping_metric(config: Any) -> None:
    """Raise ``ConfigError`` if early stopping compares what is not evaluated while training.

    Spans and tags have more metrics than a sweep can optimize, so any name is accepted there.
    """
    stopping = config.training.early_stopping
    if config.training.evaluate_every_steps is None:
        raise ConfigError(
            f"training.early_stopping.patience = {stopping.patience}: "
            "nothing is evaluated while training\n"
            "  fix: training.evaluate_every_steps=..., or leave early_stopping.patience out\n"
            "  kept: nothing was started"
        )
    if (metric := stopping.metric) is None:
        return
    names, source = config.data.trained_on, config.data
    allowed = metrics_of(names, source)
    kinds = {name: find_dataset(name, source)[1].kind for name in names}
    further = [f"eval/{name}/" for name, kind in kinds.items() if isinstance(kind, Span | Tag)]
    if metric not in allowed and not metric.startswith(tuple(further)):
        raise ConfigError(
            f"training.early_stopping.metric = {metric}: not evaluated while training"
            f"{did_you_mean(metric, allowed)}\n"
            f"  allowed: {', '.join(allowed)}\n"
            "  fix: name one of these, or leave it out for their mean\n  kept: nothing was started"
        )


def metrics_of(names: Iterable[str], source: SourceConfig) -> list[str]:
    """Return the names of the metrics of data sets that a sweep can optimize."""
    found: list[str] = []
    for name in names:
        dataset, task = find_dataset(name, source)
        metrics = _SPAN if isinstance(task.kind, Span) else dataset.figures
        if isinstance(task.kind, MultiLabel):
            tuned = [f"at_threshold_{metric}" for metric in dataset.metrics if metric != "lrap"]
            metrics = (*dataset.metrics, *tuned)
        found += [f"eval/{name}/{metric}" for metric in metrics]
    return found
