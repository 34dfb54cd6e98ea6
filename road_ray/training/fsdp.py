"""Sharded training (PyTorch's FSDP2): parameters, gradients and optimizer state are split over the
workers; a layer is gathered only while it computes.

The loop trains a sharded copy. The recipe's objective stays unsharded and receives the weights for
evaluation and export.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from road_ray.objectives.base import Objective
from road_ray.training.performance.compile import encoders_of
from road_ray.training.worker import Worker


def shard(objective: Objective, worker: Worker) -> Objective:
    """Return a copy whose parameters are sharded over the workers, under the same names; for one
    worker, the objective itself.

    The leading worker keeps ``objective`` in host memory, the others on the meta device;
    ``assemble`` updates it.
    """
    if worker.size == 1:
        return objective.to(worker.device)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    if worker.device.type == "cuda":
        torch.cuda.set_device(worker.device)  # where FSDP puts the shards
    objective.cpu()
    made = copy.deepcopy(objective)
    if not worker.leads:
        objective.to("meta")
    mesh = init_device_mesh(worker.device.type, (worker.size,))
    for layer in layers(made):
        fully_shard(layer, mesh=mesh)
    # Embeddings and heads in one unit: networks share them, and a parameter has only one unit.
    fully_shard(made, mesh=mesh)
    prefetch_layers(made)
    return made


def prefetch_layers(sharded: nn.Module) -> None:
    """Gather the next layer of a stack before a layer computes. By default FSDP gathers it when the
    host gets there, too late where small layers keep the host busy; backward, it is ahead anyway.
    """
    for stack in stacks(sharded):
        for layer, following in pairwise(stack):
            layer.set_modules_to_forward_prefetch([following])  # type: ignore[operator]


def layers(objective: nn.Module) -> list[nn.Module]:
    """Return every layer of every encoder, shared ones once, and the additional layer of TEAMS."""
    kinds = {type(layer) for stack in stacks(objective) for layer in stack}
    return [part for part in objective.modules() if type(part) in kinds]


def stacks(objective: nn.Module) -> list[nn.ModuleList]:
    """Return the list of layers of every encoder, in the order in which they compute."""
    return [
        next(part for part in encoder.modules() if isinstance(part, nn.ModuleList))
        for encoder in encoders_of(objective)
    ]


def full_tensor(tensor: Tensor) -> Tensor:
    """Return the tensor, gathered from all workers if it is sharded; collective."""
    gathered: Tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return gathered


def local_part(value: Tensor, like: Any) -> Tensor:
    """Return this worker's shard of ``value`` if ``like`` is sharded, else ``value``."""
    if not hasattr(like, "device_mesh"):
        return value
    from torch.distributed.tensor import distribute_tensor

    value = value.to(like.device)
    # Every worker has the whole value, so nothing is sent.
    return distribute_tensor(value, like.device_mesh, like.placements, src_data_rank=None)


@torch.no_grad()
def copy_weights(trained: Objective, into: Objective | None) -> None:
    """Copy the current weights into an objective of the same shape; collective. Workers without
    such an objective pass None.
    """
    targets = {} if into is None else into.state_dict(keep_vars=True)
    seen: set[int] = set()
    for name, tensor in trained.state_dict(keep_vars=True).items():
        if id(tensor) in seen:  # tied
            continue
        seen.add(id(tensor))
        value = full_tensor(tensor)
        if into is not None:
            targets[name].copy_(value)


def assemble(objective: Objective, trained: Objective, worker: Worker) -> None:
    """Copy the current weights of ``trained`` into ``objective``, on the device of the leading
    worker; collective.
    """
    if objective is not trained:
        copy_weights(trained, objective if worker.leads else None)
        if worker.leads:
            objective.to(worker.device)


@contextmanager
def assembled(objective: Objective, trained: Objective, worker: Worker) -> Iterator[None]:
    """Like ``assemble``; on exit, free the objective's memory on the device."""
    assemble(objective, trained, worker)
    yield
    if worker.leads and objective is not trained:
        objective.cpu()
