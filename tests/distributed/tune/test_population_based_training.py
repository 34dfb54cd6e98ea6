"""Population-based training: the worst trials are replaced by children of the best."""

from __future__ import annotations

import json
import random
import time
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from road_ray.config import InvalidConfig, load
from road_ray.distributed.tune import trial_record
from road_ray.distributed.tune.population_based_training import (
    PopulationBasedScheduler,
    copy_donor_checkpoint,
    perturb,
)
from road_ray.distributed.tune.schedulers import replay_reports, to_tune_result
from road_ray.distributed.tune.search_config import SearchConfig
from road_ray.distributed.tune.searcher import StudySearch
from road_ray.distributed.tune.study import open_study
from road_ray.distributed.tune.trial_record import Outcome, Record, Report
from road_ray.errors import CheckpointError

BASE = {
    "metric": "m",
    "trials": 8,
    "sampler": "random",
    "scheduler": "pbt",
    "grace_percent": 25.0,
    "space": {"x": {"uniform": [0, 1]}},
}


def config(**values):
    return load(SearchConfig, base=BASE, overrides=values)


def report(population, number, percent, value, step=10):
    trial = SimpleNamespace(config={"number": number})
    return population.on_trial_result(
        None, trial, to_tune_result(Report(step, percent, value), "m")
    )


@pytest.mark.parametrize(("mode", "sign"), [("max", 1), ("min", -1)])
def test_the_worst_of_those_that_came_as_far_gives_way(mode, sign):
    bred = []
    population = PopulationBasedScheduler(config(mode=mode), lambda *child: bred.append(child))
    for number, value in enumerate((0.5, 0.9, 0.4)):  # a quarter of three is nobody
        assert report(population, number, 30.0, sign * value, step=30 + number) == "CONTINUE"
    assert report(population, 3, 20.0, sign * 0.1) == "CONTINUE"  # no look yet
    assert report(population, 3, 30.0, sign * 0.1) == "STOP"
    assert bred == [(3, 1, 31)]
    assert report(population, 1, 49.0, sign * -9.0) == "CONTINUE"  # the same look: only once
    assert report(population, 4, 26.0, sign * 0.6) == "CONTINUE"


def test_after_a_restart_earlier_trials_are_the_measure_and_have_no_children_again():
    bred = []
    population = PopulationBasedScheduler(config(), lambda *child: bred.append(child))
    replay_reports(
        population, {n: [Report(5, 30.0, value)] for n, value in enumerate((0.5, 0.9, 0.1))}, "m"
    )
    assert bred == []
    assert report(population, 7, 30.0, 0.0) == "STOP"
    assert bred == [(7, 1, 5)]


def test_values_of_a_child_are_near_or_drawn_anew_and_always_inside():
    ranges = {
        "rate": {"loguniform": [1e-4, 1e-2]},
        "share": {"uniform": [0.0, 1.0]},
        "rows": {"int": [1, 10]},
        "rule": {"choice": ["a", "b", "c"]},
    }
    space = load(SearchConfig, base=BASE | {"space": ranges}).space
    parent = {"rate": 1e-3, "share": 0.9, "rows": 10, "rule": "a"}
    drawn = [perturb(space, parent, random.Random(seed)) for seed in range(400)]
    assert all(set(item) == set(parent) for item in drawn)
    assert all(1e-4 <= item["rate"] <= 1e-2 and 0 <= item["share"] <= 1 for item in drawn)
    assert all(item["rows"] in range(1, 11) for item in drawn)
    near = [item for item in drawn if round(item["rate"] / 1e-3, 9) in (0.8, 1.2)]
    assert 0.65 < len(near) / len(drawn) < 0.85  # a quarter is drawn anew
    assert {item["share"] for item in drawn} >= {0.9 * 0.8, 1.0}
    assert {item["rule"] for item in drawn} == {"a", "b", "c"}
    assert drawn[3] == perturb(space, parent, random.Random(3))


def checkpoint(place, step, text="x"):
    made = place / "seed-0" / "checkpoints" / f"step-{step:08d}"
    made.mkdir(parents=True)
    (made / "state.json").write_text(text)


def test_a_child_begins_with_the_checkpoint_of_the_look(tmp_path):
    for step in (10, 20, 30):
        checkpoint(tmp_path / "donor", step, str(step))
    copy_donor_checkpoint(tmp_path / "donor", tmp_path / "child", 20)
    copy_donor_checkpoint(tmp_path / "donor", tmp_path / "child", 30)  # it has begun: nothing more
    (copied,) = (tmp_path / "child" / "seed-0" / "checkpoints").iterdir()
    assert (copied.name, (copied / "state.json").read_text()) == ("step-00000020", "20")


def test_a_checkpoint_that_is_not_there_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr("road_ray.distributed.tune.population_based_training._WRITING_SECONDS", 0.0)
    checkpoint(tmp_path / "donor", 30)
    with pytest.raises(CheckpointError, match="no checkpoint up to step 20"):
        copy_donor_checkpoint(tmp_path / "donor", tmp_path / "child", 20)


def test_a_child_comes_next_and_is_no_part_of_the_budget(tmp_path):
    sweep = config(trials=2)
    search = StudySearch(open_study(sweep, "s", tmp_path), sweep, tmp_path)
    first, second = search.suggest("a"), search.suggest("b")
    assert search.suggest("c") is None  # one that runs may have to give way yet
    search.breed(second["number"], first["number"], 40)
    restarted = StudySearch(open_study(sweep, "s", tmp_path), sweep, tmp_path)
    assert [restarted.suggest(name)["number"] for name in "xy"] == [0, 1]
    child = restarted.suggest("z")
    record = trial_record.read(tmp_path, 2)
    assert (child["number"], record.parent, record.parent_step) == (2, 0, 40)
    for name, number in zip("xyz", range(3), strict=True):
        done = trial_record.read(tmp_path, number)
        trial_record.write(tmp_path, Record(number, done.params, "complete", (0.5,)))
        restarted.on_trial_complete(name, {"ended": "complete", "m": 0.5})
    assert restarted.suggest("w") == "FINISHED"


def test_a_searcher_beside_it_is_refused():
    with pytest.raises(InvalidConfig, match="sampler = tpe would not learn"):
        config(sampler="tpe")


STEPS = 8


def climb(directory, params, on_report):
    """Adds x at each step; what it has so far is its checkpoint."""
    place = directory / "seed-0" / "checkpoints"
    steps_before = sorted(place.glob("step-*"))
    state = (
        json.loads((steps_before[-1] / "state.json").read_text())
        if steps_before
        else {"step": 0, "sum": 0}
    )
    for step in range(state["step"] + 1, STEPS + 1):
        time.sleep(0.05)
        state = {"step": step, "sum": state["sum"] + params["x"]}
        staged = place / ".staged"
        staged.mkdir(parents=True)
        (staged / "state.json").write_text(json.dumps(state))
        staged.rename(place / f"step-{step:08d}")
        if step < STEPS:
            on_report(Report(step, 100.0 * step / STEPS, state["sum"]))
    return Outcome([state["sum"]], [None], {"m": state["sum"]})


@pytest.mark.ray
@pytest.mark.timeout(600)
def test_a_population_ends_with_children_that_add_to_what_their_parents_had(cluster, tmp_path):
    from road_ray.distributed.tune.driver import search

    sweep = config(max_concurrent=2)
    trials = search(sweep, "s", tmp_path, climb, connected=nullcontext)
    children = [trial for trial in trials if trial.parent is not None]
    assert len(trials) - len(children) == 8
    assert children, "nobody gave way"
    assert sum(trial.state == "complete" for trial in trials) == 8  # one for each that gave way
    assert {trial.state for trial in trials} == {"complete", "pruned"}
    for child in children:
        reports = trial_record.read_reports(trial_record.trial_directory(tmp_path, child.number))
        donor = trial_record.read_reports(trial_record.trial_directory(tmp_path, child.parent))
        before = {trial.step: trial.value for trial in donor}
        assert reports[0].step == child.parent_step + 1
        had = before[child.parent_step]
        assert reports[0].value == pytest.approx(had + child.params["x"])
