"""What a checkpoint costs the loop: how long it waits for one, beside how long it steps."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from road_ray.objectives.base import Objective
from road_ray.objectives.pretraining.electra import Electra
from road_ray.training.checkpoint.async_save import AsyncSaver
from road_ray.training.config import OptimizerConfig, TrainingConfig
from road_ray.training.optimization.optimizer import build_optimizer
from road_ray.training.worker import Worker
from tests.benchmarks import shapes
from tests.benchmarks.learning import learn, training_in
from tests.benchmarks.plan import Plan, Row, row
from tests.benchmarks.race import Over

AIM_SHARE = 0.02
_CONFIG, _RATE = TrainingConfig(precision="fp32"), 5e-4


def saving(plan: Plan) -> list[Row]:
    """Against the aim, 2% of the steps between two checkpoints of the default interval;
    ``limit_share`` is the share that it takes of them.
    """
    generator, discriminator = shapes.models(plan.small)
    objective = Electra(generator, discriminator, special_ids=shapes.SPECIAL, mask_id=shapes.MASK)
    step = statistics.median(_steps(plan, objective))
    waited = statistics.median(_waits(objective, plan.few_repeats))
    interval = _CONFIG.save_every_steps * step
    peer = f"the aim, every {_CONFIG.save_every_steps} steps of {step:.2f} s"
    rates, share = (1 / waited, 1 / (AIM_SHARE * interval)), waited / interval
    return [row("saving", peer, "1/s waited", *rates, repeats=plan.few_repeats, limit_share=share)]


def _steps(plan: Plan, objective: Objective) -> list[float]:
    """Seconds of each step."""
    batch, seconds = shapes.batches(plan.small)[0], list[float]()

    def steps(_: int) -> Iterator[list[Any]]:
        for _ in range(plan.few_repeats + 1):
            began = perf_counter()
            yield [batch]
            seconds.append(perf_counter() - began)
        raise Over

    try:
        learn(objective, steps, _CONFIG, peak_lr=_RATE)
    except Over:
        return seconds[1:]
    raise AssertionError("the training ended before it was stopped")


def _waits(objective: Objective, repeats: int) -> list[float]:
    """Seconds that the loop waits for each checkpoint, the one before being on the disk."""
    optimizer = build_optimizer(objective, OptimizerConfig(peak_lr=_RATE))
    for weight in objective.parameters():
        weight.grad = torch.zeros_like(weight)
    optimizer.step()  # its moments are there
    waits = []
    with tempfile.TemporaryDirectory() as place:
        training = training_in(Path(place), _CONFIG, _RATE)
        with AsyncSaver(objective, objective, optimizer, training, Worker.alone()) as saver:
            for number in range(repeats + 1):
                began = perf_counter()
                saver.save(number, wait=False)
                waits.append(perf_counter() - began)
                saver.finish()
    return waits[1:]  # the first copy makes room for all that follow
