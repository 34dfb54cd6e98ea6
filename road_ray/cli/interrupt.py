"""SIGTERM and Ctrl-C end a command with a message and an exit code."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from road_ray.errors import InterruptedRunError


def run_interruptible(function: Callable[..., object], config: object, directory: Path) -> Any:
    """Return ``function(config)``. SIGTERM and Ctrl-C outside the training loop raise
    ``InterruptedRunError``; the loop has its own handler.
    """

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        return function(config)
    except KeyboardInterrupt:
        raise InterruptedRunError(
            f"stopped between steps\n  kept: all that {directory} holds\n"
            "  fix: to resume, run the same command"
        ) from None
    finally:
        signal.signal(signal.SIGTERM, before)
