"""The only uses of Ray's private names, as of Ray 2.60.0.

Check this module first after an update of Ray: ``tests/distributed/train/test_worker_group.py``
tests what we use of each name.
"""


def propagate_environment_variable(name: str) -> None:
    """Make Ray Train pass the variable of this process on to its controller and workers."""
    from ray.train.v2._internal import constants

    constants.ENV_VARS_TO_PROPAGATE.add(name)
