"""Exit codes that scripts rely on, and how a problem is told."""

import pytest

from road_ray import errors
from road_ray.errors import RoadError


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("ConfigError", 2),
        ("DataError", 3),
        ("ResourceError", 4),
        ("ClusterError", 4),
        ("CheckpointError", 4),
        ("DivergedError", 5),
        ("InterruptedRunError", 6),
    ],
)
def test_every_error_has_its_exit_code_and_kind(name, code):
    kind = getattr(errors, name)
    assert issubclass(kind, RoadError)
    assert kind.exit_code == code
    assert kind.kind != RoadError.kind
