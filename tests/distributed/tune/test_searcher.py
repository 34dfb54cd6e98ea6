"""The searcher resumes running trials, samples new ones, and ends with the budget."""

from __future__ import annotations

import pytest
from ray.tune.search import Searcher

from road_ray.config import load
from road_ray.distributed.tune import trial_record
from road_ray.distributed.tune.search_config import SearchConfig
from road_ray.distributed.tune.searcher import StudySearch
from road_ray.distributed.tune.study import open_study
from road_ray.distributed.tune.trial_record import Record, Report

BASE = {"metric": "m", "trials": 3, "space": {"x": {"uniform": [0, 1]}}}


def searcher(directory, changed=lambda record: None, **values):
    config = load(SearchConfig, base=BASE, overrides=values)
    return StudySearch(open_study(config, "s", directory), config, directory, changed)


def finish(search, directory, name, config, value=0.5):
    record = Record(config["number"], config["params"], "complete", (value,), seconds=1800.0)
    trial_record.write(directory, record)
    search.on_trial_complete(name, {"ended": "complete", "m": value})


def trials(search):
    return [(trial.number, trial.state.name) for trial in search._study.trials]


def test_trials_are_asked_until_the_budget_is_spent(tmp_path):
    seen = []
    search = searcher(tmp_path, seen.append)
    configs = [search.suggest(name) for name in "abc"]
    assert [config["number"] for config in configs] == [0, 1, 2]
    assert search.suggest("d") == Searcher.FINISHED
    finish(search, tmp_path, "a", configs[0])
    assert trials(search)[0] == (0, "COMPLETE")
    assert [record.state for record in seen] == ["running"] * 3 + ["complete"]


def test_what_was_running_goes_on_first_with_its_own_values(tmp_path):
    before = searcher(tmp_path)
    configs = [before.suggest(name) for name in "ab"]
    finish(before, tmp_path, "a", configs[0])
    after = searcher(tmp_path)
    assert after.suggest("x") == configs[1]
    assert after.suggest("y")["number"] == 2
    assert after.suggest("z") == Searcher.FINISHED


def test_a_trial_that_was_asked_but_has_no_record_yet_goes_on_too(tmp_path):
    before = searcher(tmp_path)
    config = before.suggest("a")
    (trial_record.trial_directory(tmp_path, 0) / "trial.json").unlink()
    assert searcher(tmp_path).suggest("x") == config


def test_a_trial_stopped_by_the_scheduler_is_told_as_pruned(tmp_path):
    search = searcher(tmp_path)
    search.suggest("a")
    report = Report(5, 20.0, 0.25)
    trial_record.add_report(trial_record.trial_directory(tmp_path, 0), report)
    search.on_trial_result("a", {"step": 5, "percent": 20.0, "m": 0.25})
    search.on_trial_complete("a", {"step": 5, "percent": 20.0, "m": 0.25})
    assert trials(search) == [(0, "PRUNED")]
    record = trial_record.read(tmp_path, 0)
    assert (record.state, record.values) == ("pruned", (0.25,))
    assert "asha at step 5" in record.reason


def test_a_trial_whose_process_died_is_told_as_failed(tmp_path):
    search = searcher(tmp_path)
    search.suggest("a")
    search.on_trial_complete("a", error=True)
    assert trials(search) == [(0, "FAIL")]
    assert "died" in trial_record.read(tmp_path, 0).reason


def test_results_of_unknown_trials_are_left_alone(tmp_path):
    search = searcher(tmp_path)
    search.on_trial_result("never", {"step": 1, "m": 1.0})
    search.on_trial_complete("never", {"m": 1.0})
    assert trials(search) == []


@pytest.mark.parametrize("budget", [{"budget_hours": 0.4}, {"budget_teacher_seconds": 100.0}])
def test_time_ends_a_sweep_too(tmp_path, budget):
    search = searcher(tmp_path, **budget)
    config = search.suggest("a")
    record = Record(0, config["params"], "complete", (1.0,), seconds=1800.0, teacher_seconds=100.0)
    trial_record.write(tmp_path, record)
    search.on_trial_complete("a", {"ended": "complete"})
    again = searcher(tmp_path, **budget)
    assert again.suggest("b") == Searcher.FINISHED


def test_several_metrics_are_told_together(tmp_path):
    config = {"metric": ["m", "cost"], "mode": ["max", "min"], "scheduler": "none"}
    search = searcher(tmp_path, sampler="nsga2", **config)
    params = search.suggest("a")
    record = Record(0, params["params"], "complete", (0.5, 2.0))
    trial_record.write(tmp_path, record)
    search.on_trial_result("a", {"step": 1, "m": 0.1})
    search.on_trial_complete("a", {"ended": "complete"})
    assert search._study.trials[0].values == [0.5, 2.0]
