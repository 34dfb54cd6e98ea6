"""A short soak with every kind of fault at least once; `python -m tests.chaos soak 60` is long."""

import shutil
import tempfile
from pathlib import Path

import pytest

from tests.chaos.soak import FAULTS, soak


@pytest.mark.ray
@pytest.mark.chaos
@pytest.mark.timeout(3000)
def test_faults_at_random_change_no_weight_and_leave_nothing(record_property):
    place = Path(tempfile.mkdtemp(prefix="soak", dir="/tmp"))
    summary = soak(8, place, seed=7)
    assert len(summary.faults) == len(FAULTS), f"not every kind of fault fired: {summary.faults}"
    assert summary.equal
    assert summary.left == []
    figures = f"{summary.faults.total()} in {summary.seconds / 60:.0f} min, {summary.goodput:.0%}"
    record_property("faults at random: goodput", figures)
    shutil.rmtree(place)
