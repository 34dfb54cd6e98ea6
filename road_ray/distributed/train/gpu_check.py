"""Check of the workers' GPUs before a group starts: torch can use them."""

from __future__ import annotations

import os
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from road_ray.errors import ClusterError
from road_ray.models.performance.device_and_precision import gpu_problem

_ANSWER_SECONDS = 50.0  # of a process that imports torch; a message must come within a minute


def check_gpus() -> None:
    """Raise ``ClusterError`` if torch cannot use the GPUs of a machine, for example with a driver
    that is too old. A machine that does not answer in time is left to the start of the group.
    """
    # Without a share of a GPU it waits for none, and sees all of them; the process ends at once and
    # leaves no memory taken on them.
    task = ray.remote(num_cpus=0, num_gpus=0, max_calls=1, max_retries=0)(_problem)
    machines: dict[Any, str] = {}
    for node in ray.nodes():
        if node["Alive"] and node["Resources"].get("GPU"):
            there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            ref = task.options(scheduling_strategy=there).remote()
            machines[ref] = node["NodeManagerAddress"]
    answered: list[Any] = []
    if machines:
        answered, _ = ray.wait([*machines], num_returns=len(machines), timeout=_ANSWER_SECONDS)
    if problems := {machines[ref]: problem for ref in answered if (problem := _answer(ref))}:
        lines = "".join(f"\n    {address}: {text}" for address, text in problems.items())
        raise ClusterError(
            f"torch cannot use the GPUs of {len(problems)} of {len(machines)} machines:{lines}\n"
            "  fix: a newer NVIDIA driver there, or a torch that is built for the CUDA version of "
            "the driver (pytorch.org, `nvidia-smi` shows the version); or gpus_per_worker=0\n"
            "  kept: nothing was started"
        )


def _answer(ref: Any) -> str | None:
    try:
        problem: str | None = ray.get(ref)
        return problem
    except RayError as error:
        return f"the check failed: {error}"


def _problem() -> str | None:
    """Return why torch cannot use this machine's GPUs, or None if it can."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") == "":
        del os.environ["CUDA_VISIBLE_DEVICES"]  # Ray's, for a task without a GPU
    return gpu_problem(required=True)
