"""What the tests of pools share."""

from __future__ import annotations

import pytest

from tests.tiny_teacher import make_teacher


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    """Three teachers on disk. Not to be written to."""
    root = tmp_path_factory.mktemp("teachers")
    return [make_teacher(root / str(seed), seed) for seed in range(3)]
