"""Checks of the workers' GPUs before a group starts: torch can use them, and their models agree."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from road_ray.errors import ClusterError
from road_ray.models.performance.device_and_precision import gpu_problem

_log = logging.getLogger(__name__)
_ANSWER_SECONDS = 50.0  # of a process that imports torch; a message must come within a minute


@dataclass(frozen=True)
class NodeGpus:
    """GPUs of one machine: their models, or why torch cannot use them."""

    node: str
    models: tuple[str, ...]
    problem: str | None = None


def check_gpus() -> None:
    """Check the GPUs of every machine; warn of different models.

    Raises ``ClusterError`` if torch cannot use them, for example with a driver that is too old.
    """
    nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("GPU")]
    judge(_gpus_of(nodes))


def judge(machines: Sequence[NodeGpus]) -> None:
    """Raise ``ClusterError`` for GPUs that cannot be used; warn of different models."""
    if broken := [machine for machine in machines if machine.problem]:
        lines = "".join(f"\n    {machine.node}: {machine.problem}" for machine in broken)
        raise ClusterError(
            f"torch cannot use the GPUs of {len(broken)} of {len(machines)} machines:{lines}\n"
            "  fix: a newer NVIDIA driver there, or a torch that is built for the CUDA version of "
            "the driver (pytorch.org, `nvidia-smi` shows the version); or gpus_per_worker=0\n"
            "  kept: nothing was started"
        )
    models = {model for machine in machines for model in machine.models}
    if len(models) > 1:
        by_node = "; ".join(f"{m.node}: {', '.join(sorted({*m.models}))}" for m in machines)
        _log.warning(
            "workers may get GPUs of different models (%s): a group steps at the speed of the "
            "slowest and has the memory of the smallest\n  fix: a cluster of one model, if that "
            "matters",
            by_node,
        )


def _gpus_of(nodes: Sequence[Mapping[str, Any]]) -> list[NodeGpus]:
    """Return the GPUs of the nodes that answer in time."""
    # Without a share of a GPU it waits for none, and sees all of them; the process ends at once and
    # leaves no memory taken on them.
    task = ray.remote(num_cpus=0, num_gpus=0, max_calls=1, max_retries=0)(_models)
    refs: dict[str, Any] = {}
    for node in nodes:
        there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        refs[node["NodeManagerAddress"]] = task.options(scheduling_strategy=there).remote()
    machines = []
    if refs:
        ray.wait([*refs.values()], num_returns=len(refs), timeout=_ANSWER_SECONDS)
    for address, ref in refs.items():
        try:
            models, problem = ray.get(ref, timeout=0.1)
            machines.append(NodeGpus(address, tuple(models), problem))
        except GetTimeoutError:  # busy: its group waits for it anyway
            _log.warning("%s: its GPUs were not checked within %g s", address, _ANSWER_SECONDS)
        except RayError as error:
            machines.append(NodeGpus(address, (), f"the check failed: {error}"))
    return machines


def _models() -> tuple[list[str], str | None]:
    """Return the models of this machine's GPUs, or why torch cannot use them."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") == "":
        del os.environ["CUDA_VISIBLE_DEVICES"]  # Ray's, for a task without a GPU
    import torch

    if (problem := gpu_problem(required=True)) is not None:
        return [], problem
    return [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())], None
