"""A limit to how long a trial may take that also ends a call which nothing can interrupt."""

from __future__ import annotations

import faulthandler
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HUNG = "hung.txt"  # where a trial stood when its time was over


@contextmanager
def with_time_limit(seconds: float | None, path: Path) -> Iterator[None]:
    """Inside, the process ends after so many seconds, with the place where it stood in ``path``:
    a hanging call cannot be interrupted otherwise.
    """
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
