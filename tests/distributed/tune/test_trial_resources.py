"""How many trials fit, counted by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from road_ray.distributed.tune.trial_resources import StageDemand, max_concurrent
from road_ray.errors import ClusterError


@pytest.mark.parametrize(
    ("demand", "total", "trials"),
    [
        # Two cores: a trial trains on one, its three teachers take the other half.
        (StageDemand(teachers=3), {"CPU": 2}, 1),
        # 16 cores: 1 to train and 3 teachers of one core each.
        (StageDemand(teachers=3), {"CPU": 16}, 4),
        # The shared teachers count once: 13 cores are left.
        (StageDemand(teachers=3, shared=True), {"CPU": 16}, 13),
        (StageDemand(teachers=3, cpus_per_teacher=2), {"CPU": 16}, 2),
        # Beside four workers, a trial reserves a tenth of a core.
        (StageDemand(workers=4), {"CPU": 16}, 3),
        (StageDemand(workers=4), {"CPU": 17}, 4),
        # Four devices: 2 workers of one each; or a worker and two teachers of a quarter.
        (StageDemand(workers=2, gpus_per_worker=1), {"CPU": 64, "GPU": 4}, 2),
        (
            StageDemand(1, 1.0, teachers=2, cpus_per_teacher=1, gpus_per_teacher=0.25),
            {"CPU": 64, "GPU": 4},
            2,
        ),
        (StageDemand(workers=32), {"CPU": 16}, 0),
    ],
)
def test_trials_are_counted_by_what_they_need(demand, total, trials):
    assert demand.trials(total) == trials


def test_the_gpus_of_a_trial_count_beside_those_of_its_teachers():
    demand, total = StageDemand(teachers=3, gpus_per_teacher=0.25), {"CPU": 64, "GPU": 4}
    assert demand.trials(total, gpus_per_trial=1.0) == 2  # each 1 + 3/4
    shared = replace(demand, shared=True)
    assert shared.trials(total, gpus_per_trial=1.0) == 3  # 3/4 once, then 1 each
    with_workers = replace(demand, workers=1, gpus_per_worker=1.0)
    assert with_workers.trials(total, gpus_per_trial=0.25) == 2
    alone = StageDemand(teachers=3, cpus_per_teacher=1)  # one that trains itself takes its cores
    assert alone.trials({"CPU": 16}, cpus_per_trial=5.0) == 2


@pytest.mark.parametrize("reverse", [False, True])
def test_the_stage_with_the_least_room_decides(reverse):
    stages = (StageDemand(workers=8, gpus_per_worker=1.0), StageDemand(teachers=3))
    stages = stages[::-1] if reverse else stages
    assert max_concurrent(stages, {"CPU": 32, "GPU": 8}) == 1
    assert max_concurrent(stages, {"CPU": 64, "GPU": 24}) == 3


@pytest.mark.parametrize(
    ("demand", "total"),
    [
        (StageDemand(workers=4), {"CPU": 4}),  # and nothing left for the trial itself
        (StageDemand(workers=2, gpus_per_worker=1.0), {"CPU": 64, "GPU": 2}),
        (StageDemand(workers=4, min_workers=2), {"CPU": 2}),
    ],
)
def test_workers_without_room_are_refused(demand, total):
    with pytest.raises(ClusterError, match=r"no room for a trial with \d workers"):
        max_concurrent((StageDemand(), demand), total, gpus_per_trial=0.5)


@pytest.mark.parametrize(
    "demand",
    [
        StageDemand(workers=3),
        StageDemand(workers=8, min_workers=3),
        # With a complete store, no teacher starts.
        StageDemand(teachers=9, cpus_per_teacher=2.0, gpus_per_teacher=1.0),
    ],
)
def test_what_may_find_room_is_not_refused(demand):
    assert max_concurrent((demand,), {"CPU": 4}) == 1
