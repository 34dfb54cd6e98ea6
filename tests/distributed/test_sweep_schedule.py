"""What is stopped goes by the share of a trial's own steps, also after a restart."""

from __future__ import annotations

import pytest

from road_ray.config import load
from road_ray.distributed.sweep_record import Report
from road_ray.distributed.sweep_schedule import _Earlier, replay, result_of, scheduler
from road_ray.distributed.sweep_space import SearchConfig

BASE = {"metric": "m", "space": {"x": {"uniform": [0, 1]}}}


def judged(judge, name, *reports):
    trial = _Earlier(name)
    judge.on_trial_add(None, trial)
    return [judge.on_trial_result(None, trial, result_of(report, "m")) for report in reports]


@pytest.mark.parametrize(("mode", "better", "worse"), [("max", 0.9, 0.1), ("min", 0.1, 0.9)])
def test_asha_stops_the_worse_at_a_rung_and_nobody_between(mode, better, worse):
    judge = scheduler(load(SearchConfig, base=BASE, overrides={"mode": mode}))
    assert judged(judge, "a", Report(10, 12.0, better)) == ["CONTINUE"]
    assert judged(judge, "b", Report(3, 5.0, worse), Report(9, 12.0, worse)) == ["CONTINUE", "STOP"]
    assert judged(judge, "c", Report(999, 99.0, better)) == ["CONTINUE"]


@pytest.mark.parametrize("name", ["asha", "median"])
def test_after_a_restart_earlier_trials_are_the_measure(name):
    config = load(SearchConfig, base=BASE, overrides={"scheduler": name})
    told = {number: [Report(1, 12.0, 0.8), Report(2, 40.0, 0.9)] for number in range(4)}
    fresh, restarted = scheduler(config), scheduler(config)
    replay(restarted, told | {7: []}, "m")
    assert judged(fresh, "x", Report(1, 12.0, 0.2)) == ["CONTINUE"]
    assert judged(restarted, "x", Report(1, 12.0, 0.2)) == ["STOP"]


def test_none_stops_nobody():
    judge = scheduler(load(SearchConfig, base=BASE, overrides={"scheduler": "none"}))
    assert judged(judge, "a", Report(1, 50.0, 0.9)) == ["CONTINUE"]
    assert judged(judge, "b", Report(1, 50.0, 0.1)) == ["CONTINUE"]
