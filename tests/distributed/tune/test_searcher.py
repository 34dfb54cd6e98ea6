"""The searcher resumes running trials, samples new ones, and ends with the budget. Schedulers use
the share of a trial's steps, also after a restart.
"""

import os
import time
from contextlib import nullcontext
from dataclasses import replace
from unittest.mock import Mock

import optuna
import pytest
from optuna.trial import TrialState
from ray.tune.search import Searcher

from road_ray.config import load
from road_ray.distributed.tune import one_trial
from road_ray.distributed.tune.one_trial import Record
from road_ray.distributed.tune.search_config import SearchConfig
from road_ray.distributed.tune.searcher import StudySearch, _Earlier, scheduler, to_tune_result
from road_ray.distributed.tune.study import open_study
from road_ray.errors import ResourceError
from tests.distributed.tune.test_trial_actor import spend

BASE = {"metric": "m", "trials": 3, "space": {"x": {"uniform": [0, 1]}}}


def searcher(directory, changed=lambda record: None, **values):
    config = load(SearchConfig, base=BASE, overrides=values)
    return StudySearch(open_study(config, "s", directory), config, directory, changed)


def finish(search, name, config, values=(0.5,), **told):
    record = Record(config["number"], config["params"], "complete", values, **told)
    search.on_trial_complete(name, {"record": record, "m": values[0]})


REPORT = {"step": 5, "total": 25, "m": 0.25}


def trials(search):
    return [(trial.number, trial.state.name) for trial in search._study.trials]


def test_trials_are_asked_until_the_budget_is_spent(tmp_path):
    seen = []
    search = searcher(tmp_path, seen.append)
    configs = [search.suggest(name) for name in "abc"]
    assert [config["number"] for config in configs] == [0, 1, 2]
    assert search.suggest("d") == Searcher.FINISHED
    for name, config in zip("abc", configs, strict=True):
        finish(search, name, config)
    assert search.suggest("d") == Searcher.FINISHED
    assert trials(search)[0] == (0, "COMPLETE")
    assert [record.state for record in seen] == ["running"] * 3 + ["complete"] * 3


def test_what_was_running_goes_on_first_with_its_own_values(tmp_path):
    before = searcher(tmp_path)
    configs = [before.suggest(name) for name in "ab"]
    finish(before, "a", configs[0])
    after = searcher(tmp_path)
    assert after.suggest("x") == configs[1]
    assert after.suggest("y")["number"] == 2
    assert after.suggest("z") == Searcher.FINISHED


def test_a_trial_stopped_by_the_scheduler_is_told_as_pruned(tmp_path):
    search = searcher(tmp_path)
    search.suggest("a")
    search.on_trial_result("a", REPORT | {"step": 4, "m": 0.5})
    spend(tmp_path, 0)
    search.on_trial_complete("a", REPORT)
    assert trials(search) == [(0, "PRUNED")]
    record = one_trial.read(tmp_path, 0)
    assert (record.state, record.values) == ("pruned", (0.25,))
    assert (record.teacher_seconds, record.seconds) == (3.0, 50.0)
    assert "asha at step 5" in record.reason


def test_a_trial_whose_process_died_is_told_as_failed(tmp_path):
    search = searcher(tmp_path)
    search.suggest("a")
    search.on_trial_complete("a", error=True)
    assert trials(search) == [(0, "FAIL")]
    assert "died" in one_trial.read(tmp_path, 0).reason


def stopped(directory, record, on_report):
    """A trial worse than the one before; the cleanup of trial 1 takes long, of trial 2 crashes."""
    number = int(directory.name)
    try:
        for step in range(1, 6):
            time.sleep(0.1)
            on_report(step, 5, -float(number))
    except SystemExit:
        os.environ["TUNE_FUNCTION_THREAD_TIMEOUT_S"] = "1"
        if number == 1:
            time.sleep(3)
        if number == 2:
            time.sleep(0.3)
            os._exit(1)
        raise
    return replace(record, values=(-float(number),))


@pytest.mark.ray
@pytest.mark.timeout(600)
def test_no_trial_is_lost_to_the_cleanup_of_a_stopped_one(cluster, tmp_path):
    from road_ray.distributed.tune.driver import search

    values = {"trials": 5, "sampler": "random", "grace_percent": 20, "reduction": 2}
    config = load(SearchConfig, base=BASE, overrides=values | {"max_concurrent": 1})
    records = search(config, "s", tmp_path, lambda: nullcontext(stopped))
    assert [record.state for record in records] == ["complete"] + ["pruned"] * 4


@pytest.mark.ray
def test_a_full_disk_ends_a_sweep_with_its_reason(cluster, tmp_path, monkeypatch):
    from road_ray.distributed.tune.driver import search

    full = OSError(28, "No space left")
    monkeypatch.setattr(one_trial, "write", Mock(side_effect=ResourceError("no record")))
    monkeypatch.setattr("road_ray.distributed.tune.searcher.tell_outcome", Mock(side_effect=full))
    config = load(SearchConfig, base=BASE, overrides={"max_concurrent": 1})
    with pytest.raises(ResourceError, match=r"(?s)No space left.*fix"):
        search(config, "s", tmp_path, lambda: nullcontext(lambda _, record, __: record))


@pytest.mark.parametrize("budget", [{"budget_hours": 49 / 3600}, {"budget_teacher_seconds": 3.0}])
def test_the_time_of_a_killed_start_counts_for_the_trial_that_goes_on(tmp_path, budget):
    assert searcher(tmp_path, **budget).suggest("a")["number"] == 0
    spend(tmp_path, 0)
    after = searcher(tmp_path, **budget)
    assert after.suggest("b")["number"] == 0
    assert after.suggest("c") == Searcher.FINISHED


@pytest.mark.parametrize("budget", [{"budget_hours": 0.4}, {"budget_teacher_seconds": 100.0}])
def test_time_ends_a_sweep_too(tmp_path, budget):
    search = searcher(tmp_path, **budget)
    config = search.suggest("a")
    finish(search, "a", config, seconds=1800.0, teacher_seconds=100.0)
    again = searcher(tmp_path, **budget)
    assert again.suggest("b") == Searcher.FINISHED


def test_several_metrics_are_told_together(tmp_path):
    config = {"metric": ["m", "cost"], "mode": ["max", "min"], "scheduler": "none"}
    search = searcher(tmp_path, sampler="nsga2", **config)
    params = search.suggest("a")
    search.on_trial_result("a", REPORT)  # schedulers see one metric only
    finish(search, "a", params, (0.5, 2.0))
    assert search._study.trials[0].values == [0.5, 2.0]


def judged(judge, name, *reports):
    trial = _Earlier(name)
    judge.on_trial_add(None, trial)
    return [judge.on_trial_result(None, trial, to_tune_result(*report, "m")) for report in reports]


@pytest.mark.parametrize(("mode", "better", "worse"), [("max", 0.9, 0.1), ("min", 0.1, 0.9)])
def test_asha_stops_the_worse_at_a_rung_and_nobody_between(mode, better, worse):
    judge = scheduler(load(SearchConfig, base=BASE, overrides={"mode": mode}))
    assert judged(judge, "a", (12, 100, better)) == ["CONTINUE"]
    assert judged(judge, "b", (5, 100, worse), (12, 100, worse)) == ["CONTINUE", "STOP"]
    assert judged(judge, "c", (99, 100, better)) == ["CONTINUE"]


@pytest.mark.parametrize(("grace", "reduction", "rungs"), [(100 / 9, 3, 2), (40, 2, 2), (60, 2, 1)])
def test_hyperbands_last_bracket_never_stops(grace, reduction, rungs):
    """It was missing where the last rung is before the end."""
    given = {"scheduler": "hyperband", "grace_percent": grace, "reduction": reduction}
    brackets = scheduler(load(SearchConfig, base=BASE, overrides=given))._brackets
    counts = [sum(at < 99.9 for at, _ in bracket._rungs) for bracket in brackets]
    assert counts == [*range(rungs, -1, -1)]


@pytest.mark.parametrize(
    ("name", "last"), [("asha", {}), ("median", {}), ("median", {12: 0.1, 40: 0.1, 60: 0.1})]
)
def test_after_a_restart_earlier_trials_are_the_measure(name, last):
    """Also one that was spared, which would be stopped now at each of its reports."""
    config = load(SearchConfig, base=BASE, overrides={"scheduler": name})
    study, told = optuna.create_study(), {"value": 0.9, "user_attrs": {"total_steps": 100}}
    for values in [{12: 0.8, 40: 0.9}] * 4 + [last]:
        study.add_trial(optuna.trial.create_trial(**told, intermediate_values=values))
    fresh, restarted = scheduler(config), scheduler(config, study.trials)
    assert judged(fresh, "x", (12, 100, 0.2)) == ["CONTINUE"]
    assert judged(restarted, "x", (12, 100, 0.2)) == ["STOP"]


@pytest.mark.parametrize(
    ("name", "value", "end"), [("asha", 0.5, "CONTINUE"), ("median", 0.05, "STOP")]
)
def test_a_resumed_trial_keeps_its_reports(name, value, end):
    """The first after the restart stood in their place (asha), or did not count there (median)."""
    config = load(SearchConfig, base=BASE, overrides={"scheduler": name})
    study = optuna.create_study()
    for state in (TrialState.PRUNED, TrialState.PRUNED, TrialState.RUNNING):
        told = {"user_attrs": {"total_steps": 100}, "intermediate_values": {12: 0.1}}
        study.add_trial(optuna.trial.create_trial(state=state, **told))
    judge, resumed = scheduler(config, study.trials), _Earlier("again", {"number": 2})
    judge.on_trial_add(None, resumed)
    judge.on_trial_result(None, resumed, to_tune_result(20, 100, 0.95, "m"))
    assert judged(judge, "x", (12, 100, value)) == [end]


@pytest.mark.parametrize("name", ["asha", "median"])
@pytest.mark.parametrize("last", [{"record": "{}", "m": 0.9}, {"record": "{}"}])
def test_the_last_result_of_a_trial_has_no_share_of_the_steps(name, last):
    judge = scheduler(load(SearchConfig, base=BASE, overrides={"scheduler": name}))
    for number in range(4):
        judged(judge, f"{number}", (12, 100, 0.8), (40, 100, 0.9))
        judge.on_trial_complete(None, _Earlier(f"{number}"), last)
    assert judged(judge, "x", (12, 100, 0.2)) == ["STOP"]
