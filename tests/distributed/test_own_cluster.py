"""A cluster that does not come up is told as such."""

from __future__ import annotations

import pytest

from road_ray.distributed import own_cluster
from road_ray.errors import ClusterError


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (Exception("The current node timed out during startup."), ClusterError),
        (ValueError("of another kind"), ValueError),
    ],
)
def test_a_start_that_takes_too_long_is_told_with_what_to_do(monkeypatch, raised, told):
    def fail(**options):
        raise raised

    monkeypatch.setattr(own_cluster.ray, "init", fail)
    with pytest.raises(told) as error:
        own_cluster.start(1, dashboard=False)
    if told is ClusterError:
        assert "timed out during startup" in str(error.value)
        assert "processes at work" in str(error.value)
