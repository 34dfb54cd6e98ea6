"""Evaluation of a supervised model, while it trains and at the end, and its export."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from road_ray.data.row_limits import row_limits
from road_ray.data.tokenizer import pad_id_of
from road_ray.evaluation.evaluate_split import evaluate_split
from road_ray.evaluation.label_sets import Thresholds
from road_ray.recipes.run_directory.model_record import (
    atomic_directory,
    threshold_entry,
    trained_rows,
    write_model_record,
)
from road_ray.recipes.train.config import FinetuneConfig, TrainConfig
from road_ray.recipes.train.prepare import Prepared, kept_layers
from road_ray.training.monitoring.metrics_journal import Journal
from road_ray.training.worker import Worker


def evaluate(
    config: TrainConfig,
    worker: Worker,
    prepared: Prepared,
    log: Journal,
    names: Sequence[str],
    *,
    last: bool = False,
) -> tuple[dict[str, float], dict[str, float | Thresholds]]:
    """Return the metrics on data sets, and the no-answer threshold of each span task, or those of
    several labels. With ``last``
    write predictions, and add ``data/<data set>/overlap_with_train``.

    The threshold is tuned on the task's first data set that is trained on and has questions without
    answer, and used on its other data sets.
    """
    figures: dict[str, float] = {}
    thresholds: dict[str, float | Thresholds] = {}
    for name in names:
        split = prepared.judged[name]
        task = split.features.task
        evaluation = evaluate_split(
            prepared.model,
            split,
            pad_id=pad_id_of(prepared.tokenizer),
            device=worker.device,
            threshold=thresholds.get(task),
            tune=name in prepared.splits,
            precision=config.training.precision,
            on_rows=partial(log.part, f"evaluating {name}"),
        )
        if last:
            # Also where it is 0, so that runs of one table have the same metrics.
            figures[f"data/{name}/overlap_with_train"] = float(prepared.overlaps[name])
            evaluation.write(config.run_dir / "predictions" / name)
        figures |= {f"eval/{name}/{key}": value for key, value in evaluation.figures.items()}
        if evaluation.threshold is not None:
            thresholds[task] = evaluation.threshold
    return figures, thresholds


def export(
    config: TrainConfig,
    prepared: Prepared,
    figures: dict[str, float],
    thresholds: Mapping[str, float | Thresholds],
    record: Mapping[str, Any],
) -> None:
    """Write the model in Hugging Face layout with the head of the first task, with tokenizer,
    threshold, card and record; heads of a mixture and further heads go below ``heads/``.
    """
    model = prepared.model
    first, *further = model.tasks
    each = isinstance(config, FinetuneConfig)
    with atomic_directory(config.run_dir / "hf") as top:
        heads = [(top / "heads" / task, task) for task in (further if each else model.tasks)]
        for directory, task in [(top, first), *heads]:
            model.export(directory, task)
            prepared.tokenizer.save_pretrained(directory)
            of_task = [split for split in prepared.splits.values() if split.task.name == task]
            write_model_record(
                directory,
                task=task,
                datasets=list(prepared.mixture.names),
                init=config.init,
                seed=config.seed,
                **row_limits(config.data),
                **threshold_entry(thresholds.get(task)),
                layers_of_init=kept_layers(config),
                **(trained_rows(config.data, of_task[0]) if of_task else {}),
                parameters=sum(x.numel() for x in model.parameters()),
                metrics=figures,
                **record,
            )
