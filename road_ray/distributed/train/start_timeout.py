"""Deadline for the start of a worker group: Ray Train waits for ever for a worker that hangs in an
import or in a device driver.
"""

from __future__ import annotations

import os
import threading

from road_ray.distributed.ray_private import ControllerCallback, SchedulingState

START_SECONDS = 300.0  # long enough for a machine that swaps


class StartDeadline(ControllerCallback):  # type: ignore[misc]  # Ray does not type it
    """Exits the process of Ray Train's controller when a group is not up in time. A worker that
    hangs cannot be stopped otherwise; Ray kills every worker whose controller is gone.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._timer: threading.Timer | None = None

    def after_controller_state_update(self, previous_state: object, current_state: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if isinstance(current_state, SchedulingState):
            self._timer = threading.Timer(self._seconds, os._exit, (1,))
            self._timer.daemon = True
            self._timer.start()
