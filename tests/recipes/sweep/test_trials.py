"""The runs of a trial have the sampled values; a trial reports the mean over seeds. Teachers that
all trials share are asked by the driver, once.
"""

import math
import shutil
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from road_ray.config import load
from road_ray.distributed.tune.one_trial import SPENT, Record, spent
from road_ray.errors import ConfigError
from road_ray.recipes.sweep.config import SweepConfig
from road_ray.recipes.sweep.sweep import taught_alike, teachers_of_trials
from road_ray.recipes.sweep.trials import TrialRunner, runs_of
from road_ray.recipes.train import teachers as module
from road_ray.reporting.records.run_record import read_run

METRIC = "eval/sst2/accuracy"
SPACE = {"optimizer.peak_lr": {"loguniform": [1e-4, 1e-2]}}
RATE = {"optimizer.peak_lr": 1e-3}
WEIGHTS = {"weighting.wrong": {"uniform": [0.1, 0.9]}}


def told(metrics, place):
    """A recipe that trains nothing and tells these figures."""
    return lambda *_, **__: SimpleNamespace(metrics=metrics, hf_dir=place, directory=place)


def sweep(overrides, **more):
    base = {"verb": "finetune", "metric": METRIC, "space": SPACE, "name": "s"}
    return load(SweepConfig, base=base, overrides={"overrides": overrides} | more)


def test_seeds_differ_and_their_mean_is_judged(sentiment, tmp_path):
    reports = []
    overrides = sentiment | {"training.evaluate_every_steps": 2, "data.max_judged_rows": 20}
    trial = TrialRunner(sweep(overrides, seeds=2))
    outcome = trial(tmp_path, Record(0, RATE), lambda *report: reports.append(report))
    assert [report[:2] for report in reports] == [(2, 6), (4, 6)]
    assert outcome.values == (outcome.figures[METRIC],)
    assert outcome.deviation[0] is not None
    assert outcome.figures["cost/parameters"] > 1000
    cost, path = outcome.figures["cost/seconds"], tmp_path / "seed-1" / SPENT
    assert 2 * cost > float(path.read_text()) > read_run(path.parent).seconds
    path.write_text("1000.0")  # as if it had been killed after that time, in evaluations
    again = trial(tmp_path, Record(0, RATE), lambda *report: reports.append(report))
    assert spent(tmp_path) == pytest.approx(2 * again.figures["cost/seconds"])
    assert spent(tmp_path) > 1000
    path.write_text("1000.0 3000.0")  # of a version before
    assert spent(tmp_path, "1") == 1000.0
    assert {path.name for path in tmp_path.iterdir()} == {"seed-0", "seed-1"}
    written = (tmp_path / "seed-1" / "config.resolved.yaml").read_text()
    assert "seed: 1" in written
    assert "peak_lr: 0.001" in written


@pytest.mark.parametrize(("value", "expected"), [(50.0, (50.0,)), (None, (math.nan,))])
def test_a_single_seed_has_no_deviation(sentiment, tmp_path, recipe, value, expected):
    recipe(told({METRIC: value}, tmp_path))
    outcome = TrialRunner(sweep(sentiment))(tmp_path, Record(0, RATE), lambda *_: None)
    assert outcome.values == pytest.approx(expected, nan_ok=True)
    assert outcome.deviation == (None,)


def test_a_figure_that_did_not_come_is_told(sentiment, tmp_path, recipe):
    recipe(told({"eval/sst2/f1": 1.0}, tmp_path))
    with pytest.raises(ConfigError, match="eval/sst2/f1"):
        TrialRunner(sweep(sentiment))(tmp_path, Record(0, RATE), lambda *_: None)


@pytest.mark.parametrize("fails", [False, True])
def test_a_run_costs_its_time_also_if_it_fails(tmp_path, recipe, monkeypatch, fails):
    recipe(told({METRIC: 1.0}, tmp_path) if not fails else lambda *_, **__: 1 / 0)
    clock = map(float, range(100))
    # Not of the module `time`, which other threads of this process read as well.
    monkeypatch.setattr(
        "road_ray.recipes.sweep.trials.time", SimpleNamespace(monotonic=clock.__next__)
    )
    trial = TrialRunner(sweep({}))
    (tmp_path / "seed-0").mkdir()
    with pytest.raises(ZeroDivisionError) if fails else nullcontext():
        trial(tmp_path, Record(0, RATE), lambda *_: None)
    assert spent(tmp_path) == 1.0
    shutil.rmtree(tmp_path / "seed-0")
    (tmp_path / "seed-0").write_text("")  # what cannot be written hides no error of the run
    with pytest.raises(ZeroDivisionError) if fails else nullcontext():
        trial(tmp_path, Record(0, RATE), lambda *_: None)


def test_the_second_run_starts_from_the_first_ones_model(tmp_path):
    changes = {"objective.discriminator_weight": 1, "then.data.batch_size": 9}
    space = {key: {"int": [1, 9]} for key in changes}
    then = {"verb": "finetune", "preset": "sst2_small"}
    config = sweep({"seed": 5}, verb="pretrain", preset="tiny_electra", then=then, space=space)
    (first, pretrain), (second, finetune) = runs_of(config, changes, tmp_path, 2)
    assert (first, second) == ("pretrain", "finetune")
    assert pretrain.objective.discriminator_weight == 1
    assert finetune.data.batch_size == 9
    assert pretrain.run_dir == tmp_path / "seed-2" / "pretrain"
    assert finetune.init == str(pretrain.run_dir)
    assert (pretrain.seed, finetune.seed) == (7, 2)
    assert pretrain.console == "quiet"


def test_two_runs_of_one_verb_have_two_directories(tmp_path):
    then = {"verb": "finetune", "overrides": {"data.dataset": "rte"}}
    config = sweep({"data.dataset": "mnli"}, then=then, metric="eval/rte/accuracy")
    (_, first), (_, second) = runs_of(config, RATE, tmp_path, 0)
    assert first.run_dir == tmp_path / "seed-0" / "finetune"
    assert second.run_dir == tmp_path / "seed-0" / "then-finetune"
    assert second.init == str(first.run_dir)


def test_trackers_of_a_sweep_group_its_runs(tmp_path):
    config = sweep({}, tracking={"wandb_project": "p", "tensorboard": True})
    [(_, run)] = runs_of(config, RATE, tmp_path, 0)
    assert (run.tracking.group, run.tracking.tensorboard) == ("s", True)


@pytest.mark.parametrize(
    ("overrides", "store"),
    [
        ({}, Path("sweep/store")),
        ({"distillation.store": "mine"}, Path("mine")),
        ({"distillation.answers": "live"}, None),
    ],
)
def test_trials_share_what_teachers_said(tmp_path, overrides, store):
    config = sweep(overrides, verb="distill", space=WEIGHTS, run_dir="sweep")
    [(_, run)] = runs_of(config, {"weighting.wrong": 0.5}, tmp_path, 0)
    assert run.distillation.store == store


@pytest.fixture
def taught(sentiment, teachers, tmp_path):
    """``taught(space, **overrides)``: a sweep of students of three teachers."""

    def make(space=WEIGHTS, **overrides):
        chosen = sentiment | {"training.steps": 2, "data.max_judged_rows": 16}
        chosen |= {"distillation.teachers": [str(teachers.directory / "teachers.json")]}
        return sweep(chosen | overrides, verb="distill", space=space, run_dir=tmp_path / "sweep")

    return make


@pytest.mark.parametrize(
    ("space", "overrides"),
    [
        ({"data.max_length_tokens": {"int": [8, 32]}}, {}),
        ({"init": {"choice": ["a", "b"]}}, {}),
        ({"distillation.precision": {"choice": ["fp32", "bf16"]}}, {}),
        (WEIGHTS, {"distillation.answers": "live", "distillation.host": "process"}),
    ],
)
def test_trials_that_differ_in_teachers_or_rows_have_their_own(taught, space, overrides):
    assert taught_alike(taught(space, **overrides)) is None


def test_the_driver_labels_once_and_no_trial_starts_a_teacher(taught, loading, tmp_path):
    config = taught(**{"distillation.host": "process"})
    with teachers_of_trials(config) as pool:
        assert pool is None
    loading.assert_called_once()
    trial = TrialRunner(config)
    for number, wrong in enumerate((0.3, 0.6)):
        place = tmp_path / f"sweep/s/trials/000{number}"
        assert trial(place, Record(0, {"weighting.wrong": wrong}), lambda *_: None).figures
    loading.assert_called_once()
    assert len(list(Path(config.directory, "store").glob("*/table-*"))) == 3


@pytest.mark.ray
@pytest.mark.usefixtures("cluster")
def test_the_driver_starts_live_teachers_once_and_hands_them_to_the_trials(
    taught, tmp_path, monkeypatch
):
    live = {"distillation.answers": "live", "distillation.host": "actors"}
    config = taught(**live, **{"distillation.resources.CPU": 0.3})
    with teachers_of_trials(config) as pool:
        assert len(pool.directories) == 3
        own = Mock(side_effect=AssertionError("the trial starts teachers of its own"))
        monkeypatch.setattr(module.Teachers, "start_pool", own)
        trial = TrialRunner(config, pool)
        for number in range(2):
            place = tmp_path / f"sweep/s/trials/000{number}"
            assert trial(place, Record(0, {"weighting.wrong": 0.3}), lambda *_: None).figures
