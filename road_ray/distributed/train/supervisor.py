"""The driver beside its workers: passes signals on, tells rows and deaths, ends the silent."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from road_ray.distributed.train.coordinator import Coordinator, Heartbeat
from road_ray.training.monitoring.oom import REMEDY
from road_ray.training.monitoring.trackers import RowCallback
from road_ray.training.signals import StopRequest

_log = logging.getLogger(__name__)
SILENT_SECONDS = 120.0  # of a worker without a sign of life; long for a machine that swaps
_LISTEN_SECONDS = 2.0
# How Ray tells that a process went without a word: by SIGKILL, or by its own guard of the memory.
_KILLED = ("End of file", "memory", "SIGKILL", "died unexpectedly", "worker died")


def supervise(
    work: Callable[[], Any], coordinator: Coordinator, see: RowCallback | None = None
) -> Any:
    """What ``work`` gives, done in a thread, while this one passes SIGTERM and Ctrl-C on to the
    board, tells ``see`` of the rows that were pinned there, and ends workers that have fallen
    silent.

    Raises the failure that workers pinned, also when ``work`` ended in another way.
    """
    outcome: dict[str, Any] = {}

    def run() -> None:
        try:
            outcome["result"] = work()
        except BaseException as error:
            outcome["error"] = error

    thread = threading.Thread(target=run, name="fit", daemon=True)
    with StopRequest() as stop:
        thread.start()
        told, listen_at = False, time.monotonic()
        while thread.is_alive():
            thread.join(0.2)
            if stop.asked and not told:
                told = True
                coordinator.stop()
                _log.warning("stopping after the step under way; once more to stop at once")
            if time.monotonic() > listen_at:
                listen_at = time.monotonic() + _LISTEN_SECONDS
                _look(coordinator, see)
        _look(coordinator, see)
    if error := outcome.get("error"):
        raise (coordinator.failure() or error) from error
    if failure := coordinator.failure():
        raise failure
    return outcome["result"]


def _look(coordinator: Coordinator, see: RowCallback | None) -> None:
    """Tell of rows and of workers that failed, and end those that are silent."""
    try:
        if see is not None:
            for row in coordinator.rows():
                see(*row)
        for rank, beat, cause in coordinator.deaths():
            _log.warning("%s", describe_worker_failure(rank, beat, cause))
        _end_silent(coordinator, SILENT_SECONDS)
    except RayError:
        return  # the board is slow, as on a machine that is overloaded; the next look will do


def describe_worker_failure(rank: int, beat: Heartbeat | None, cause: str) -> str:
    """What to tell of a worker that failed; of one that was killed, that it may have been for
    memory, and what would take less.
    """
    where = (
        f"worker {rank} (process {beat.pid}) failed after step {beat.step}, at work on {beat.batch}"
        if beat
        else f"worker {rank} failed before its first step"
    )
    if any(sign in cause for sign in _KILLED):
        return (
            f"{where}: its process was killed or crashed\n"
            f"  was it for memory? then: {REMEDY}\n"
            "  the group starts again from the newest checkpoint"
        )
    return f"{where}: {(cause.strip().splitlines() or ['without a word'])[-1]}"


def _end_silent(coordinator: Coordinator, seconds: float) -> None:
    """Kill workers that hang, each on its machine; Ray then starts the group again."""
    try:
        found = coordinator.silent(seconds)
    except GetTimeoutError:
        return  # the board is slow, or not up yet on a busy machine: asked again later
    for rank, beat in found.items():
        _log.warning(
            "worker %d (process %d) is silent for %g s, last seen at step %d; ending it",
            rank,
            beat.pid,
            seconds,
            beat.step,
        )
        coordinator.actor.leave.remote(rank)
        there = NodeAffinitySchedulingStrategy(beat.node, soft=False)
        ray.remote(num_cpus=0, max_retries=0, scheduling_strategy=there)(_end).remote(beat.pid)


def _end(pid: int) -> None:
    import signal
    from contextlib import suppress

    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
