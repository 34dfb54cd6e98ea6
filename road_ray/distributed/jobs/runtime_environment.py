"""Ray's runtime environment of a job: its working directory, variables and pinned packages."""

from __future__ import annotations

import re

from road_ray.distributed.autoscaling import SCALE_UP_VARIABLE
from road_ray.distributed.jobs.cluster_profile import Profile

STOP_SECONDS = 120  # to save after SIGTERM; Ray's default of 3 s is less than a step


def runtime_environment(profile: Profile, place: str) -> dict[str, object]:
    """Return Ray's runtime environment of a job: the working directory and, if configured, pinned
    packages.
    """
    wait = profile.scale_up_seconds
    scale_up = {SCALE_UP_VARIABLE: f"{wait:g}"} if wait else {}
    environment: dict[str, object] = {
        "working_dir": place,
        "env_vars": {
            "RAY_JOB_STOP_WAIT_TIME_S": str(STOP_SECONDS),
            "TOKENIZERS_PARALLELISM": "false",
            "PYTHONUNBUFFERED": "1",
            **scale_up,
        },
    }
    if profile.environment != "none":
        environment[profile.environment] = {"packages": _pinned_requirements()}
    return environment


def _pinned_requirements() -> list[str]:
    """Return the dependencies of road_ray, pinned to the installed versions; the cluster provides
    Ray.
    """
    from importlib.metadata import requires, version

    needed = [text for text in requires("road-ray") or () if "extra ==" not in text]
    names = {re.split(r"[\s<>=!\[;]", text)[0] for text in needed} - {"ray"}
    return [f"{name}=={version(name)}" for name in sorted(names)]
