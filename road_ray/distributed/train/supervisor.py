"""Supervision of workers by their driver: it forwards stop requests and rows and reports deaths.
Ray ends workers that hang.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from ray.exceptions import RayError

from road_ray.distributed.train.worker_channel import Heartbeat, WorkerChannel
from road_ray.training.monitoring.out_of_memory import REMEDY
from road_ray.training.monitoring.trackers import RowCallback
from road_ray.training.run_context import RunContext
from road_ray.training.stop_request import StopRequest

_log = logging.getLogger(__name__)
_POLL_SECONDS = 2.0
# Signs in Ray's message that a process was killed, by SIGKILL or by Ray's memory monitor.
_KILLED = ("End of file", "memory", "SIGKILL", "died unexpectedly", "worker died")


def supervise(
    work: Callable[[], Any], channel: WorkerChannel, context: RunContext | None = None
) -> Any:
    """Return the result of ``work``, which runs in a thread. Meanwhile this thread forwards
    SIGTERM, Ctrl-C and ``context.stop`` to the workers and their rows to ``context.on_row``, and
    logs deaths.

    Raises the failure that a worker reported, also when ``work`` ended in another way.
    """
    context = context or RunContext()
    outcome: dict[str, Any] = {}

    def run() -> None:
        try:
            outcome["result"] = work()
        except BaseException as error:
            outcome["error"] = error

    thread = threading.Thread(target=run, name="fit", daemon=True)
    with StopRequest() as request:
        thread.start()
        stopping, poll_at = False, time.monotonic()
        while thread.is_alive():
            thread.join(0.2)
            if not stopping and (request.requested or context.stop.is_set()):
                stopping = True
                channel.stop()
                _log.warning("stopping after the step in progress; repeat to stop at once")
            if time.monotonic() > poll_at:
                poll_at = time.monotonic() + _POLL_SECONDS
                _poll(channel, context.on_row)
        _poll(channel, context.on_row)
    if error := outcome.get("error"):
        raise (channel.failure() or error) from error
    if failure := channel.failure():
        raise failure
    return outcome["result"]


def _poll(channel: WorkerChannel, on_row: RowCallback | None) -> None:
    """Forward rows and log deaths."""
    try:
        if on_row is not None:
            for row in channel.rows():
                on_row(*row)
        for rank, beat, cause in channel.deaths():
            _log.warning("%s", describe_worker_failure(rank, beat, cause))
    except RayError:
        return  # the channel is slow, as on an overloaded machine; the next poll repeats this


def describe_worker_failure(rank: int, beat: Heartbeat | None, cause: str) -> str:
    """Return a message about a worker that failed; for one that was killed, with the settings that
    take less memory.
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
            "  the group restarts from the newest checkpoint"
        )
    return f"{where}: {(cause.strip().splitlines() or ['no message'])[-1]}"
