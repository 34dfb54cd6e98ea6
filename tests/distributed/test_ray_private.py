"""What we use of Ray beyond its promises is there in the release that is pinned."""

from __future__ import annotations

from road_ray.distributed import ray_private


def test_an_environment_variable_is_handed_on(monkeypatch):
    from ray.train.v2._internal.constants import ENV_VARS_TO_PROPAGATE, get_env_vars_to_propagate

    ray_private.propagate_environment_variable("ROAD_RAY_TEST")
    monkeypatch.setenv("ROAD_RAY_TEST", "1")
    assert get_env_vars_to_propagate()["ROAD_RAY_TEST"] == "1"
    ENV_VARS_TO_PROPAGATE.discard("ROAD_RAY_TEST")
