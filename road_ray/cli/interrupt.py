"""SIGTERM and Ctrl-C end a command with what it kept."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from road_ray.errors import InterruptedRunError


def run_interruptible(function: Callable[..., Any], config: Any, directory: Path) -> Any:
    """``function(config)``. SIGTERM and Ctrl-C outside the loop, which has its own way to stop, end
    it too.
    """

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        return function(config)
    except KeyboardInterrupt:
        raise InterruptedRunError(
            f"stopped between steps\n  kept: what {directory} holds by now\n"
            "  go on: run the same command again"
        ) from None
    finally:
        signal.signal(signal.SIGTERM, before)
