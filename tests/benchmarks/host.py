"""Host time of a step: on the ``meta`` device nothing is computed, but everything is dispatched.

``python -m tests.benchmarks host`` prints the operators that a step dispatches and the CPU time of
this process, as a device with nothing else to wait for would see them.
"""

import time
from collections.abc import Iterator
from contextlib import nullcontext
from statistics import median
from typing import Any
from unittest.mock import patch

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import (
    BertConfig,
    BertModel,
    ElectraConfig,
    ElectraForMaskedLM,
    ElectraForPreTraining,
)

from road_ray.data.batching import to_device
from road_ray.data.task_and_dataset import Classify, Task
from road_ray.models.multitask import MultitaskModel
from road_ray.objectives.base import Objective
from road_ray.objectives.pretraining.electra import Electra
from road_ray.objectives.supervised import Supervised
from road_ray.training.config import OptimizerConfig
from road_ray.training.gradients import backward
from road_ray.training.optimizer import ElectraAdamW, build_optimizer, clip
from road_ray.training.worker import Worker

META = torch.device("meta")
_STEPS = 5  # after one that warms up


class _Operators(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


def _cases() -> Iterator[tuple[str, Objective, tuple[int, int]]]:
    """Yield name, objective and shape of the batch: ELECTRA-Base with a generator of a third of its
    width, and BERT-Base with three classes.
    """
    sizes = {"num_hidden_layers": 12, "embedding_size": 768}
    small = ElectraConfig(hidden_size=256, num_attention_heads=4, intermediate_size=1024, **sizes)
    base = ElectraConfig(hidden_size=768, num_attention_heads=12, intermediate_size=3072, **sizes)
    models = ElectraForMaskedLM(small), ElectraForPreTraining(base)
    electra = Electra(*models, special_ids=(0, 101, 102, 103), mask_id=103)
    yield "ELECTRA-Base pre-training, 32 x 512", electra, (32, 512)
    bert = MultitaskModel(BertModel(BertConfig()), [Task("nli", Classify(("a", "b", "c")))])
    yield "BERT-Base fine-tuning, 32 x 128", Supervised(bert), (32, 128)


def _batch(objective: Objective, shape: tuple[int, int]) -> Any:
    tokens = torch.randint(1000, 30_000, shape)
    same = torch.ones_like(tokens)
    batch = {"input_ids": tokens, "attention_mask": same, "token_type_ids": 0 * same}
    noise = torch.rand(objective.noise_channels, *shape)
    return batch | {"noise": noise, "labels": same[:, 0], "task": "nli", "dataset": "d"}


def optimizer_of(objective: Objective) -> ElectraAdamW:
    """The optimizer of an objective, which it moves to the meta device."""
    optimizer = build_optimizer(objective.to(META).train(), OptimizerConfig())
    for group in (optimizer.defaults, *optimizer.param_groups):
        group["fused"] = None  # the meta device has no fused kernels
    optimizer.set_rate(1.0)
    return optimizer


def meta_step(objective: Objective, optimizer: ElectraAdamW, batch: Any) -> Any:
    """Make a step on a batch that is on the meta device; return its losses and gradient norm."""
    optimizer.zero_grad()
    worker = Worker(device=META)
    # The meta device has no autocast, which reads no values anyway.
    with patch.object(torch, "autocast", lambda *_, **__: nullcontext()):
        result = backward(objective, objective, [batch], worker, seed=1, step=0, autocast=None)
    norm = clip(objective, 1.0)
    optimizer.step()
    return result, norm


def main() -> None:
    """Print a line for each step: operators, and milliseconds of CPU time."""
    torch.set_num_threads(1)
    for name, objective, shape in _cases():
        batch, seconds = _batch(objective, shape), []
        optimizer = optimizer_of(objective)
        for watched in [nullcontext()] * (1 + _STEPS) + [_Operators()]:
            began = time.process_time()
            with watched as operators:
                meta_step(objective, optimizer, to_device(objective.prepare(batch), META))
            seconds.append(time.process_time() - began)
        milliseconds = 1000 * median(seconds[1:-1])
        print(f"{name}: {operators.count} operators, {milliseconds:.0f} ms")
