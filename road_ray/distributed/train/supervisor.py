"""Supervision of workers by their driver: it forwards stop requests and rows, reports deaths and
workers that finish no more steps, and kills those that send no heartbeats.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from road_ray.distributed.train.step_progress import STALL_SECONDS
from road_ray.distributed.train.worker_channel import Heartbeat, Stall, WorkerChannel
from road_ray.training.monitoring.out_of_memory import REMEDY
from road_ray.training.monitoring.trackers import RowCallback
from road_ray.training.run_context import RunContext
from road_ray.training.stop_request import StopRequest

_log = logging.getLogger(__name__)
SILENT_SECONDS = 120.0  # without a heartbeat; long enough for a machine that swaps
_POLL_SECONDS = 2.0
_LISTED = 8  # workers of one message
# Signs in Ray's message that a process was killed, by SIGKILL or by Ray's memory monitor.
_KILLED = ("End of file", "memory", "SIGKILL", "died unexpectedly", "worker died")


def supervise(
    work: Callable[[], Any], channel: WorkerChannel, context: RunContext | None = None
) -> Any:
    """Return the result of ``work``, which runs in a thread. Meanwhile this thread forwards
    SIGTERM, Ctrl-C and ``context.stop`` to the workers and their rows to ``context.on_row``, logs
    deaths and stalls, and kills workers without a heartbeat for ``SILENT_SECONDS``.

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
    """Forward rows, log deaths and stalls, and end silent workers."""
    try:
        if on_row is not None:
            for row in channel.rows():
                on_row(*row)
        for rank, beat, cause in channel.deaths():
            _log.warning("%s", describe_worker_failure(rank, beat, cause))
        for rank, beat in channel.silent(SILENT_SECONDS).items():
            _end_silent(channel, rank, beat)
        if stalls := channel.stalls(STALL_SECONDS):
            addresses = {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes()}
            _log.warning("%s", describe_stalls(stalls, addresses))
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


def describe_stalls(stalls: Sequence[Stall], addresses: Mapping[str, str]) -> str:
    """Return a message about workers whose processes live, but finish no more steps. Those with the
    fewest steps come first: the others of a group wait for them. ``addresses`` are by node id.
    """
    lines = [
        f"worker {rank} (process {beat.pid} on {addresses.get(beat.node, beat.node)}): "
        f"no step finished for {seconds:.0f} s, since step {beat.step}"
        for rank, beat, seconds in sorted(stalls, key=lambda stall: (stall[1].step, stall[0]))
    ]
    if len(lines) > _LISTED:
        lines[_LISTED:] = [f"and {len(lines) - _LISTED} more workers"]
    return (
        "\n    ".join(lines) + "\n"
        "  the run continues: evaluating, saving or preparing data may take this long\n"
        "  fix: `py-spy dump --pid PROCESS` on that machine shows where the worker waits; if it "
        "hangs, end it with kill -9, and the run resumes from the newest checkpoint"
    )


def _end_silent(channel: WorkerChannel, rank: int, beat: Heartbeat) -> None:
    """Kill a worker whose process hangs, by a task on its node; Ray then restarts the group."""
    _log.warning(
        "worker %d (process %d) is silent for %g s, last seen at step %d; ending it",
        rank,
        beat.pid,
        SILENT_SECONDS,
        beat.step,
    )
    channel.actor.leave.remote(rank)
    there = NodeAffinitySchedulingStrategy(beat.node, soft=False)
    ray.remote(num_cpus=0, max_retries=0, scheduling_strategy=there)(_end).remote(beat.pid)


def _end(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, getattr(signal, "SIGKILL", signal.SIGTERM))  # Windows has no SIGKILL
