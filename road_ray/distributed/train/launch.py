"""Where a training runs: in this process or in Ray Train workers."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from road_ray.distributed.connection import connected
from road_ray.training.monitoring.oom import oom_as_error
from road_ray.training.worker import Worker

_log = logging.getLogger(__name__)

Main = Callable[..., dict[str, float]]


def launch(
    main: Main,
    config: Any,
    *extra: Any,
    workers: int = 0,
    min_workers: int | None = None,
    gpus_per_worker: float = 0.0,
    address: str | None = None,
    scratch: Path = Path("runs"),
) -> dict[str, float]:
    """``main(config, worker, *extra)`` here (``workers = 0``) or in so many Ray Train workers; rank
    0's result. With ``min_workers`` a group that lost machines goes on with fewer, down to so
    many, and grows again.

    Errors of road_ray that a worker raises come out as they are. A worker that dies is restarted
    with its group, and ``main`` resumes from its own checkpoints.
    """
    if workers == 0:
        with oom_as_error(0):
            return main(config, Worker.alone(), *extra)
    with connected(address):  # first: Ray reads its settings when it is imported
        from road_ray.distributed.train.worker_group import fit_worker_group

        return fit_worker_group(
            main,
            config,
            extra,
            workers=workers,
            min_workers=min_workers,
            gpus_per_worker=gpus_per_worker,
            scratch=scratch,
        )
