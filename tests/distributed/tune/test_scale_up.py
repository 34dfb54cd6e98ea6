"""A driver waits for trials of an earlier one; how many trials fit, and how many run at the same
time, on a cluster as it is and on one that adds machines.
"""

import subprocess
import sys
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from road_ray.config import load
from road_ray.distributed.room import SCALE_UP_VARIABLE
from road_ray.distributed.tune.driver import max_concurrent, search, wait_for_trials
from road_ray.distributed.tune.search_config import SearchConfig, StageDemand
from road_ray.errors import ClusterError, ResourceError
from tests.cluster import until

TRIAL = """
import sys, time
from pathlib import Path
from road_ray.distributed.tune.one_trial import hold_trial_lock
hold_trial_lock(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(float(sys.argv[2]))
"""


def config(**values):
    base = {"metric": "m", "scheduler": "none", "space": {"x": {"uniform": [0, 1]}}}
    return load(SearchConfig, base=base | values)


@pytest.mark.slow
def test_trials_that_outlive_their_driver_are_waited_for(tmp_path):
    wait_for_trials(tmp_path)
    command = [sys.executable, "-c", TRIAL, str(tmp_path), "60"]
    root = Path(__file__).parents[3]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as trial:
        assert trial.stdout.readline() == "held\n"
        with pytest.raises(ResourceError, match="still run its trials"):
            wait_for_trials(tmp_path, timeout_seconds=0.3)
        trial.kill()
        began = time.monotonic()
        wait_for_trials(tmp_path, timeout_seconds=60.0)
        assert time.monotonic() - began < 60


@pytest.mark.parametrize(
    ("stages", "trials"),
    [
        ((StageDemand(teachers=True), StageDemand()), 1),
        ((StageDemand(workers=4),), 3),  # of 16 cores; a trial reserves a tenth for itself
        ((StageDemand(workers=2, gpus_per_worker=1.0, min_workers=2),), 2),
        ((StageDemand(workers=32, min_workers=2), StageDemand()), 1),  # it gets fewer
        ((), None),  # Tune counts them
    ],
)
def test_as_many_trials_run_as_the_cluster_has_room_for(stages, trials):
    free = {"CPU": 16.0, "GPU": 4.0}
    assert max_concurrent(config(), stages, free) == trials
    assert max_concurrent(config(max_concurrent=7), stages, free) == 7


def test_a_growing_cluster_runs_at_least_one_and_is_told_how_to_run_more(monkeypatch, caplog):
    monkeypatch.setenv(SCALE_UP_VARIABLE, "60")
    assert max_concurrent(config(), (StageDemand(workers=4, min_workers=4),), {"CPU": 2.0}) == 1
    assert "max_concurrent is not given: 1 trials" in caplog.text


@pytest.mark.ray
@pytest.mark.parametrize(
    "demand",
    [
        StageDemand(workers=4, min_workers=4),  # of four cores, and nothing left for the trial
        StageDemand(workers=2, gpus_per_worker=1.0, min_workers=2),
    ],
)
def test_workers_without_room_are_refused(cluster, tmp_path, demand):
    stages = StageDemand(), demand
    with pytest.raises(ClusterError, match=r"has room for \d of \d \w+ of a trial"):
        search(config(), "s", tmp_path, lambda: nullcontext(None), demand=stages)


def until_three_are_drawn(directory, record, on_report):
    until((directory.parents[1] / "three").exists, 60, 0.05)
    time.sleep(0.5)  # meanwhile a fourth would be drawn
    return replace(record, values=(0.0,))


@pytest.mark.long
@pytest.mark.ray
@pytest.mark.timeout(300)
def test_one_trial_waits_for_a_machine_at_a_time(cluster, tmp_path, monkeypatch):
    monkeypatch.setenv(SCALE_UP_VARIABLE, "60")
    drawn, most = set(), 0

    def changed(record):
        nonlocal most
        (drawn.add if record.state == "running" else drawn.discard)(record.number)
        most = max(most, len(drawn))
        if most >= 3:  # two at work and one that waits
            (tmp_path / "three").touch()

    sweep = config(trials=6, cpus_per_trial=2)  # of four cores
    trial = nullcontext(until_three_are_drawn)
    records = search(sweep, "s", tmp_path, lambda: trial, changed=changed)
    assert [record.state for record in records] == ["complete"] * 6
    assert most == 3
