"""A group of Ray Train workers for one training, started again when one of them dies.

Driver and workers tell each other by files of one directory, which is on the disk that all machines
share.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import ray
import ray.train
import torch
import torch.distributed as dist
from ray.exceptions import RayActorError
from ray.train import (
    ControllerError,
    FailureConfig,
    LoggingConfig,
    RunConfig,
    ScalingConfig,
    UserCallback,
    WorkerGroupError,
)
from ray.train.torch import TorchConfig, TorchTrainer, get_device

from road_ray import errors
from road_ray.distributed.connection import (
    driver_environment,
    environment_for_workers,
    temporary_variables,
)
from road_ray.distributed.ray_private import propagate_environment_variable
from road_ray.distributed.room import room
from road_ray.errors import ClusterError, RoadError, first_line
from road_ray.training.monitoring.metrics_journal import read_metrics
from road_ray.training.run_context import REMEDY, RunContext, StopRequest, oom_as_error
from road_ray.training.worker import Worker

_log = logging.getLogger(__name__)
_MAX_FAILURES = 3  # restarts of the worker group; Ray's own default is none
_GROWS_AFTER_SECONDS = 60.0  # between two checks for room for more workers
# Of a step: while rank 0 evaluates or saves, the others wait in a barrier of their own.
_COLLECTIVE_SECONDS = 1800


def fit_worker_group(
    main: Callable[..., dict[str, float]], config: Any, extra: Sequence[object], context: RunContext
) -> dict[str, float]:
    """Run ``main(config, worker, context, *extra)`` in ``config.workers`` workers, or in as many as
    there is room for but at least ``config.min_workers``; return the result of rank 0. Ray is
    connected.

    ``context`` is the driver's; each worker makes its own (see ``_on_worker``). What they tell each
    other travels through files below ``config.run_dir``, which all machines share.
    """
    resources = {name: n for name, n in (("CPU", 1.0), ("GPU", config.gpus_per_worker)) if n}
    workers, minimum = config.workers, config.min_workers or config.workers
    room("workers", minimum, resources, free=True, remedy=", or lower --workers")
    storage = config.run_dir.resolve() / ".ray"
    # Earlier files are of a driver that was killed: the directory belongs to this process.
    shutil.rmtree(storage, ignore_errors=True)
    storage.mkdir(parents=True)
    messages = Messages(storage)
    run = main, config, extra
    settings = run, environment_for_workers(), messages, context.on_row is not None
    trainer = TorchTrainer(
        _on_worker,
        train_loop_config={"settings": ray.put(settings)},  # the controller need not load them
        torch_config=TorchConfig(
            backend="nccl" if "GPU" in resources else "gloo", timeout_s=_COLLECTIVE_SECONDS
        ),
        scaling_config=ScalingConfig(
            num_workers=workers if minimum == workers else (minimum, workers),
            use_gpu="GPU" in resources,
            resources_per_worker=resources,
            elastic_resize_monitor_interval_s=_GROWS_AFTER_SECONDS,
        ),
        run_config=RunConfig(
            # New for each: Ray would resume its own bookkeeping, and the checkpoints are ours.
            name=f"fit-{uuid.uuid4().hex[:12]}",
            storage_path=str(storage),
            failure_config=FailureConfig(max_failures=_MAX_FAILURES),
            callbacks=[messages],
            # Ray would print the traceback of every error; the last one is raised.
            logging_config=LoggingConfig(log_level="CRITICAL"),
        ),
    )
    # Ray Train's clean-up of placement groups looks for the only cluster on the machine, and fails
    # where there are several, unless it is told.
    propagate_environment_variable("RAY_ADDRESS")
    try:
        with temporary_variables({"RAY_ADDRESS": ray.get_runtime_context().gcs_address}):
            return _supervise(
                lambda: _persistent(trainer.fit, config.run_dir).return_value, messages, context
            )
    finally:
        shutil.rmtree(storage, ignore_errors=True)


def _supervise(work: Callable[[], Any], messages: Messages, context: RunContext) -> dict[str, Any]:
    """Return the result of ``work``, which runs in a thread. Meanwhile this thread forwards
    SIGTERM, Ctrl-C and ``context.stop`` to the workers and their rows to ``context.on_row``, and
    logs deaths.

    Raises the failure that a worker reported, also when ``work`` ended in another way, and
    ``ClusterError`` for workers that died again and again; else Ray's error, whose traceback shows
    where in a worker it was raised.
    """
    outcome: Future[dict[str, Any]] = Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:
            outcome.set_exception(error)

    def forward() -> None:
        for row in rows.new():
            if context.on_row is not None:
                context.on_row(*row)
        for rank, cause in deaths.new():
            now = time.strftime("%X")  # the command line shows a text once
            told = "worker %d failed at %s: %s\n  was it for memory? then: %s"
            _log.warning(told, rank, now, cause, REMEDY)

    rows, deaths, stopping = Inbox(messages.rows), Inbox(messages.deaths), False
    with StopRequest() as request:
        threading.Thread(target=run, name="fit", daemon=True).start()
        while not outcome.done():
            wait([outcome], timeout=0.2)
            if not stopping and (request.requested or context.stop.is_set()):
                stopping = True
                messages.stop()
                _log.warning("stopping after the step in progress; repeat to stop at once")
            forward()
        forward()
    error = outcome.exception()
    if failure := messages.failure():
        raise failure from error
    failures = [*getattr(error, "worker_failures", {}).values()]
    failures = failures or [getattr(error, "controller_failure", error)]
    if died := [failure for failure in failures if isinstance(failure, RayActorError)]:
        raise ClusterError(
            f"workers died again and again, and got no further: {first_line(died[0])}\n"
            f"  was it for memory? then: {REMEDY}\n"
            "  kept: the checkpoints; the same command resumes from the newest"
        ) from error
    return outcome.result()


def _persistent(fit: Callable[[], Any], directory: Path) -> Any:
    """Return the result of ``fit``, repeated as long as the journal in ``directory`` has more steps
    at each failure than at the one before: a long run survives any number of deaths, a broken one
    ends after a few.

    Also repeated when workers die during their start, where Ray itself gives up at the first.
    """
    retries_left, reached, journal = _MAX_FAILURES, 0, directory / "metrics.jsonl"
    while True:
        try:
            return fit()
        except (ControllerError, RayActorError) as error:
            cause = getattr(error, "controller_failure", error)
            if not retries_left or not isinstance(cause, RayActorError):
                raise
            retries_left -= 1
            _log.warning("a worker died during its start, or Ray's controller; restarting")
        except WorkerGroupError:
            rows = read_metrics(journal) if journal.is_file() else []
            now = max((int(row["step"]) for row in rows), default=0)
            if now <= reached:
                raise
            retries_left, reached = _MAX_FAILURES, now
            _log.warning("workers failed often, but reached step %d; restarting", now)


def _on_worker(config: Mapping[str, ray.ObjectRef]) -> Any:
    """Training function of Ray Train: run ``main`` with the worker and the context of this process.

    A retry does not cure a ``RoadError``, so it must not fail the worker, which would restart the
    group: it is told to the driver, and the other workers stop waiting because this one leaves
    their process group.
    """
    (main, given, extra), environment, messages, report_rows = ray.get(config["settings"])
    if messages.failure() is not None:
        return None
    group = ray.train.get_context()
    device = get_device() if torch.cuda.is_available() else torch.device("cpu")
    worker = Worker(group.get_world_rank(), group.get_world_size(), device)
    if device.type == "cpu":
        torch.set_num_threads(1)
    on_row = partial(append, messages.rows) if report_rows else None
    # Collective: True when the machine of any worker is about to be taken away.
    context = RunContext(
        on_row=on_row, preempted=lambda: ray.train.get_preemption_info() is not None
    )
    with driver_environment(environment), messages.reach(context):
        try:
            with oom_as_error(worker.rank, context):
                return main(given, worker, context, *extra)
        except RoadError as error:
            messages.fail(error)
            if dist.is_initialized():
                dist.destroy_process_group()
            return None
        except Exception:
            time.sleep(1.0)  # another worker may be about to report why this one lost its group
            if messages.failure() is not None:
                return None
            raise


_LOOK_SECONDS = 1.0
_GRACE_SECONDS = 20.0  # for a worker to notice by itself that another one has failed


class Messages(UserCallback):  # type: ignore[misc]  # Ray does not type it
    """Stop, failure, rows and deaths of one group; can be sent to other processes, such as that of
    Ray's controller, which tells the deaths.

    The files are made at once: a client of NFS sees at once what is written to a file that it
    opens, but for up to a minute not that there is a new one.
    """

    def __init__(self, directory: Path) -> None:
        self._stop, self._failure = directory / "stop", directory / "failure.jsonl"
        self.rows = directory / "rows.jsonl"  # of the journal of rank 0: step, total steps, metrics
        self.deaths = directory / "deaths.jsonl"  # rank, last line of the cause in Ray's words
        for path in (self._stop, self._failure, self.rows, self.deaths):
            path.touch()

    def stop(self) -> None:
        """Tell all workers to stop after the step in progress."""
        self._stop.write_text("stop")

    def fail(self, error: RoadError) -> None:
        """Store an error that a retry does not cure. Only the first counts: others follow from
        it.
        """
        append(self._failure, type(error).__name__, str(error))

    def after_exception(self, run_context: object, worker_exceptions: dict[int, Exception]) -> None:
        """Store the deaths of workers."""
        for rank, error in worker_exceptions.items():
            append(self.deaths, rank, str(error).strip().rpartition("\n")[2])

    def failure(self) -> RoadError | None:
        """Return the first stored error, of its own class."""
        for kind, text in Inbox(self._failure).new():
            error: RoadError = getattr(errors, kind, ClusterError)(text)
            return error
        return None

    @contextmanager
    def reach(self, context: RunContext) -> Iterator[None]:
        """Set ``stop`` and ``check_preemption`` of a worker's context from a thread.

        A worker that waits for one that has failed would wait for ever: if it has not left this
        block 20 s after the failure, its process exits.
        """
        finished = threading.Event()

        def look() -> None:
            with suppress(FileNotFoundError):  # the group has ended
                if self._stop.read_text():
                    context.stop.set()
            context.check_preemption = context.preempted is not None

        def run() -> None:
            failed_since: float | None = None
            while not finished.wait(_LOOK_SECONDS):
                look()
                if self.failure() is not None:
                    failed_since = failed_since or time.monotonic()
                    if time.monotonic() - failed_since > _GRACE_SECONDS and not finished.is_set():
                        os._exit(1)

        look()
        threading.Thread(target=run, name="messages", daemon=True).start()
        try:
            yield
        finally:
            finished.set()


def append(path: Path, *item: object) -> None:
    """Append an item to a file of messages."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(item) + "\n")


class Inbox:
    """Items of a file of messages, each given once."""

    def __init__(self, path: Path) -> None:
        self._path, self._read = path, 0

    def new(self) -> Iterator[list[Any]]:
        """Yield the items since the last call; a line that a killed process left torn is none."""
        with suppress(FileNotFoundError), self._path.open("rb") as file:  # the group has ended
            file.seek(self._read)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._read += len(line)
                with suppress(ValueError):
                    yield json.loads(line)
