"""Two processes of this machine that train as one group, without Ray."""

import gc
import multiprocessing
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import torch.distributed as dist

from road_ray.training.worker import Worker

# Forks of a process that has imported, but runs no threads: a fork of this one may crash in torch,
# and a fresh interpreter would import for seconds.
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.pair", "torch.distributed.fsdp", "road_ray.training.loop"])


def both(work: Callable[..., None], directory: Path, *given: Any, timeout_seconds: float) -> None:
    """``work(worker, *given)`` in each of the two; what either raises is told."""
    task = cloudpickle.dumps((work, given))  # fixtures bring functions within functions
    workers = [
        _CONTEXT.Process(target=_run, args=(rank, directory, task), daemon=True) for rank in (0, 1)
    ]
    for process in workers:
        process.start()
    for process in workers:
        process.join(timeout_seconds)
    errors = [path.read_text() for path in sorted(directory.glob("error-*"))]
    assert not errors, "\n".join(errors)
    assert [process.exitcode for process in workers] == [0, 0]


def _run(rank: int, directory: Path, task: bytes) -> None:
    gc.freeze()  # or each look for garbage among what is imported takes a third of a second
    try:
        work, given = cloudpickle.loads(task)
        store = f"file://{directory}/store"
        dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
        work(Worker(rank=rank, size=2), *given)
        dist.barrier()
    except BaseException:
        (directory / f"error-{rank}").write_text(traceback.format_exc())
        raise
