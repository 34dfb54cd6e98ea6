"""Machines that a cluster adds when they are asked for: how long a run waits for them."""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Mapping

from road_ray.errors import ConfigError

SCALE_UP_VARIABLE = "ROAD_SCALE_UP_SECONDS"
"""Environment variable with the longest wait for new machines, in seconds. Unset or 0: the cluster
adds none, and a run without room is refused at once. The shipped files of clusters that scale set
it."""
_MESSAGE_EVERY_SECONDS = 60.0
_SIGNALS_EVERY_SECONDS = 1  # Ray's own wait lets no handler of a signal run, and cuts off fractions
_log = logging.getLogger(__name__)


def scale_up_seconds() -> float:
    """Return the longest wait for new machines. Raises ``ConfigError`` if the variable is no
    number of seconds.
    """
    text = os.environ.get(SCALE_UP_VARIABLE) or "0"
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise ConfigError(
            f"{SCALE_UP_VARIABLE}={text}: no number of seconds\n"
            "  allowed: 0 (the cluster adds no machines) or more, such as 1200"
        )
    return seconds


def wait_for_machines(actors: str, count: int, resources: Mapping[str, float]) -> bool:
    """Ask the cluster for machines with room for ``count`` ``actors`` of ``resources`` each, and
    return True when they are up, False after ``scale_up_seconds()``.

    A placement group that waits is what Ray's autoscalers count as demand, and it goes with this
    process, so a killed run asks for nothing.
    """
    from ray.util.placement_group import placement_group, remove_placement_group

    seconds = scale_up_seconds()
    if not seconds:
        return False
    _log.info(
        "the cluster has no room for %d %s yet; waiting up to %.0f s for machines that it adds",
        count, actors, seconds,
    )  # fmt: skip
    group = placement_group([dict(resources)] * count, strategy="PACK")
    began = last_message = time.monotonic()
    try:
        while time.monotonic() < began + seconds:
            if group.wait(_SIGNALS_EVERY_SECONDS):
                _log.info("the machines are up after %.0f s", time.monotonic() - began)
                return True
            if time.monotonic() - last_message > _MESSAGE_EVERY_SECONDS:
                last_message = time.monotonic()
                _log.info("still waiting for machines, for %.0f s now", last_message - began)
        return False
    finally:
        remove_placement_group(group)
