"""Several runs in parallel, each a Ray task."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from road_ray.distributed.connection import enter_directory
from road_ray.errors import ClusterError, InterruptedRunError, RoadError
from road_ray.training.signals import OUTSIDE


def run_parallel(
    function: Callable[..., Any],
    configs: Sequence[Any],
    *extra: Any,
    num_cpus: float = 1.0,
    num_gpus: float = 0.0,
    timeout_seconds: float,
) -> list[Any]:
    """``function(config, *extra)`` for every config, as many at once as the cluster has room for;
    results in their order. Raises the first error of ours; ``ClusterError`` when no node has room
    for one, or when ``timeout_seconds`` pass.
    """
    import ray

    from road_ray.distributed.placement import check_placement
    from road_ray.distributed.train.coordinator import Coordinator, connect_worker
    from road_ray.distributed.train.supervisor import supervise

    check_placement("run", 1, {"CPU": num_cpus, "GPU": num_gpus})
    place, coordinator = os.getcwd(), Coordinator()

    def run(number: int, config: Any) -> Any:
        torch.set_num_threads(max(1, int(num_cpus)))
        with connect_worker(coordinator, number):
            if OUTSIDE.stop:
                return InterruptedRunError(f"run {number} was not begun")
            try:
                return function(config, *extra)
            except RoadError as error:
                return error

    def one(number: int, config: Any) -> Any:
        enter_directory(place)
        # Ray lends a task's processors to the next one while its main thread waits for an answer
        # (the board's, a teacher's), and two runs then share them; those of other threads it keeps.
        with ThreadPoolExecutor(1) as own_thread:
            return own_thread.submit(run, number, config).result()

    task = ray.remote(num_cpus=num_cpus, num_gpus=num_gpus, max_retries=2)(one)
    refs = [task.remote(number, config) for number, config in enumerate(configs)]
    try:
        results = supervise(lambda: _gathered(refs, timeout_seconds), coordinator)
    finally:
        for ref in refs:
            ray.cancel(ref, force=True)
        coordinator.close()
    for result in results:
        if isinstance(result, RoadError):
            raise result
    return list(results)


def _gathered(refs: Sequence[Any], timeout_seconds: float) -> list[Any]:
    """What the tasks gave. Raises ``ClusterError`` when time is over."""
    import ray

    _, waiting = ray.wait(list(refs), num_returns=len(refs), timeout=timeout_seconds)
    if waiting:
        raise ClusterError(
            f"{len(waiting)} of {len(refs)} runs did not end within {timeout_seconds:g} s"
        )
    return [ray.get(ref, timeout=60) for ref in refs]
