"""Teachers that all trials of a sweep share are asked by its driver, once."""

from __future__ import annotations

from pathlib import Path

import pytest

from road_ray.config import load
from road_ray.recipes.sweep.config import SweepConfig
from road_ray.recipes.sweep.sweep import taught_alike, teachers_of_trials
from road_ray.recipes.sweep.trials import TrialRunner
from road_ray.recipes.train import teachers as module

SPACE = {"weighting.wrong": {"uniform": [0.1, 0.9]}}


@pytest.fixture
def sweep(sentiment, teachers, tmp_path):
    """``sweep(space, **overrides)``: a sweep of students of three teachers."""

    def make(space=SPACE, **overrides):
        chosen = sentiment | {"training.steps": 2, "data.max_judged_rows": 16}
        chosen |= {"distillation.teachers": [str(teachers.directory / "teachers.json")]}
        base = {"verb": "distill", "overrides": chosen | overrides, "space": space}
        base |= {"metric": "eval/sst2/accuracy", "run_dir": str(tmp_path / "sweep"), "name": "s"}
        return load(SweepConfig, base=base)

    return make


@pytest.mark.parametrize(
    ("space", "overrides"),
    [
        ({"data.max_length_tokens": {"int": [8, 32]}}, {}),
        ({"init": {"choice": ["a", "b"]}}, {}),
        ({"distillation.precision": {"choice": ["fp32", "bf16"]}}, {}),
        (SPACE, {"distillation.answers": "live", "distillation.host": "process"}),
    ],
)
def test_trials_that_differ_in_teachers_or_rows_have_their_own(sweep, space, overrides):
    assert taught_alike(sweep(space, **overrides)) is None


def test_the_driver_labels_once_and_no_trial_starts_a_teacher(sweep, loaded, tmp_path):
    config = sweep(**{"distillation.host": "process"})
    with teachers_of_trials(config) as pool:
        assert pool is None
    assert loaded == [3]
    trial = TrialRunner(config)
    for number, wrong in enumerate((0.3, 0.6)):
        place = tmp_path / f"sweep/s/trials/000{number}"
        assert trial(place, {"weighting.wrong": wrong}, lambda report: None).figures
    assert loaded == [3]
    assert len(list(Path(config.directory, "store").glob("*/table-*"))) == 3


@pytest.mark.ray
@pytest.mark.usefixtures("cluster")
def test_the_driver_starts_live_teachers_once_and_hands_them_to_the_trials(
    sweep, tmp_path, monkeypatch
):
    config = sweep(
        **{
            "distillation.answers": "live",
            "distillation.host": "actors",
            "distillation.resources.CPU": 0.3,
        }
    )
    with teachers_of_trials(config) as pool:
        assert len(pool.directories) == 3

        def refused(*_, **__):
            raise AssertionError("the trial starts teachers of its own")

        monkeypatch.setattr(module.Teachers, "start_pool", refused)
        trial = TrialRunner(config, [pool])
        for number in range(2):
            place = tmp_path / f"sweep/s/trials/000{number}"
            assert trial(place, {"weighting.wrong": 0.3}, lambda report: None).figures
