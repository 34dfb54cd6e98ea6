"""Which runs are seeds of one experiment."""

from __future__ import annotations

from road_ray.reporting.records.run_groups import is_decisive


def test_what_makes_runs_different():
    assert not is_decisive("seed")
    assert not is_decisive("tracking.wandb_project")
    assert is_decisive("weighting.wrong")
