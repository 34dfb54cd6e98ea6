"""The only imports of Ray's private names, as of Ray 2.60.0.

Check this module first after an update of Ray: ``tests/distributed/test_ray_private.py`` tests what
we use of each name. Importing this module imports Ray Train, so modules that must stay light
import it inside the function that needs it.
"""

from __future__ import annotations

from typing import Any

import ray
from ray.train.torch.config import _TorchBackend as TorchBackend
from ray.train.v2._internal import constants as _train_constants
from ray.train.v2._internal.callbacks import DatasetsCallback
from ray.train.v2._internal.callbacks.placement_group_callback import PlacementGroupCleanerCallback
from ray.train.v2._internal.execution.controller import TrainController
from ray.train.v2._internal.execution.scaling_policy import ElasticScalingPolicy

__all__ = [
    "DatasetsCallback",
    "ElasticScalingPolicy",
    "PlacementGroupCleanerCallback",
    "TorchBackend",
    "TrainController",
    "draining_nodes",
    "has_dashboard",
    "propagate_environment_variable",
    "propagated_environment",
]


def draining_nodes() -> set[str]:
    """Return the ids of the nodes that are draining, with or without a deadline."""
    nodes: dict[str, Any] = ray._private.state.state.get_draining_nodes()
    return set(nodes)


def has_dashboard() -> bool:
    """Return True when the connected cluster runs Ray's dashboard, which answers the State API."""
    return bool(ray._private.worker.get_dashboard_url())


def propagate_environment_variable(name: str) -> None:
    """Make Ray Train pass the variable of this process on to its controller and workers."""
    _train_constants.ENV_VARS_TO_PROPAGATE.add(name)


def propagated_environment() -> dict[str, str]:
    """Return the variables of this process that Ray Train hands on to its own processes."""
    variables: dict[str, str] = _train_constants.get_env_vars_to_propagate()
    return variables
