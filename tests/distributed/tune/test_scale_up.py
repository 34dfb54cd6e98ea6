"""How many trials run at the same time: on a cluster as it is, and on one that adds machines."""

from __future__ import annotations

import math
import time
from contextlib import nullcontext

import pytest
import ray

from road_ray.config import load
from road_ray.distributed.room import SCALE_UP_VARIABLE
from road_ray.distributed.tune.driver import (
    _max_concurrent,
    _max_pending,
    search,
)
from road_ray.distributed.tune.search_config import SearchConfig
from road_ray.distributed.tune.trial_record import Outcome
from road_ray.distributed.tune.trial_resources import StageDemand
from road_ray.errors import ClusterError

TEACHERS = (StageDemand(teachers=3, gpus_per_teacher=0.25),)


def config(**values):
    base = {"metric": "m", "scheduler": "none", "space": {"x": {"uniform": [0, 1]}}}
    return load(SearchConfig, base=base | values)


@pytest.fixture
def four_gpus(monkeypatch):
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 64.0, "GPU": 4.0})


@pytest.mark.usefixtures("four_gpus")
def test_as_many_trials_run_as_the_cluster_has_room_for():
    assert _max_concurrent(config(gpus_per_trial=1), TEACHERS) == 2
    assert _max_concurrent(config(), ()) == math.inf  # Tune counts them
    assert _max_concurrent(config(max_concurrent=7), ()) == 7
    assert _max_concurrent(config(gpus_per_trial=1, max_concurrent=7), TEACHERS) == 7
    assert _max_pending(config(max_concurrent=7)) == 1


@pytest.mark.usefixtures("four_gpus")
def test_workers_without_room_are_refused_unless_the_cluster_adds_machines(monkeypatch):
    workers = (StageDemand(workers=8, gpus_per_worker=1.0),)
    with pytest.raises(ClusterError, match="GPU 8 of 4"):
        _max_concurrent(config(max_concurrent=1), workers)
    monkeypatch.setenv(SCALE_UP_VARIABLE, "60")
    assert _max_concurrent(config(max_concurrent=1), workers) == 1


def test_a_cluster_that_adds_machines_is_asked_for_as_many_as_may_run(monkeypatch):
    monkeypatch.setenv(SCALE_UP_VARIABLE, "60")
    assert (_max_pending(config()), _max_pending(config(max_concurrent=7))) == (1, 7)


@pytest.mark.usefixtures("four_gpus")
def test_trials_with_processes_are_limited_by_the_machines_that_are_up(monkeypatch, caplog):
    monkeypatch.setenv(SCALE_UP_VARIABLE, "60")
    assert _max_concurrent(config(gpus_per_trial=1, max_concurrent=7), TEACHERS) == 7
    assert not caplog.records
    assert _max_concurrent(config(gpus_per_trial=1), TEACHERS) == 2
    assert "max_concurrent is not given: 2 trials" in caplog.text


def slow(directory, params, on_report):
    time.sleep(2)
    return Outcome((0.0,), (None,), {})


@pytest.mark.long  # 17 s
@pytest.mark.ray
@pytest.mark.timeout(300)
def test_one_trial_waits_for_a_machine_at_a_time(cluster, tmp_path, monkeypatch):
    monkeypatch.setenv(SCALE_UP_VARIABLE, "60")
    drawn, most = set(), 0

    def changed(record):
        nonlocal most
        (drawn.discard if record.ended else drawn.add)(record.number)
        most = max(most, len(drawn))

    sweep = config(trials=6, cpus_per_trial=2)  # of four cores
    records = search(sweep, "s", tmp_path, slow, connected=nullcontext, changed=changed)
    assert [record.state for record in records] == ["complete"] * 6
    assert most == 3
