"""A worker that is alone; two of them are tested with the step."""

from __future__ import annotations

from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn

from road_ray.distributed.train import worker_group
from road_ray.training.worker import Worker


def test_alone_every_method_is_the_identity():
    worker, layer = Worker.alone(), nn.Linear(2, 2)
    assert (worker.rank, worker.size, worker.is_main) == (0, 1, True)
    assert worker.wrap(layer, sparse=True) is layer
    assert worker.barrier() is None
    assert worker.gather("part") == ["part"]
    assert worker.union(["b", "a", "b"]) == ["a", "b"]
    assert worker.union([]) == []
    values = torch.tensor([1.0, 2.0], requires_grad=True)
    total = worker.total(values)
    assert torch.equal(total, values)
    assert not total.requires_grad
    total += 1
    assert values.tolist() == [1, 2]


def test_only_rank_0_is_the_main_process():
    assert not Worker(rank=1, size=2).is_main
    assert Worker().device == torch.device("cpu")


def test_a_long_write_is_waited_for_in_a_barrier_of_its_own(monkeypatch):
    """All other collectives, the logits of an evaluation too, have the time-out of the group, half
    an hour. A worker that hangs must not stop the group for days.
    """
    waited, gathered = [], []
    monkeypatch.setattr(dist, "new_group", lambda **options: options)
    monkeypatch.setattr(dist, "barrier", waited.append)
    worker = Worker(rank=0, size=2)
    for _ in range(2):
        worker.barrier()
    assert waited == [{"backend": "gloo", "timeout": timedelta(hours=2)}] * 2
    monkeypatch.setattr(dist, "gather_object", lambda *given, **named: gathered.append(named))
    worker.gather("logits")
    assert gathered == [{}]  # of the default group
    assert worker_group._COLLECTIVE_SECONDS == 1800
