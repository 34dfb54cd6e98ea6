"""Names of the metrics that a run reports, known before it starts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from road_ray.data.config import SourceConfig
from road_ray.data.load_split import find_dataset
from road_ray.data.task_and_dataset import MultiLabel, Span, Tag
from road_ray.errors import ConfigError, did_you_mean
from road_ray.objectives.pretraining.registry import objective_class
from road_ray.recipes.pretraining.config import PretrainConfig

# Metrics of every trial besides those of its runs: wall time, parameters of the final model.
COSTS = ("cost/seconds", "cost/parameters")
_SPAN = (
    *("exact", "f1", "at_threshold_exact", "at_threshold_f1", "best_exact", "best_f1"),
    *("no_answer_f1", "answerability_accuracy"),
)


def final_metrics(config: Any) -> list[str]:
    """Return the final figures of a run that can be a metric of a sweep."""
    if isinstance(config, PretrainConfig):
        return _trained(config) + _of(config.data.evaluate_on, SourceConfig())
    return _of(config.data.evaluated_on, config.data)


def periodic_metrics(config: Any) -> list[str]:
    """Return the figures that a run reports while it trains."""
    trained = _trained(config) if isinstance(config, PretrainConfig) else []
    if config.training.evaluate_every_steps is None:
        return trained
    return trained + _of(*_evaluated(config))


def check_stopping_metric(config: Any) -> None:
    """Raise ``ConfigError`` if ``training.early_stopping.metric`` is not evaluated while training.

    Spans and tags have more figures than can be a metric of a sweep, so any name is accepted there.
    """
    metric = config.training.early_stopping.metric
    if metric is None or config.training.early_stopping.patience is None:
        return
    names, source = _evaluated(config)
    allowed = _of(names, source)
    kinds = {name: find_dataset(name, source)[1].kind for name in names}
    further = [f"eval/{name}/" for name, kind in kinds.items() if isinstance(kind, Span | Tag)]
    if metric not in allowed and not metric.startswith(tuple(further)):
        fix = "name one of these, or leave it out for their mean"
        raise ConfigError(
            f"training.early_stopping.metric = {metric}: not evaluated while training"
            f"{did_you_mean(metric, allowed)}\n"
            f"  allowed: {', '.join(allowed) or 'none, as nothing is evaluated while training'}\n"
            f"  fix: {fix if allowed else 'leave training.early_stopping out'}\n"
            "  kept: nothing was started"
        )


def _evaluated(config: Any) -> tuple[Sequence[str], SourceConfig]:
    """Return the data sets that are evaluated while training, and their source."""
    if isinstance(config, PretrainConfig):
        return config.data.evaluate_on, SourceConfig()
    return config.data.trained_on, config.data


def _trained(config: Any) -> list[str]:
    names = objective_class(config.objective.name).metric_names
    return [f"train/{name}" for name in names]


def _of(names: Iterable[str], source: SourceConfig) -> list[str]:
    return [f"eval/{name}/{metric}" for name in names for metric in _metrics(name, source)]


def _metrics(name: str, source: SourceConfig) -> tuple[str, ...]:
    dataset, task = find_dataset(name, source)
    if isinstance(task.kind, MultiLabel):
        tuned = [f"at_threshold_{name}" for name in dataset.metrics if name != "lrap"]
        return (*dataset.metrics, *tuned)
    return _SPAN if isinstance(task.kind, Span) else dataset.figures
