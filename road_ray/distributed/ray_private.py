"""The only imports of Ray's private names, as of Ray 2.60.0.

Check this module first after an update of Ray: ``tests/distributed/train/test_worker_group.py``
tests what we use of each name. Importing this module imports Ray Train, so modules that must stay
light import it inside the function that needs it.
"""

from ray.train.v2._internal import constants as _train_constants

__all__ = ["propagate_environment_variable"]


def propagate_environment_variable(name: str) -> None:
    """Make Ray Train pass the variable of this process on to its controller and workers."""
    _train_constants.ENV_VARS_TO_PROPAGATE.add(name)
