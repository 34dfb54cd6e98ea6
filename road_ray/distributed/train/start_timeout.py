"""Deadline for the start of a worker group. Ray Train waits forever for a worker that hangs in an
import or in a device driver.
"""

from __future__ import annotations

import gc
import os
import threading
from contextlib import suppress

from ray.util.placement_group import PlacementGroup, remove_placement_group

from road_ray.distributed.ray_private import ControllerCallback, SchedulingState

START_SECONDS = 300.0  # long enough for a machine that swaps
_RELEASE_SECONDS = 10.0


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
            self._timer = threading.Timer(self._seconds, _exit_released)
            self._timer.daemon = True
            self._timer.start()


def _exit_released() -> None:
    """Release the cores of the group and exit. Ray's clean-up knows a placement group only once it
    is up, so a group that hangs would keep its cores, and the next group could find no room.
    """
    limit = threading.Timer(_RELEASE_SECONDS, os._exit, (1,))
    limit.daemon = True
    limit.start()
    for group in [thing for thing in gc.get_objects() if type(thing) is PlacementGroup]:
        with suppress(Exception):  # the process ends anyway
            remove_placement_group(group)
    os._exit(1)
