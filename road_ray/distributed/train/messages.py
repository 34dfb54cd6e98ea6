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
from road_ray.training.run_context import RunContext

_LOOK_SECONDS = 1.0
_GRACE_SECONDS = 20.0  # for a worker to notice by itself that another one has failed


class Messages:
    """Stop, failure, rows and deaths of one group; can be sent to other processes."""

    def __init__(self, directory: Path) -> None:
        self._stop, self._failure = directory / "stop.jsonl", directory / "failure.jsonl"
        self.rows = directory / "rows.jsonl"  # of the journal of rank 0: step, total steps, metrics
        self.deaths = directory / "deaths.jsonl"  # rank, cause in Ray's words

    def make(self) -> None:
        """Make the files. A client of NFS sees at once what is written to a file that it opens, but
        for up to a minute not that there is a new one.
        """
        for path in (self._stop, self._failure, self.rows, self.deaths):
            path.touch()

    def stop(self) -> None:
        """Tell all workers to stop after the step in progress."""
        append(self._stop)

    def fail(self, error: RoadError) -> None:
        """Store an error that a retry does not cure. Only the first counts: others follow from
        it.
        """
        append(self._failure, type(error).__name__, str(error))

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
            if any(True for _ in Inbox(self._stop).new()):
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
