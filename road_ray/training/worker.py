"""Rank, group size and device of a training process, and its collective operations; wrappers of the
model: replicas (DDP), sharded training (FSDP), ``torch.compile``, activation checkpointing.
"""

from __future__ import annotations

import copy
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from road_ray.data.batching import Batch, to_device
from road_ray.models.architectures import layer_list
from road_ray.models.precision import compile_for_all_shapes, default_device
from road_ray.objectives.base import Objective

# For what rank 0 does alone: the evaluations of a pre-training, checkpoints, downloads, the export.
# Ray restarts a group in which rank 0 hangs for longer.
_LONGEST_WAIT = timedelta(minutes=120)


@dataclass(frozen=True)
class Worker:
    """One of ``size`` processes that train one model, each on its share of every batch."""

    rank: int = 0
    size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @classmethod
    def alone(cls) -> Worker:
        """Return the only worker, on the default device."""
        return cls(device=default_device())

    @property
    def is_main(self) -> bool:
        """True for the one process that writes files, that of rank 0."""
        return self.rank == 0

    def wrap(self, module: nn.Module, *, sparse: bool) -> nn.Module:
        """Return the module in ``DistributedDataParallel``, or itself for one worker or FSDP.

        ``sparse``: the passes of a step have different heads, so that parameters may be left
        without gradient. The module itself is returned, and ``average_gradients`` exchanges what a
        step has computed: DDP would exchange all of it in every pass.
        """
        if self.size == 1:
            return module
        from torch.distributed.fsdp import FSDPModule
        from torch.nn.parallel import DistributedDataParallel

        if isinstance(module, FSDPModule):
            return module
        if sparse:
            for parameter in module.parameters():
                dist.broadcast(parameter.data, src=0)
            return module

        # Gradients are views of the buckets that are sent, not a second copy of them. With
        # static_graph and an output that is no pytree, such as ``Losses``, torch 2.13 exchanges no
        # gradient at all, without an error.
        with warnings.catch_warnings():
            # Torch 2.13 names a successor that older ones lack.
            warnings.filterwarnings("ignore", ".*broadcast_buffers", FutureWarning)
            return DistributedDataParallel(
                module,
                device_ids=[self.device] if self.device.type == "cuda" else None,
                broadcast_buffers=False,  # constants: position ids, token types
                gradient_as_bucket_view=True,
            )

    @torch.no_grad()
    def average_gradients(self, module: nn.Module) -> None:
        """Replace the gradients of a module that ``wrap`` left as it is by their means over all
        workers, which have gradients for the same parameters: their passes are of the same data
        sets. FSDP has done so in every pass.
        """
        if self.size == 1 or hasattr(module, "set_requires_gradient_sync"):
            return
        gradients = [p.grad for p in module.parameters() if p.grad is not None]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        dist.all_reduce(flat)
        parts = torch.split(flat / self.size, [gradient.numel() for gradient in gradients])
        for gradient, part in zip(gradients, parts, strict=True):
            gradient.copy_(part.view_as(gradient))

    def total(self, values: Tensor) -> Tensor:
        """Return ``values`` summed over all workers, as a new tensor without gradient."""
        values = values.detach().clone()
        if self.size > 1:
            dist.all_reduce(values)
        return values

    def union(self, names: Iterable[str]) -> list[str]:
        """Return the names that any worker has, sorted."""
        if self.size == 1:
            return sorted(set(names))
        everywhere: list[list[str]] = [[]] * self.size
        dist.all_gather_object(everywhere, sorted(names))
        return sorted({name for of_worker in everywhere for name in of_worker})

    def gather(self, part: Any) -> list[Any]:
        """Return the parts of all workers in their order on rank 0, nothing on others.
        Collective: it ends with an error after the time-out of the group.
        """
        parts: list[Any] = [part]
        if self.size > 1:
            parts = [None] * self.size if self.is_main else []
            dist.gather_object(part, parts if self.is_main else None)
        return parts

    @torch.no_grad()
    def copy_from_first(self, module: nn.Module) -> None:
        """Give the module of every worker the weights and constants of rank 0, on the worker's
        device. Collective.
        """
        if self.size == 1:
            return
        if next(module.parameters()).is_meta:
            module.to_empty(device=self.device)
        module.to(self.device)
        # By all their names: a module that was on the meta device has lost its ties.
        tensors = module.state_dict() | dict(module.named_buffers(remove_duplicate=False))
        for name in sorted(tensors):
            dist.broadcast(tensors[name], src=0)

    def synchronize(self) -> None:
        """Wait for this worker's device, so that a clock that is read next counts its work."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def barrier(self) -> None:
        """Wait for all workers while one evaluates, saves or fetches; longer than other collectives
        do before they end with an error.
        """
        if self.size > 1:
            dist.barrier(self._patient)

    @cached_property
    def _patient(self) -> dist.ProcessGroup:
        group: dist.ProcessGroup = dist.new_group(backend="gloo", timeout=_LONGEST_WAIT)
        return group


def one_ahead(
    steps: Iterable[Sequence[Batch]], objective: Objective, device: torch.device
) -> Iterator[tuple[Sequence[Batch], Sequence[Batch]]]:
    """Yield the prepared batches of each step, and the same batches on the device. On a GPU the
    copies of a step start before the previous step computes.
    """
    waiting = deque[tuple[Sequence[Batch], Sequence[Batch]]]()
    for passes in steps:
        prepared = [objective.prepare(batch) for batch in passes]
        waiting.append((prepared, [to_device(batch, device) for batch in prepared]))
        if len(waiting) > 1 or device.type != "cuda":
            yield waiting.popleft()
    yield from waiting


def recompute(objective: nn.Module) -> None:
    """Switch on activation checkpointing: layers save only their inputs and run again, with the
    same dropout, in the backward pass. Same gradients, about a third more time. Source: Chen et al.
    2016.
    """
    # Not by transformers, which lacks it for ALBERT and MPNet; TEAMS shares layers.
    for layer in {layer for encoder in encoders_of(objective) for layer in layer_list(encoder)}:
        layer.forward = partial(checkpoint, layer.forward, use_reentrant=False)


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
