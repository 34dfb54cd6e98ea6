"""A deadline for the start of a group of workers: Ray Train itself waits for one that hangs before
it is ready, in an import or in a driver of a device, for ever.
"""

from __future__ import annotations

import os
import threading
from typing import Any

from road_ray.distributed.ray_private import ControllerCallback, SchedulingState

START_SECONDS = 300.0  # Ray gives up earlier where there is no room; long for one that swaps


class StartDeadline(ControllerCallback):  # type: ignore[misc]  # Ray does not type it
    """Lives in Ray Train's controller and ends that process when a group is not up in time: what
    hangs cannot be asked to go, but Ray ends every worker whose controller is gone.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._timer: threading.Timer | None = None

    def after_controller_state_update(self, previous_state: Any, current_state: Any) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if isinstance(current_state, SchedulingState):
            self._timer = threading.Timer(self._seconds, os._exit, (1,))
            self._timer.daemon = True
            self._timer.start()
