"""The runtime environment of a job."""

from __future__ import annotations

from road_ray.distributed.jobs.cluster_profile import Profile
from road_ray.distributed.jobs.runtime_environment import runtime_environment


def test_a_job_waits_for_machines_as_long_as_the_profile_says():
    assert "ROAD_SCALE_UP_SECONDS" not in runtime_environment(Profile(), "/x")["env_vars"]
    waiting = runtime_environment(Profile(scale_up_seconds=1200), "/x")["env_vars"]
    assert waiting["ROAD_SCALE_UP_SECONDS"] == "1200"


def test_the_environment_holds_our_pins_and_no_secret(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_canarycanarycanarycanary")
    plain = runtime_environment(Profile(), "/x")
    assert set(plain) == {"working_dir", "env_vars"}
    assert "canary" not in str(plain)
    packages = runtime_environment(Profile(environment="uv"), "/x")["uv"]["packages"]
    assert any(name.startswith("torch==2.") for name in packages)
    assert not any(name.startswith("ray==") for name in packages)
    assert not any(name.startswith("pytest") for name in packages)
