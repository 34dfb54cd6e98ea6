"""Launch of a training: in this process or in Ray Train workers."""

from collections.abc import Callable
from typing import Any

from road_ray.distributed.connection import connected
from road_ray.errors import ConfigError
from road_ray.training.run_context import RunContext, oom_as_error
from road_ray.training.worker import Worker

Main = Callable[..., dict[str, float]]


def launch(
    main: Main, config: Any, *extra: object, context: RunContext | None = None
) -> dict[str, float]:
    """Run ``main(config, worker, context, *extra)`` here (``workers = 0``) or in that many Ray
    Train workers, and return the result of rank 0. ``workers``, ``min_workers``,
    ``gpus_per_worker``, ``address`` and ``run_dir`` are those of ``config``: with ``min_workers`` a
    group that loses machines continues with fewer, down to that number, and grows again.

    A worker in another process gets a ``RunContext`` of its own, which stop requests reach and
    whose rows come back to ``context.on_row``.

    Raises the ``RoadError`` that a worker raised, and ``ConfigError`` for several workers on one
    GPU. A worker that dies is restarted with its group, and ``main`` resumes from its own
    checkpoints.
    """
    context = context or RunContext()
    if config.workers > 1 and 0 < config.gpus_per_worker < 1:
        raise ConfigError(
            f"gpus_per_worker = {config.gpus_per_worker:g} with workers = {config.workers}: NCCL, "
            "which sums their gradients, takes one worker for each GPU\n"
            "  allowed: 1 or more; a fraction with one worker, or for runs that train at once\n"
            "  fix: gpus_per_worker=1 with as many workers as there are GPUs; nothing was started"
        )

    def run(worker: Worker, context: RunContext) -> dict[str, float]:
        with oom_as_error(worker.rank, context):
            return main(config, worker, context, *extra)

    if config.workers == 0:
        return run(Worker.alone(), context)
    with connected(config.address):  # first: Ray reads its settings when it is imported
        from road_ray.distributed.train.worker_group import fit_worker_group

        return fit_worker_group(run, config, context)
