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

import torch
from torch import Tensor, nn

from road_ray.objectives.base import Objective
from road_ray.training.checkpoint.state import gathered_weights
from road_ray.training.performance.compile import encoders_of
from road_ray.training.worker import Worker


def shard(objective: Objective, worker: Worker, autocast: torch.dtype | None = None) -> Objective:
    """Return a copy whose parameters are sharded over the workers, under the same names; for one
    worker, the objective itself. With ``autocast``, layers are gathered in that type, half the
    bytes, and gradients are exchanged in fp32.

    The leading worker keeps ``objective`` in host memory, the others on the meta device;
    ``assemble`` updates it.
    """
    if worker.size == 1:
        return objective.to(worker.device)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    if worker.device.type == "cuda":
        torch.cuda.set_device(worker.device)  # where FSDP puts the shards
    objective.cpu()
    made = copy.deepcopy(objective)
    if not worker.leads:
        objective.to("meta")
    mesh = init_device_mesh(worker.device.type, (worker.size,))
    policy = MixedPrecisionPolicy(param_dtype=autocast, reduce_dtype=torch.float32)
    stacks = stacks_of(made)
    kinds = {type(layer) for stack in stacks for layer in stack}
    for layer in [part for part in made.modules() if type(part) in kinds]:  # TEAMS has one more
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    # Embeddings and heads in one unit: networks share them, and a parameter has only one unit. It
    # stays in fp32, as its inputs do: noise, numbers and teachers' logits.
    fully_shard(made, mesh=mesh)
    # By default FSDP gathers a layer when the host gets there, too late where small layers keep the
    # host busy; backward, it is ahead anyway.
    for stack in stacks:
        for layer, following in pairwise(stack):
            layer.set_modules_to_forward_prefetch([following])  # type: ignore[operator]
    return made


def stacks_of(objective: nn.Module) -> list[nn.ModuleList]:
    """Return the list of layers of every encoder, in the order in which they compute."""
    return [
        next(part for part in encoder.modules() if isinstance(part, nn.ModuleList))
        for encoder in encoders_of(objective)
    ]


def full_tensor(tensor: Tensor) -> Tensor:
    """Return the tensor, gathered from all workers if it is sharded; collective."""
    gathered: Tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return gathered


def assemble(objective: Objective, trained: Objective, worker: Worker) -> None:
    """Copy the current weights of ``trained`` into ``objective``, on the device of the leading
    worker; collective.
    """
    if objective is not trained:
        weights = gathered_weights(trained)
        if worker.leads:
            objective.load_state_dict(weights)
            objective.to(worker.device)


@contextmanager
def assembled(objective: Objective, trained: Objective, worker: Worker) -> Iterator[None]:
    """Like ``assemble``; on exit, free the objective's memory on the device."""
    assemble(objective, trained, worker)
    yield
    if worker.leads and objective is not trained:
        objective.cpu()
