"""The searcher resumes running trials, samples new ones, and ends with the budget. Trials are
stopped by the share of their steps, as Ray Tune's schedulers would, also after a restart.
"""

import math
import os
import random
import time
from contextlib import nullcontext
from dataclasses import replace
from unittest.mock import Mock

import pytest
from optuna.trial import TrialState, create_trial
from ray.tune.schedulers import AsyncHyperBandScheduler, MedianStoppingRule
from ray.tune.search import Searcher

from road_ray.config import load
from road_ray.distributed.tune import driver, one_trial
from road_ray.distributed.tune.driver import StudySearch
from road_ray.distributed.tune.one_trial import Record
from road_ray.distributed.tune.search_config import SearchConfig
from road_ray.distributed.tune.study import open_study, should_stop
from road_ray.errors import ResourceError
from tests.distributed.tune.test_trial_actor import spend

BASE = {"metric": "m", "trials": 3, "space": {"x": {"uniform": [0, 1]}}}


def searcher(directory, changed=lambda record: None, **values):
    config = load(SearchConfig, base=BASE, overrides=values)
    return StudySearch(open_study(config, "s", directory), config, directory, changed)


def finish(search, name, config, values=(0.5,)):
    record = Record(config["number"], config["params"], "complete", values, seconds=50.0)
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
    assert not search.stops("a", REPORT | {"step": 4, "m": 0.5})
    assert not search.stops("a", REPORT)
    spend(tmp_path, 0)
    search.on_trial_complete("a", REPORT)
    assert trials(search) == [(0, "PRUNED")]
    record = one_trial.read(tmp_path, 0)
    assert (record.state, record.values) == ("pruned", (0.25,))
    assert record.seconds == 50.0
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
    values = {"trials": 5, "sampler": "random", "grace_percent": 20, "reduction": 2}
    config = load(SearchConfig, base=BASE, overrides=values | {"max_concurrent": 1})
    records = driver.search(config, "s", tmp_path, lambda: nullcontext(stopped))
    assert [record.state for record in records] == ["complete"] + ["pruned"] * 4


@pytest.mark.ray
def test_a_full_disk_ends_a_sweep_with_its_reason(cluster, tmp_path, monkeypatch):
    full = OSError(28, "No space left")
    monkeypatch.setattr(one_trial, "write", Mock(side_effect=ResourceError("no record")))
    monkeypatch.setattr(driver, "tell_outcome", Mock(side_effect=full))
    config = load(SearchConfig, base=BASE, overrides={"max_concurrent": 1})
    with pytest.raises(ResourceError, match=r"(?s)No space left.*fix"):
        driver.search(config, "s", tmp_path, lambda: nullcontext(lambda _, record, __: record))


def test_the_time_of_earlier_starts_counts_also_for_the_trial_that_goes_on(tmp_path):
    budget = {"budget_hours": 49 / 3600}
    assert searcher(tmp_path, **budget).suggest("a")["number"] == 0
    spend(tmp_path, 0)
    after = searcher(tmp_path, **budget)
    after._time_of = None  # of all trials: added up once, not ten times a second
    config = after.suggest("b")
    assert config["number"] == 0
    assert after.suggest("c") == Searcher.FINISHED
    finish(after, "b", config)
    assert searcher(tmp_path, **budget).suggest("d") == Searcher.FINISHED
    assert searcher(tmp_path).suggest("d")["number"] == 1


def test_several_metrics_are_told_together(tmp_path):
    config = {"metric": ["m", "cost"], "mode": ["max", "min"], "scheduler": "none"}
    search = searcher(tmp_path, sampler="nsga2", **config)
    params = search.suggest("a")
    assert not search.stops("a", REPORT)  # trials are compared by one metric only
    finish(search, "a", params, (0.5, 2.0))
    assert search._study.trials[0].values == [0.5, 2.0]


def reported(*values, state=TrialState.RUNNING):
    """A trial of a hundred steps and its values by step."""
    return create_trial(
        state=state, user_attrs={"total_steps": 100}, intermediate_values=dict(values)
    )


def study_of(*trials):
    for number, trial in enumerate(trials):
        trial.number = number
    return [*trials]


@pytest.mark.parametrize("mode", ["max", "min"])
@pytest.mark.parametrize("name", ["asha", "median"])
def test_trials_are_stopped_as_by_tunes_schedulers(name, mode):
    """Theirs forget with the driver; ours read the study."""
    config = load(SearchConfig, base=BASE, overrides={"mode": mode, "scheduler": name})
    asked = {"time_attr": "percent", "metric": "m", "mode": mode, "grace_period": 100 / 9}
    theirs = MedianStoppingRule(**asked, min_time_slice=math.inf)
    if name == "asha":
        asked |= {"max_t": 100, "reduction_factor": 3, "stop_last_trials": False}
        theirs = AsyncHyperBandScheduler(**asked)
    drawn, trials, stopped = random.Random(0), [], 0
    live = [Mock(trial_id=number) for number in range(30)]
    for trial in live:
        theirs.on_trial_add(None, trial)
        trials.append(reported())
    study_of(*trials)
    while live:
        trial = drawn.choice(live)
        told = trials[trial.trial_id].intermediate_values
        step, value = max(told, default=0) + drawn.choice([4, 8, 30]), drawn.random()
        if step >= 100:
            live.remove(trial)
            continue
        told[step] = value
        ours = should_stop(config, trials, trial.trial_id)
        assert ours == (
            theirs.on_trial_result(None, trial, {"percent": step, "m": value}) == "STOP"
        )
        if ours:
            stopped += 1
            live.remove(trial)
    assert 5 < stopped < 30


def test_hyperband_has_trials_that_skip_a_rung_and_some_that_skip_all():
    """The last were missing where the last rung is before the end."""
    given = {"scheduler": "hyperband", "grace_percent": 40, "reduction": 2}
    config = load(SearchConfig, base=BASE, overrides=given)

    spared = []
    for step in (40, 80):
        trials = study_of(*(reported((step, 0.5)) for _ in range(40)))
        spared.append(0)
        for number in range(40):
            worse = study_of(*trials)
            worse[number] = reported((step, 0.1))
            spared[-1] += not should_stop(config, study_of(*worse), number)
    assert spared == [11, 4]  # of 40


def test_a_trial_that_goes_back_to_its_checkpoint_is_not_compared_again(tmp_path):
    search = searcher(tmp_path)
    for name in "ab":
        search.suggest(name)
    assert not search.stops("a", REPORT)
    assert not search.stops("b", REPORT | {"m": 0.3})
    assert not search.stops("a", REPORT)
    assert not search.stops("a", REPORT | {"step": 6})  # the same rung
    assert search.stops("a", REPORT | {"step": 10}) is False
    assert search.stops("b", REPORT | {"step": 10, "m": 0.2})
    assert not search.stops("a", {"record": "{}", "m": 0.0})
