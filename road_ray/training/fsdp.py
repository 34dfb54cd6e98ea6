"""Training in parts (PyTorch's FSDP2): parameters, gradients and moments lie over the workers, and
a layer is whole only while it is at work.

The loop trains a copy; the objective of the recipe stays as it is, for whoever evaluates or exports
it, and gets the weights back when it is looked at.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from road_ray.objectives.base import Objective
from road_ray.training.compile import encoders_of
from road_ray.training.worker import Worker


def shard(objective: Objective, worker: Worker) -> Objective:
    """A copy whose parameters lie over the workers in parts, under the same names; alone, the
    objective itself.

    Of ``objective`` the worker that leads keeps the weights, in host memory, and the others keep
    the shapes; ``assemble`` brings it up to date.
    """
    if worker.size == 1:
        return objective.to(worker.device)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    if worker.device.type == "cuda":
        torch.cuda.set_device(worker.device)  # where FSDP puts the parts
    objective.cpu()
    made = copy.deepcopy(objective)
    if not worker.leads:
        objective.to("meta")
    mesh = init_device_mesh(worker.device.type, (worker.size,))
    for layer in layers(made):
        fully_shard(layer, mesh=mesh)
    # Embeddings and heads together: networks share them, and a parameter belongs to one unit only.
    fully_shard(made, mesh=mesh)
    return made


def layers(objective: nn.Module) -> list[nn.Module]:
    """Every layer of every encoder, those that networks share once; TEAMS has one more beside."""
    stacks = [
        next(part for part in encoder.modules() if isinstance(part, nn.ModuleList))
        for encoder in encoders_of(objective)
    ]
    kinds = {type(layer) for stack in stacks for layer in stack}
    return [part for part in objective.modules() if type(part) in kinds]


def full_tensor(tensor: Tensor) -> Tensor:
    """The tensor itself, or put together from the parts of all workers, who all must ask."""
    gathered: Tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return gathered


def local_part(value: Tensor, like: Any) -> Tensor:
    """This worker's part of a whole ``value`` where ``like`` lies in parts, else the value."""
    if not hasattr(like, "device_mesh"):
        return value
    from torch.distributed.tensor import distribute_tensor

    value = value.to(like.device)
    # Every worker has the whole, so nothing has to be sent.
    return distribute_tensor(value, like.device_mesh, like.placements, src_data_rank=None)


@torch.no_grad()
def copy_weights(trained: Objective, into: Objective | None) -> None:
    """Copy the weights of now into another of the same shape; all workers must call, those without
    one with None.
    """
    theirs = {} if into is None else into.state_dict(keep_vars=True)
    seen: set[int] = set()
    for name, tensor in trained.state_dict(keep_vars=True).items():
        if id(tensor) in seen:  # tied
            continue
        seen.add(id(tensor))
        value = full_tensor(tensor)
        if into is not None:
            theirs[name].copy_(value)


def assemble(objective: Objective, trained: Objective, worker: Worker) -> None:
    """Make ``objective`` what ``trained`` is now, whole on the device of the worker that leads; all
    must call.
    """
    if objective is not trained:
        copy_weights(trained, objective if worker.leads else None)
        if worker.leads:
            objective.to(worker.device)


@contextmanager
def assembled(objective: Objective, trained: Objective, worker: Worker) -> Iterator[None]:
    """Inside, the same; afterwards its place on the device is free again."""
    assemble(objective, trained, worker)
    yield
    if worker.leads and objective is not trained:
        objective.cpu()
