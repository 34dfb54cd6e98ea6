"""A tiny objective of every kind, the second of two stages too, and rows to train it on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import ElectraForMaskedLM, ElectraForPreTraining

from road_ray.data.batching import Batch, Batching, BatchStream, WorkerShare
from road_ray.data.features.examples_and_features import Features
from road_ray.data.mixing import accumulated
from road_ray.objectives.base import Objective
from road_ray.objectives.pretraining.registry import OBJECTIVES, models_of, objective_class
from road_ray.training.checkpoint_directory import Checkpoints
from road_ray.training.config import OptimizerConfig, TrainingConfig
from road_ray.training.loop import train
from road_ray.training.monitoring.metrics_journal import Journal
from road_ray.training.run_context import Training
from road_ray.training.worker import Worker
from tests.tiny_encoder import small_config

KINDS = (*OBJECTIVES, "second_stage")
_OPTIONS = {
    "teams": {"shared_layers": 1, "candidates": 3},
    "mc_bert": {"candidates": 4},
    "second_stage": {"tying": "none"},
}
_CLS, _SEP, _MASK = 2, 3, 4


def config_of(hidden: int, dropout: float, layers: int = 2) -> Any:
    """Few layers over a vocabulary of sixty."""
    dropouts = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    return small_config(hidden_size=hidden, num_hidden_layers=layers, **dropouts)


def objective_of(kind: str, *, dropout: float, layers: int = 2) -> Objective:
    """The same weights at every call; ``second_stage`` is ELECTRA with a frozen generator."""
    torch.manual_seed(0)
    chosen = objective_class("electra" if kind == "second_stage" else kind)
    small = config_of(32 if kind == "teams" else 16, dropout, layers)
    large = config_of(32, dropout, layers)
    models = {
        "generator": lambda: ElectraForMaskedLM(small),
        "model": lambda: ElectraForMaskedLM(large),
        "discriminator": lambda: ElectraForPreTraining(large),
    }
    made = [models[name]() for name in models_of(chosen)]
    if kind == "second_stage":
        made[0].requires_grad_(False)
    return chosen(
        *made, special_ids=(0, _CLS, _SEP, _MASK), mask_id=_MASK, **_OPTIONS.get(kind, {})
    )


def rows(count: int = 23) -> Features:
    """Pairs of 6 to 16 tokens."""
    chance = np.random.default_rng(0)
    lengths = chance.integers(6, 17, count)
    tokens = chance.integers(5, 60, int(lengths.sum())).astype(np.int32)
    ends = np.cumsum(lengths)
    tokens[ends - lengths], tokens[ends - 1] = _CLS, _SEP
    return Features(
        dataset="corpus",
        task="",
        tokens=tokens,
        bounds=np.concatenate([[0], ends]).astype(np.int64),
        first_segment=np.full(count, 4, np.int32),
        gold={},
        example=np.arange(count, dtype=np.int32),
    )


def learn(
    objective: Objective,
    directory: Path,
    *,
    steps: int,
    worker: Worker,
    save_every_steps: int = 1000,
    fsdp: bool = False,
    stop: int | None = None,
) -> Objective:
    """The objective after ``steps`` updates of eight rows; ``OSError`` in place of update
    ``stop``.
    """
    stream = BatchStream(
        rows(),
        Batching(8, seed=5),
        WorkerShare(worker.rank, worker.size),
        pad_id=0,
        noise_channels=objective.noise_channels,
    )

    def passes(start: int) -> Iterator[list[Batch]]:
        for number, one in enumerate(accumulated(stream.since(start), 1), start):
            if number == stop:
                raise OSError("killed")
            yield one

    training = Training(
        config=TrainingConfig(
            save_every_steps=save_every_steps, log_every_steps=1, precision="fp32", fsdp=fsdp
        ),
        optimizer=OptimizerConfig(peak_lr=3e-3, warmup_steps=2),
        total_steps=steps,
        seed=7,
        checkpoints=Checkpoints(directory / "checkpoints"),
        journal=Journal(directory, console="quiet", enabled=worker.is_main),
        identity={},
    )
    train(objective, passes, training, worker)
    return objective
