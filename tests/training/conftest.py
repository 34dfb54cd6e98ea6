"""Tiny objectives, rows and runs for the loop."""

import os
import signal

import numpy as np
import torch
from transformers import ElectraModel

from road_ray.data.batching import NOISE_CHANNELS, BatchStream
from road_ray.data.examples import Features
from road_ray.data.task_and_dataset import Classify, Regress, Span, Task
from road_ray.models.multitask import MultitaskModel
from road_ray.objectives.supervised import Supervised
from road_ray.training.checkpoint_directory import Checkpoints
from road_ray.training.config import OptimizerConfig, TrainingConfig
from road_ray.training.gradients import backward
from road_ray.training.monitoring.metrics_journal import Journal
from road_ray.training.run_context import Training
from road_ray.training.worker import Worker, full_tensor
from tests.object_store import server  # noqa: F401
from tests.objectives.every import config_of, objective_of

NLI = Task("nli", Classify(("a", "b", "c")))
SIMILARITY = Task("similarity", Regress(0, 5))
MRC = Task("mrc", Span())


def electra(dropout=0.1):
    return objective_of("electra", dropout=dropout)


def same(one, other):
    """Whether two objectives have the same weights to the bit."""
    ours, theirs = one.state_dict(), other.state_dict()
    return ours.keys() == theirs.keys() and all(torch.equal(ours[n], theirs[n]) for n in ours)


def gradients(objective, passes, worker=None, *, seed=7, step=0, autocast=None, **options):
    """Those of a step by parameter, whole also where a worker holds a part, and its losses."""
    objective.zero_grad(set_to_none=True)
    given = [objective.prepare(batch) for batch in passes]
    how = {"seed": seed, "step": step, "autocast": autocast} | options
    result = backward(objective, objective, given, worker or Worker(), **how)
    grads = {name: parameter.grad for name, parameter in objective.named_parameters()}
    return {n: None if x is None else full_tensor(x).clone() for n, x in grads.items()}, result


def supervised(dropout=0.1, tasks=(NLI, SIMILARITY, MRC), layers=2):
    torch.manual_seed(0)
    return Supervised(MultitaskModel(ElectraModel(config_of(32, dropout, layers)), tasks))


def rows(task=NLI, count=23, *, seed=0, length=None, unlabelled=0.0):
    """Pairs of 6 to 16 tokens, or all of ``length``; a share of the gold is not known."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(6, 17, count) if length is None else np.full(count, length)
    tokens = rng.integers(5, 60, int(lengths.sum())).astype(np.int32)
    ends = np.cumsum(lengths)
    tokens[ends - lengths], tokens[ends - 1] = 2, 3
    unknown = rng.random(count) < unlabelled
    if task == NLI:
        gold = {"labels": np.where(unknown, -100, rng.integers(0, 3, count))}
    elif task == SIMILARITY:
        labels = np.where(unknown, -100, rng.random(count) * 5)
        gold = {"labels": labels.astype(np.float32)}
    else:
        starts = np.where(unknown, 0, 4)
        gold = {"start_positions": starts, "end_positions": np.where(unknown, 0, 5)}
    return Features(
        dataset=f"d_{task.name}",
        task=task.name,
        tokens=tokens,
        bounds=np.concatenate([[0], ends]).astype(np.int64),
        first_segment=np.full(count, 4, np.int32),
        gold=gold,
        example=np.arange(count, dtype=np.int32),
    )


def stream(features, *, batch_size=8, rank=0, size=1, noise_channels=NOISE_CHANNELS):
    share = {"rank": rank, "size": size, "noise_channels": noise_channels}
    return BatchStream(features, batch_size, seed=5, pad_id=0, **share)


def passes_of(features, **options):
    """Steps of one pass, from any of them on."""
    ours = stream(features, **options)
    return lambda start: ([batch] for batch in ours.since(start))


def halted(steps, at, error=None):
    """The same passes, with this error or SIGTERM while those of step ``at`` are drawn."""

    def from_step(start):
        for number, passes in enumerate(steps(start), start):
            if number == at:
                if error:
                    raise error
                os.kill(os.getpid(), signal.SIGTERM)
            yield passes

    return from_step


def training(directory, **options):
    loop = {"save_every_steps": 1000, "log_every_steps": 1, "keep_checkpoints": 2}
    rates = {"peak_lr": 1e-3, "warmup_steps": 2}
    ours = {
        name: options.pop(name) for name in list(options) if name in TrainingConfig.model_fields
    }
    total = ours.pop("steps", 6)
    worker = options.get("worker", Worker())
    settings = {
        "config": TrainingConfig(**(loop | ours)),
        "optimizer": OptimizerConfig(**(rates | options.pop("rates", {}))),
        "total_steps": total,
        "seed": 7,
        "checkpoints": Checkpoints(directory / "checkpoints"),
        "journal": Journal(directory, console="quiet", enabled=worker.is_main),
        "identity": {"data": "abc"},
    }
    return Training(**(settings | options))
