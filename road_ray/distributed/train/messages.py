"""Messages between the driver of a worker group and its workers: files of one directory, which is
on the disk that all machines share.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from road_ray import errors
from road_ray.errors import ClusterError, RoadError
from road_ray.system.json_file import write_json_atomic
from road_ray.training.run_context import RunContext

_LOOK_SECONDS = 1.0
_GRACE_SECONDS = 20.0  # for a worker to notice by itself that another one has failed


class Messages:
    """Stop, failure, rows and deaths of one group; can be sent to other processes."""

    def __init__(self, directory: Path) -> None:
        self._stop, self._failure = directory / "stop", directory / "failure.json"
        self.rows = directory / "rows.jsonl"  # of the journal of rank 0: step, total steps, metrics
        self.deaths = directory / "deaths.jsonl"  # rank, cause in Ray's words

    def stop(self) -> None:
        """Tell all workers to stop after the step in progress."""
        self._stop.touch()

    def fail(self, error: RoadError) -> None:
        """Store an error that a retry does not cure. Only the first counts: others follow from
        it.
        """
        if not self._failure.exists():
            write_json_atomic(self._failure, {"kind": type(error).__name__, "text": str(error)})

    def failure(self) -> RoadError | None:
        """Return the first stored error, of its own class."""
        if not self._failure.exists():
            return None
        stored = json.loads(self._failure.read_text(encoding="utf-8"))
        error: RoadError = getattr(errors, stored["kind"], ClusterError)(stored["text"])
        return error

    @contextmanager
    def reach(self, context: RunContext) -> Iterator[None]:
        """Set ``stop`` and ``check_preemption`` of a worker's context from a thread.

        A worker that waits for one that has failed would wait for ever: if it has not left this
        block 20 s after the failure, its process exits.
        """
        finished = threading.Event()

        def look() -> None:
            if os.path.exists(self._stop):
                context.stop.set()
            context.check_preemption = context.preempted is not None

        def run() -> None:
            failed_since: float | None = None
            while not finished.wait(_LOOK_SECONDS):
                look()
                if os.path.exists(self._failure):
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
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._read)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._read += len(line)
                with suppress(ValueError):
                    yield json.loads(line)
