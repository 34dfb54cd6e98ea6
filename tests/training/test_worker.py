"""A worker that is alone; two of them are tested with the step."""

from __future__ import annotations

import torch
from torch import nn

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
