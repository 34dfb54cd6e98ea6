"""Evaluation of an encoder during its pre-training: a copy is fine-tuned on small tasks."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from road_ray.errors import InterruptedRunError
from road_ray.objectives.base import Objective
from road_ray.recipes.finetuning.config import FinetuneConfig, FinetuneDataConfig
from road_ray.recipes.preflight_checks import require_splits
from road_ray.recipes.pretraining.config import PretrainConfig, ProbeConfig
from road_ray.recipes.train.train import finetune
from road_ray.training.config import TrainingConfig
from road_ray.training.run_context import RunContext


def early_probe(
    probe: ProbeConfig,
    objective: Objective,
    tokenizer: Any,
    run_dir: Path,
    seed: int,
    context: RunContext,
) -> dict[str, float]:
    """Return ``eval/<data set>/<metric>`` of a fine-tuned copy of the current encoder. The
    pre-training is not affected, and only the metrics are kept. ``context`` is the pre-training's.

    Raises ``InterruptedRunError`` for a stop request meanwhile.
    """
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix=".probe-", dir=run_dir) as place:
        encoder = Path(place) / "encoder"
        objective.export(encoder)
        tokenizer.save_pretrained(encoder)
        for name in probe.datasets:
            config = _finetuning(probe, name, Path(place) / name, encoder, seed)
            try:
                metrics = finetune(config, context.nested()).metrics
            except InterruptedRunError:
                raise InterruptedRunError(
                    f"stopped while a copy of the encoder was fine-tuned on {name}\n"
                    f"  kept: what {run_dir} holds of the pre-training\n"
                    "  to resume, run the same command"
                ) from None
            figures |= {key: value for key, value in metrics.items() if key.startswith("eval/")}
    return figures


def probe_of(config: PretrainConfig) -> ProbeConfig:
    """Return the probe of a pre-training, with the root of its data sets.

    Raises ``DataError`` if a data set has no files: else the first error would come at the first
    probe.
    """
    probe = config.probe.model_copy(update={"root": config.probe.root or config.data.root})
    require_splits(
        (split for name in probe.datasets for split in _data(probe, name).splits()),
        "name data sets that are there (probe.datasets=[...]) or their directory (probe.root=...)",
    )
    return probe


def _finetuning(
    probe: ProbeConfig, dataset: str, run_dir: Path, encoder: Path, seed: int
) -> FinetuneConfig:
    return FinetuneConfig(
        run_dir=run_dir,
        init=str(encoder),
        seed=seed,
        console="quiet",
        data=_data(probe, dataset),
        optimizer=FinetuneConfig().optimizer.model_copy(update={"peak_lr": 3e-4}),
        training=TrainingConfig(
            steps=probe.steps, save_every_steps=probe.steps, log_every_steps=probe.steps
        ),
    )


def _data(probe: ProbeConfig, dataset: str) -> FinetuneDataConfig:
    """Return the data of a short fine-tuning; its sizes are our choice, they bound its cost."""
    return FinetuneDataConfig(
        dataset=dataset,
        root=probe.root,
        batch_size=32,
        max_length_tokens=64,
        max_rows=20_000,
        max_judged_rows=2000,
    )
