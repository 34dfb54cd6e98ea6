"""Schedulers use the share of a trial's steps, also after a restart."""

from __future__ import annotations

import numpy as np
import pytest

from road_ray.config import load
from road_ray.distributed.tune.one_trial import Report
from road_ray.distributed.tune.search_config import SearchConfig
from road_ray.distributed.tune.searcher import _Earlier, scheduler, to_tune_result

BASE = {"metric": "m", "space": {"x": {"uniform": [0, 1]}}}


def judged(judge, name, *reports):
    trial = _Earlier(name)
    judge.on_trial_add(None, trial)
    return [judge.on_trial_result(None, trial, to_tune_result(report, "m")) for report in reports]


@pytest.mark.parametrize(("mode", "better", "worse"), [("max", 0.9, 0.1), ("min", 0.1, 0.9)])
def test_asha_stops_the_worse_at_a_rung_and_nobody_between(mode, better, worse):
    judge = scheduler(load(SearchConfig, base=BASE, overrides={"mode": mode}))
    assert judged(judge, "a", Report(12, 100, better)) == ["CONTINUE"]
    assert judged(judge, "b", Report(5, 100, worse), Report(12, 100, worse)) == ["CONTINUE", "STOP"]
    assert judged(judge, "c", Report(99, 100, better)) == ["CONTINUE"]


def test_hyperband_has_a_bracket_for_every_rung_to_begin_at_and_one_without_any():
    judge = scheduler(load(SearchConfig, base=BASE, overrides={"scheduler": "hyperband"}))
    np.random.seed(0)  # Tune draws the bracket of a trial from there
    ends = [
        judged(judge, f"t{n}", *(Report(at, 100, -float(n)) for at in (12, 34))) for n in range(40)
    ]
    at_first = sum(end[0] == "STOP" for end in ends)
    at_second = sum(end == ["CONTINUE", "STOP"] for end in ends)
    never = sum(end == ["CONTINUE", "CONTINUE"] for end in ends)
    assert at_first > at_second > 0  # more trials are in the bracket that looks early
    assert never > 2  # the first of each rung, and those of the bracket that stops nobody


@pytest.mark.parametrize("name", ["asha", "median"])
def test_after_a_restart_earlier_trials_are_the_measure(name):
    config = load(SearchConfig, base=BASE, overrides={"scheduler": name})
    reports = {number: [Report(12, 100, 0.8), Report(40, 100, 0.9)] for number in range(4)}
    fresh, restarted = scheduler(config), scheduler(config, reports | {7: []})
    assert judged(fresh, "x", Report(12, 100, 0.2)) == ["CONTINUE"]
    assert judged(restarted, "x", Report(12, 100, 0.2)) == ["STOP"]
