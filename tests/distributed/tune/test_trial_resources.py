"""How many trials fit, counted by hand."""

from __future__ import annotations

import pytest

from road_ray.distributed.tune.trial_resources import Demand


@pytest.mark.parametrize(
    ("demand", "total", "trials"),
    [
        # Two cores: a trial trains on one, its three teachers take the other half.
        (Demand(teachers=3), {"CPU": 2}, 1),
        # 16 cores: 1 to train and 3 teachers of one core each.
        (Demand(teachers=3), {"CPU": 16}, 4),
        # The shared teachers count once: 13 cores are left.
        (Demand(teachers=3, shared=True), {"CPU": 16}, 13),
        (Demand(teachers=3, cpus_per_teacher=2), {"CPU": 16}, 2),
        (Demand(workers=4), {"CPU": 16}, 4),
        # Four devices: 2 workers of one each; or a worker and two teachers of a quarter.
        (Demand(workers=2, gpus_per_worker=1), {"CPU": 64, "GPU": 4}, 2),
        (
            Demand(1, 1.0, teachers=2, cpus_per_teacher=1, gpus_per_teacher=0.25),
            {"CPU": 64, "GPU": 4},
            2,
        ),
        (Demand(workers=32), {"CPU": 16}, 1),  # the check of the placement refuses it
    ],
)
def test_trials_are_counted_by_what_they_need(demand, total, trials):
    assert demand.max_concurrent(total) == trials
