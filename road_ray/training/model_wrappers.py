"""Wrappers of the model: ``torch.compile``, activation checkpointing, sharded training (FSDP)."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import pairwise

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from road_ray.models.architectures import layer_list
from road_ray.models.precision import compile_for_all_shapes
from road_ray.objectives.base import Objective
from road_ray.training.worker import Worker


def recompute(objective: nn.Module) -> None:
    """Switch on activation checkpointing: layers save only their inputs and run again, with the
    same dropout, in the backward pass. Same gradients, about a third more time. Source: Chen et al.
    2016.
    """
    for encoder in encoders_of(objective):
        encoder.gradient_checkpointing_enable(
            gradient_checkpointing_kwargs={"use_reentrant": False, "preserve_rng_state": True}
        )


def compile_encoders(objective: nn.Module, backend: object = "inductor") -> None:
    """Compile every encoder for batches of any shape; names in checkpoints do not change."""
    for encoder in encoders_of(objective):
        compile_for_all_shapes(encoder, backend)


def encoders_of(objective: nn.Module) -> Iterator[PreTrainedModel]:
    """Yield the encoder of every network of an objective, a shared one once."""
    for module in objective.modules():
        if isinstance(module, PreTrainedModel) and module.base_model is module:
            yield module


def shard(objective: Objective, worker: Worker, autocast: torch.dtype | None = None) -> Objective:
    """Return a copy whose parameters are sharded over the workers, under the same names; for one
    worker, the objective itself. With ``autocast``, layers are gathered in that type, half the
    bytes, and gradients are exchanged in fp32.

    Rank 0 keeps ``objective`` in host memory, the others on the meta device;
    ``PeriodicEvaluation`` updates it.
    """
    if worker.size == 1:
        return objective.to(worker.device)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    if worker.device.type == "cuda":
        torch.cuda.set_device(worker.device)  # where FSDP puts the shards
    objective.cpu()
    made = copy.deepcopy(objective)
    if not worker.is_main:
        objective.to("meta")
    mesh = init_device_mesh(worker.device.type, (worker.size,))
    policy = MixedPrecisionPolicy(param_dtype=autocast, reduce_dtype=torch.float32)
    stacks = [layer_list(encoder) for encoder in encoders_of(made)]
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


def full_tensor(tensor: Tensor) -> Tensor:
    """Return the tensor, gathered from all workers if it is sharded; collective."""
    gathered: Tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return gathered
