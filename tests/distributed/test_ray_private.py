"""What we use of Ray beyond its promises is there in the release that is pinned."""

from __future__ import annotations

import inspect

from road_ray.distributed import ray_private


def test_the_scaling_policy_asks_for_reserved_resources_where_we_override_it():
    assert hasattr(ray_private.ElasticScalingPolicy, "_get_reserved_resources")


def test_an_environment_variable_is_handed_on(monkeypatch):
    from ray.train.v2._internal.constants import ENV_VARS_TO_PROPAGATE

    ray_private.propagate_environment_variable("ROAD_RAY_TEST")
    assert "ROAD_RAY_TEST" in ENV_VARS_TO_PROPAGATE
    monkeypatch.setenv("ROAD_RAY_TEST", "1")
    assert ray_private.propagated_environment()["ROAD_RAY_TEST"] == "1"
    ENV_VARS_TO_PROPAGATE.discard("ROAD_RAY_TEST")


def test_the_backend_of_torch_is_told_when_a_group_starts():
    assert list(inspect.signature(ray_private.TorchBackend.on_start).parameters)[:3] == [
        "self",
        "worker_group",
        "backend_config",
    ]
