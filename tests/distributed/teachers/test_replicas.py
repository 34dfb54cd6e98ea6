"""Teachers by actor, and causes of Ray errors; ``test_client.py`` has the rest, on a cluster."""

import pytest
from ray.exceptions import RayActorError

from road_ray.distributed.teachers.replicas import Pool, cause_of
from road_ray.errors import ConfigError


def test_the_last_actor_may_hold_fewer_teachers():
    pool = Pool(((), ()), ("a", "b", "c"), teachers_per_actor=2)
    assert [[*pool.members(group)] for group in range(2)] == [[0, 1], [2]]


def test_a_part_of_a_pool_is_cut_between_actors():
    pool = Pool((("x",), ("y",)), ("a", "b", "c", "d"), teachers_per_actor=2)
    some = pool.part(2, 4)
    assert (some.actors, some.directories) == ((("y",),), ("c", "d"))
    with pytest.raises(ConfigError, match="share an actor"):
        pool.part(1, 2)


def test_the_reason_is_found_in_rays_report():
    report = "The actor died\nTraceback ...\nroad_ray.errors.CheckpointError: x: broken\n  fix: y"
    assert cause_of(RayActorError(error_msg=report)) == "x: broken\n  fix: y"
    assert "unknown" in cause_of(RayActorError(error_msg="unknown"))
