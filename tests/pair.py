"""Two processes of this machine that train as one group, without Ray."""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch.distributed as dist
import torch.distributed.fsdp  # noqa: F401 - takes a second: here, not in each process

from road_ray.training.worker import Worker


def both(work: Callable[..., None], directory: Path, *given: Any, timeout_seconds: float) -> None:
    """``work(worker, *given)`` in each of the two; what either raises is told."""
    context = multiprocessing.get_context("fork")  # a fresh interpreter would import for seconds
    workers = [
        context.Process(target=_one, args=(rank, directory, work, given), daemon=True)
        for rank in (0, 1)
    ]
    for process in workers:
        process.start()
    for process in workers:
        process.join(timeout_seconds)
    errors = [path.read_text() for path in sorted(directory.glob("error-*"))]
    assert not errors, "\n".join(errors)
    assert [process.exitcode for process in workers] == [0, 0]


def _one(rank: int, directory: Path, work: Callable[..., None], given: tuple[Any, ...]) -> None:
    try:
        store = f"file://{directory}/store"
        dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
        work(Worker(rank=rank, size=2), *given)
        dist.barrier()
    except BaseException:
        (directory / f"error-{rank}").write_text(traceback.format_exc())
        raise
