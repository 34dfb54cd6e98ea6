"""Evaluation of an encoder during its pre-training: a copy is fine-tuned on small tasks."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from road_ray.errors import InterruptedRunError
from road_ray.objectives.base import Objective
from road_ray.recipes.preflight_checks import require_splits
from road_ray.recipes.pretraining.config import PretrainConfig
from road_ray.recipes.train.config import FinetuneConfig, FinetuneDataConfig
from road_ray.recipes.train.train import finetune
from road_ray.training.config import TrainingConfig
from road_ray.training.run_context import RunContext

_STEPS = 300  # of each fine-tuning, as the sizes of its data: our choice, they bound its cost


def early_probe(
    config: PretrainConfig, objective: Objective, tokenizer: Any, context: RunContext
) -> dict[str, float]:
    """Return ``eval/<data set>/<metric>`` of a fine-tuned copy of the current encoder. The
    pre-training is not affected, and only the metrics are kept. ``context`` is the pre-training's.

    Raises ``InterruptedRunError`` for a stop request meanwhile.
    """
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix=".probe-", dir=config.run_dir) as place:
        encoder = Path(place) / "encoder"
        objective.export(encoder)
        tokenizer.save_pretrained(encoder)
        for name in config.probe.datasets:
            tuning = FinetuneConfig(
                run_dir=Path(place) / name,
                init=str(encoder),
                seed=config.seed,
                console="quiet",
                data=_data(config, name),
                optimizer=FinetuneConfig().optimizer.model_copy(update={"peak_lr": 3e-4}),
                training=TrainingConfig(
                    steps=_STEPS, save_every_steps=_STEPS, log_every_steps=_STEPS
                ),
            )
            try:
                metrics = finetune(tuning, context.nested()).metrics
            except InterruptedRunError:
                raise InterruptedRunError(
                    f"stopped while a copy of the encoder was fine-tuned on {name}\n"
                    f"  kept: what {config.run_dir} holds of the pre-training\n"
                    "  to resume, run the same command"
                ) from None
            figures |= {key: value for key, value in metrics.items() if key.startswith("eval/")}
    return figures


def require_probe(config: PretrainConfig) -> None:
    """Raise ``DataError`` if a data set of the probe has no files: else the first error would come
    at the first probe.
    """
    require_splits(
        (split for name in config.probe.datasets for split in _data(config, name).splits()),
        "name data sets that are there (probe.datasets=[...]) or their directory (data.root=...)",
    )


def _data(config: PretrainConfig, dataset: str) -> FinetuneDataConfig:
    return FinetuneDataConfig(
        dataset=dataset,
        root=config.data.root,
        batch_size=32,
        max_length_tokens=64,
        max_rows=20_000,
        max_judged_rows=2000,
    )
