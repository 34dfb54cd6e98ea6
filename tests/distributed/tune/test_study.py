"""The study is the truth of a sweep: damage is named, records are output. It opens for its own
sweep only.
"""

import json
import shutil
from dataclasses import replace

import optuna
import pytest

from road_ray.config import load
from road_ray.distributed.tune import one_trial
from road_ray.distributed.tune import study as sweep_study
from road_ray.distributed.tune.one_trial import path_of
from road_ray.distributed.tune.search_config import SearchConfig
from road_ray.distributed.tune.study import (
    JOURNAL,
    ask,
    distributions,
    open_study,
    record_of,
    records_of,
    tell_outcome,
)
from road_ray.errors import ResourceError
from road_ray.reporting.records.sweep_record import read_sweep

BASE = {"metric": "m", "trials": 6, "space": {"x": {"uniform": [0, 1]}, "c": {"choice": [1, [2]]}}}


def search(**values):
    return load(SearchConfig, base=BASE, overrides=values)


def ended(record, value=0.5, state="complete"):
    values = (value,) if state == "complete" else ()
    told = {"deviation": (0.1,), "figures": {"m": value}, "reason": "why", "seconds": 2.0}
    return replace(record, state=state, values=values, **told)


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
            tell_outcome(study, ended(record, state=state))
        one_trial.write(tmp_path, record_of(study.trials[record.number]))
    return config, tmp_path, states(study)


@pytest.mark.parametrize(
    "damage",
    {
        "cut between lines": lambda content: b"".join(content.splitlines(keepends=True)[:9]),
        "cut in half": lambda content: content[: len(content) // 2],
        "a line lost": lambda content: content[: content.index(b"\n") + 1] + content[999:],
        "empty": lambda content: b"",
        "no text": lambda content: b"\xff\xfe" + content,
        "null": lambda content: b"null\n",
    }.items(),
    ids=lambda pair: pair[0],
)
def test_a_damaged_study_is_named_and_nothing_is_changed(half, damage):
    config, directory, _ = half
    path = directory / JOURNAL
    whole = path.read_bytes()
    path.write_bytes(damage[1](whole))
    assert path.read_bytes() != whole
    records = [path_of(directory, number).read_bytes() for number in range(4)]
    for act in (path.exists, path.unlink, lambda: (path.unlink(missing_ok=True), path.mkdir())):
        act()
        with pytest.raises(ResourceError, match=r"study\.journal"):
            open_study(config, "s", directory)
    assert records == [path_of(directory, number).read_bytes() for number in range(4)]


def test_a_torn_last_line_and_a_lock_of_a_killed_process_do_no_harm(half):
    config, directory, before = half
    path = directory / JOURNAL
    params = [dict(trial.params) for trial in open_study(config, "s", directory).trials]
    with path.open("ab") as file:
        file.write(b'{"op_code":4')
    (directory / f"{JOURNAL}.lock").touch()
    study = open_study(config, "s", directory)
    assert states(study) == before
    assert [dict(trial.params) for trial in study.trials] == params


@pytest.mark.parametrize("name", [JOURNAL, "trials/0000/trial.json"])
def test_files_of_another_sweep_over_the_same_space_are_named(half, tmp_path, name):
    config, directory, _ = half
    other, another_seed = tmp_path / "other", search(seed=7)
    study = open_study(another_seed, "s", other)
    for _ in range(4):
        one_trial.write(other, ask(study, another_seed))
    shutil.copy(other / name, directory / name)
    with pytest.raises(ResourceError, match=rf"trial\.json: is of another sweep.*{JOURNAL}"):
        open_study(config, "s", directory)


@pytest.mark.parametrize("lost", [1, 2])
def test_a_trial_that_was_killed_before_its_values_were_drawn_gets_all_of_them(tmp_path, lost):
    config = search(sampler="random")
    params = ask(open_study(config, "s", tmp_path), config).params
    path = tmp_path / JOURNAL
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-lost]))
    record = ask(open_study(config, "s", tmp_path), config, 0)
    assert record.params.keys() == {"x", "c"}
    assert (record.params["x"] == params["x"]) == (lost == 1)
    assert 0 <= record.params["x"] <= 1


@pytest.mark.parametrize("text", ["{", "", "[]", "{}", "7", "null", "another value"])
def test_a_damaged_record_is_made_again_from_the_study(half, text):
    config, directory, _ = half
    path, record = path_of(directory, 0), one_trial.read(directory, 0)
    assert record.values == (0.5,)
    other = json.dumps(json.loads(path.read_text()) | {"values": [0.7]})
    path.write_text(other if text == "another value" else text)
    assert one_trial.read(directory, 0) != record
    open_study(config, "s", directory)
    assert one_trial.read(directory, 0) == record
    assert one_trial.trial_numbers(directory) == [0, 1, 2, 3]


def test_a_record_with_a_figure_that_is_no_number_is_read(tmp_path):
    one_trial.write(tmp_path, ended(one_trial.Record(0, {}), float("nan"), "failed"))
    assert one_trial.read(tmp_path, 0).figures == {"m": None}


def test_a_figure_is_told_once_a_step(half):
    config, directory, _ = half
    study = open_study(config, "s", directory)
    for report in ((3, 4, 0.1), (3, 4, 0.9), (4, 4, 0.2)):
        sweep_study.tell_report(study, 3, *report)
    assert study.trials[3].intermediate_values == {3: 0.1, 4: 0.2}
    tell_outcome(study, ended(record_of(study.trials[3]), state="pruned"))
    assert study.trials[3].user_attrs["total_steps"] == 4
    assert record_of(study.trials[3]).values == (0.2,)


def test_given_points_come_first_and_once(tmp_path):
    config = search(points=[{"x": 0.25, "c": [2]}, {"c": 1}])
    for _ in range(3):
        study = open_study(config, "s", tmp_path)
    assert states(study) == ["WAITING", "WAITING"]
    first, second = ask(study, config), ask(study, config)
    assert first.params == {"x": 0.25, "c": "[2]"}
    assert second.params["c"] == 1
    assert 0 <= second.params["x"] <= 1


def test_trials_that_an_earlier_version_copied_are_of_another_sweep(half):
    config, directory, _ = half
    study = open_study(config, "s", directory)
    copied = {"params": study.trials[0].params, "distributions": distributions(config.space)}
    user_attrs = {"origin": "runs/other#0"}
    study.add_trial(optuna.trial.create_trial(**copied, values=[0.9], user_attrs=user_attrs))
    assert len(records_of(open_study(config, "s", directory))) == 4
    assert [trial.number for trial in read_sweep(directory).best] == [0]


def test_a_restart_does_not_draw_the_same_again(tmp_path):
    config = search(sampler="random")
    drawn = []
    for _ in range(3):
        drawn.append(ask(open_study(config, "s", tmp_path), config).params["x"])
    assert len(set(drawn)) == 3


def test_a_large_grid_is_enqueued_once_and_in_linear_time(tmp_path, monkeypatch):
    space = {"x": {"int": [0, 59]}, "c": {"choice": [1, True, "1", 1.5, [2]]}}
    points = [{"x": 7, "c": True}, {"x": 7}, {"x": 7, "c": True}]
    overrides = {"space": space, "sampler": "grid", "points": points, "trials": 1000}
    config = load(SearchConfig, base=BASE | overrides)
    compared, looks, every = [], [], optuna.Study.get_trials
    monkeypatch.setattr(
        optuna.Study, "get_trials", lambda *a, **k: looks.append(1) or every(*a, **k)
    )
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
    assert len(looks) < 20, "all trials are looked at once a point"
    assert config.most_trials == 1 + 60 * 5


@pytest.mark.parametrize("sampler", ["tpe", "gp", "nsga2", "random"])
def test_every_sampler_draws_from_the_space(tmp_path, sampler):
    config = search(sampler=sampler)
    study = open_study(config, "s", tmp_path)
    for number in range(5):
        record = ask(study, config)
        assert 0 <= record.params["x"] <= 1
        tell_outcome(study, ended(record, number / 10))
