"""What an encoder is worth while it is still pre-trained: a copy is fine-tuned on small tasks."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from pydantic import Field

from road_ray.config import Config
from road_ray.errors import InterruptedRunError
from road_ray.objectives.base import Objective
from road_ray.recipes.finetuning.finetune import FinetuneConfig, FinetuneDataConfig, finetune
from road_ray.training.config import TrainingConfig
from road_ray.training.signals import apart


class ProbeConfig(Config):
    """Source of the defaults: Clark et al. 2020, table 7 (ELECTRA-Small); sizes are our choice."""

    # None: no probe. Else at the end, and every `training.evaluate_every_steps` before it.
    datasets: tuple[str, ...] = ()
    root: str | None = None  # None: that of the corpus
    steps: int = Field(300, ge=1)
    batch_size: int = Field(32, ge=1)
    peak_lr: float = Field(3e-4, gt=0)
    max_length_tokens: int = Field(64, ge=8)
    max_rows: int = Field(20_000, ge=1)  # learnt from
    max_judged_rows: int = Field(2000, ge=1)


def early_probe(
    probe: ProbeConfig, objective: Objective, tokenizer: Any, run_dir: Path, seed: int
) -> dict[str, float]:
    """``eval/<data set>/<metric>`` of a copy of the encoder as it is now. Nothing of the training
    is touched, nothing is kept but the figures.

    Raises ``InterruptedRunError`` when a stop is asked for meanwhile.
    """
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix=".probe-", dir=run_dir) as place, apart():
        encoder = Path(place) / "encoder"
        objective.export(encoder)
        tokenizer.save_pretrained(encoder)
        for name in probe.datasets:
            config = _finetuning(probe, name, Path(place) / name, encoder, seed)
            try:
                judged = finetune(config).metrics
            except InterruptedRunError:
                raise InterruptedRunError(
                    f"stopped while a copy of the encoder was fine-tuned on {name}\n"
                    f"  kept: what {run_dir} holds of the pre-training\n"
                    "  go on: run the same command again"
                ) from None
            figures |= {key: value for key, value in judged.items() if key.startswith("eval/")}
    return figures


def _finetuning(
    probe: ProbeConfig, dataset: str, run_dir: Path, encoder: Path, seed: int
) -> FinetuneConfig:
    return FinetuneConfig(
        run_dir=run_dir,
        init=str(encoder),
        seed=seed,
        console="quiet",
        data=FinetuneDataConfig(
            dataset=dataset,
            root=probe.root,
            batch_size=probe.batch_size,
            max_length_tokens=probe.max_length_tokens,
            max_rows=probe.max_rows,
            max_judged_rows=probe.max_judged_rows,
        ),
        optimizer=FinetuneConfig().optimizer.model_copy(update={"peak_lr": probe.peak_lr}),
        training=TrainingConfig(
            steps=probe.steps, save_every_steps=probe.steps, log_every_steps=probe.steps
        ),
    )
