"""A cluster that does not come up is told as such."""

from __future__ import annotations

import pytest

from road_ray.distributed import local_cluster
from road_ray.errors import ClusterError


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        (Exception("The current node timed out during startup."), ClusterError),
        (ValueError("of another kind"), ValueError),
    ],
)
def test_a_start_that_takes_too_long_is_told_with_what_to_do(monkeypatch, raised, message):
    def fail(**options):
        raise raised

    monkeypatch.setattr(local_cluster.ray, "init", fail)
    with pytest.raises(message) as error:
        local_cluster.start(1, dashboard=False)
    if message is ClusterError:
        assert "timed out during startup" in str(error.value)
        assert "processes at work" in str(error.value)


def test_a_slow_start_is_tried_again(monkeypatch, caplog):
    outcomes = iter([Exception("timed out"), Exception("timed out"), None])

    def start(**options):
        if (error := next(outcomes)) is not None:
            raise error

    monkeypatch.setattr(local_cluster.ray, "init", start)
    local_cluster.start(1, dashboard=False)
    assert next(outcomes, "none left") == "none left"
    assert caplog.text.count("trying again") == 2
