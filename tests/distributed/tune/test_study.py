"""Studies that are damaged, ahead, behind or missing are reconciled with the trials."""

from __future__ import annotations

import json
from dataclasses import replace

import optuna
import pytest
from optuna.trial import TrialState

from road_ray.config import load
from road_ray.distributed.tune import study as sweep_study
from road_ray.distributed.tune import trial_record
from road_ray.distributed.tune.search_config import SearchConfig
from road_ray.distributed.tune.study import distributions, open_study, tell_outcome
from road_ray.distributed.tune.study_storage import JOURNAL
from road_ray.distributed.tune.trial_record import Record, Report
from road_ray.errors import ConfigError, ResourceError

BASE = {"metric": "m", "trials": 6, "space": {"x": {"uniform": [0, 1]}, "c": {"choice": [1, [2]]}}}


def search(**values):
    return load(SearchConfig, base=BASE, overrides=values)


def ask(study, config):
    trial = study.ask(fixed_distributions=distributions(config.space))
    return Record(trial.number, dict(trial.params))


def ended(record, value=0.5, state="complete"):
    values = (value,) if state == "complete" else ()
    return Record(record.number, record.params, state, values, (0.1,), {"m": value}, "why", 2.0)


def states(study):
    return [trial.state.name for trial in study.trials]


@pytest.fixture
def half(tmp_path):
    """A sweep of which one trial is complete, one pruned, one failed and one running."""
    config = search()
    study = open_study(config, "s", tmp_path)
    for state in ("complete", "pruned", "failed", "running"):
        record = ask(study, config)
        if state != "running":
            record = ended(record, state=state)
            tell_outcome(study, record)
        trial_record.write(tmp_path, record)
    return config, tmp_path, states(study)


def test_the_same_study_is_opened_again(half):
    config, directory, before = half
    study = open_study(config, "s", directory)
    assert before == states(study) == ["COMPLETE", "PRUNED", "FAIL", "RUNNING"]
    assert study.best_value == 0.5
    assert study.trials[0].user_attrs["deviation"] == [0.1]


@pytest.mark.parametrize("damage", ["truncated", "garbled", "emptied", "removed"])
def test_a_damaged_study_is_made_again_from_the_trials(half, damage):
    config, directory, before = half
    path = directory / JOURNAL
    params = [dict(t.params) for t in open_study(config, "s", directory).trials]
    content = path.read_bytes()
    damages = {"truncated": content[:-9], "emptied": b""}
    damages["garbled"] = content[:200] + b"}{garbled\n" + content[300:]
    path.write_bytes(damages.get(damage, b""))
    (directory / f"{JOURNAL}.lock").touch()  # left by a killed process
    if damage == "removed":
        path.unlink()
    study = open_study(config, "s", directory)
    assert states(study) == before
    assert [dict(trial.params) for trial in study.trials] == params
    damaged = list(directory.glob("*.damaged-*"))
    assert len(damaged) == (damage == "garbled")


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_a_journal_that_lost_its_end_is_completed_from_the_record(tmp_path, lost):
    """The last value, both values, and the trial itself."""
    config = search()
    study = open_study(config, "s", tmp_path)
    for _ in range(2):
        record = ask(study, config)
        trial_record.write(tmp_path, record)
    path = tmp_path / JOURNAL
    lines = [line for line in path.read_bytes().splitlines(keepends=True) if b"tpe:" not in line]
    path.write_bytes(b"".join(lines[:-lost]) + lines[-lost][:-7])
    study = open_study(config, "s", tmp_path)
    assert states(study) == ["RUNNING", "RUNNING"]
    assert dict(study.trials[1].params) == record.params


@pytest.mark.parametrize("lost", [1, 2])
def test_a_trial_that_was_killed_before_its_values_were_drawn_gets_all_of_them(tmp_path, lost):
    config = search()
    params = ask(open_study(config, "s", tmp_path), config).params
    path = tmp_path / JOURNAL
    lines = [line for line in path.read_bytes().splitlines(keepends=True) if b"tpe:" not in line]
    path.write_bytes(b"".join(lines[:-lost]))
    (trial,) = open_study(config, "s", tmp_path).trials
    assert trial.params.keys() == {"x", "c"}
    assert [trial.params[key] == params[key] for key in ("x", "c")][: 2 - lost] == [True] * (
        2 - lost
    )
    assert 0 <= trial.params["x"] <= 1


def test_a_damaged_record_is_made_again_from_the_study(half):
    config, directory, _ = half
    record = trial_record.read(directory, 0)
    (trial_record.trial_directory(directory, 0) / "trial.json").write_text("{")
    open_study(config, "s", directory)
    assert trial_record.read(directory, 0) == record


def test_a_trial_that_ended_while_nobody_told_the_study_is_told(half):
    config, directory, _ = half
    last = trial_record.read(directory, 3)
    trial_record.write(directory, ended(last, 0.9))
    assert open_study(config, "s", directory).best_trial.number == 3


def test_what_the_study_knows_already_is_not_told_twice(half):
    config, directory, _ = half
    study = open_study(config, "s", directory)
    tell_outcome(study, ended(Record(0, {}), 0.7))
    tell_outcome(study, ended(Record(99, {}), 0.7))
    sweep_study.tell_report(study, 0, 3, 0.1)
    sweep_study.tell_report(study, 3, 3, 0.1)
    sweep_study.tell_report(study, 3, 3, 0.9)
    sweep_study.tell_report(study, 3, 4, float("nan"))
    assert study.best_value == 0.5
    assert study.trials[3].intermediate_values == {3: 0.1}


def test_given_points_come_first_and_once(tmp_path):
    config = search(points=[{"x": 0.25, "c": [2]}, {"c": 1}])
    for _ in range(3):
        study = open_study(config, "s", tmp_path)
    assert states(study) == ["WAITING", "WAITING"]
    first, second = ask(study, config), ask(study, config)
    assert first.params == {"x": 0.25, "c": "[2]"}
    assert second.params["c"] == 1
    assert 0 <= second.params["x"] <= 1


def test_a_grid_is_every_point_once(tmp_path):
    space = {"x": {"int": [0, 2]}, "c": {"choice": ["a", "b"]}}
    config = load(SearchConfig, base=BASE | {"space": space, "sampler": "grid"})
    study = open_study(config, "s", tmp_path)
    points = {tuple(ask(study, config).params.values()) for _ in range(6)}
    assert len(points) == 6


def test_a_restart_does_not_draw_the_same_again(tmp_path):
    config = search(sampler="random")
    drawn = []
    for _ in range(3):
        drawn.append(ask(open_study(config, "s", tmp_path), config).params["x"])
    assert len(set(drawn)) == 3


@pytest.mark.parametrize("sampler", ["random", "tpe", "nsga2"])
def test_a_rebuilt_study_draws_what_it_has_not_drawn(tmp_path, sampler):
    config = search(sampler=sampler)
    drawn = []
    for _ in range(2):
        study = open_study(config, "s", tmp_path)
        for _ in range(2):
            record = ended(ask(study, config))
            tell_outcome(study, record)
            trial_record.write(tmp_path, record)
            drawn.append(record.params["x"])
        (tmp_path / JOURNAL).unlink()
    assert len(set(drawn)) == 4


def test_a_large_grid_is_enqueued_once_and_in_linear_time(tmp_path, monkeypatch):
    space = {"x": {"int": [0, 59]}, "c": {"choice": [1, True, "1", 1.5, [2]]}}
    points = [{"x": 7, "c": True}, {"x": 7}, {"x": 7, "c": True}]
    overrides = {"space": space, "sampler": "grid", "points": points, "trials": 1000}
    config = load(SearchConfig, base=BASE | overrides)
    compared = []
    same = optuna.Study._should_skip_enqueue
    monkeypatch.setattr(
        optuna.Study, "_should_skip_enqueue", lambda *a: compared.append(a) or same(*a)
    )
    for _ in range(2):
        trials = open_study(config, "s", tmp_path).get_trials(deepcopy=False)
        fixed = [trial.system_attrs["fixed_params"] for trial in trials]
        assert fixed[:2] == points[:2]
        assert len(fixed) == 1 + 60 * 5
        assert len({json.dumps(point) for point in fixed}) == len(fixed)
    assert compared == []


def test_another_space_under_the_same_name_is_refused(half):
    _, directory, _ = half
    other = search(space={"x": {"uniform": [0, 2]}})
    with pytest.raises(ConfigError, match="with another space"):
        open_study(other, "s", directory)
    with pytest.raises(ConfigError, match="with another space"):
        open_study(search(mode="min"), "s", directory)


def test_trials_of_an_earlier_sweep_count_for_the_sampler(half, tmp_path):
    _, earlier, _ = half
    config = search(warm_from=[str(earlier)])
    later = tmp_path / "later"
    for _ in range(2):
        study = open_study(config, "later", later)
    assert [trial.value for trial in study.get_trials(states=(TrialState.COMPLETE,))] == [0.5]
    assert trial_record.read(later, 0).origin == f"{earlier}#0"


@pytest.mark.parametrize("sampler", ["tpe", "gp", "nsga2", "random"])
def test_every_sampler_draws_from_the_space(tmp_path, sampler):
    config = search(sampler=sampler)
    study = open_study(config, "s", tmp_path)
    for number in range(5):
        record = ask(study, config)
        assert 0 <= record.params["x"] <= 1
        tell_outcome(study, ended(record, number / 10))


def test_reports_come_back_with_a_rebuilt_trial(half):
    config, directory, _ = half
    trial_record.add_report(trial_record.trial_directory(directory, 3), Report(5, 50.0, 0.25))
    (directory / JOURNAL).unlink()
    assert open_study(config, "s", directory).trials[3].intermediate_values == {5: 0.25}


def test_a_flipped_bit_of_a_record_is_seen_wherever_it_is(half):
    _, directory, _ = half
    path = trial_record.path_of(directory, 0)
    content, whole = path.read_bytes(), trial_record.read(directory, 0)
    for bit in range(0, 8 * len(content), 7):
        place = bit // 8
        flipped = bytes([content[place] ^ 1 << bit % 8])
        path.write_bytes(content[:place] + flipped + content[place + 1 :])
        assert trial_record.read(directory, 0) in (None, whole)


def test_the_record_of_another_sweep_is_refused_and_named(half):
    config, directory, _ = half
    record = trial_record.read(directory, 0)
    for other in (
        replace(record, values=(0.75,)),
        replace(record, params=record.params | {"x": 0.123}),
        replace(record, figures={"m": 0.75}),
    ):
        trial_record.write(directory, other)
        with pytest.raises(ResourceError, match=r"trials/0000/trial\.json: differs from the study"):
            open_study(config, "s", directory)
    trial_record.path_of(directory, 0).unlink()
    open_study(config, "s", directory)
    assert trial_record.read(directory, 0) == record


def test_a_changed_figure_in_the_journal_is_refused_and_named(half):
    config, directory, _ = half
    path = directory / JOURNAL
    path.write_text(path.read_text().replace('"values":[0.5]', '"values":[0.9]'))
    with pytest.raises(ResourceError, match=r"study\.journal"):
        open_study(config, "s", directory)
    path.unlink()
    assert open_study(config, "s", directory).best_value == 0.5


def test_a_journal_that_is_no_file_is_named(half):
    config, directory, _ = half
    (directory / JOURNAL).unlink()
    (directory / JOURNAL).mkdir()
    with pytest.raises(ResourceError, match=r"study\.journal: cannot be used: Is a directory"):
        open_study(config, "s", directory)


@pytest.mark.parametrize("row", ["null", "[]", '{"step": 1}', '{"step": 1, "percent": 2}'])
def test_a_row_that_is_no_report_is_named(row, tmp_path):
    trial_record.add_report(tmp_path, Report(1, 10.0, 0.5))
    path = tmp_path / "reports.jsonl"
    path.write_text(f"{row}\n{path.read_text()}")
    with pytest.raises(ResourceError, match=r"reports\.jsonl:1: not a"):
        trial_record.read_reports(tmp_path)
