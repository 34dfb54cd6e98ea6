"""The only uses of Ray's private names, as of Ray 2.60.0.

Check this module first after an update of Ray: ``tests/distributed/train/test_worker_group.py`` and
``tests/distributed/tune/test_searcher.py`` test what we use of each name.
"""

from typing import Any


def propagate_environment_variable(name: str) -> None:
    """Make Ray Train pass the variable of this process on to its controller and workers."""
    from ray.train.v2._internal import constants

    constants.ENV_VARS_TO_PROPAGATE.add(name)


def forget_stopped_trials(scheduler: Any) -> None:
    """Make Ray's median rule take reports of trials that it would stop now, at which it fails;
    other schedulers have no such memory.
    """
    getattr(scheduler, "_stopped_trials", set()).clear()
