"""Time limit of a trial: its process ends, and its stack stays."""

from __future__ import annotations

import faulthandler
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HUNG = "hung.txt"  # the stack of a trial at its time limit


@contextmanager
def with_time_limit(seconds: float | None, path: Path) -> Iterator[None]:
    """End the process if the body takes longer than ``seconds``, with its stack in ``path``:
    calls that cannot be interrupted end too."""
    if seconds is None:
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        faulthandler.dump_traceback_later(seconds, exit=True, file=file)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()
    path.unlink(missing_ok=True)
