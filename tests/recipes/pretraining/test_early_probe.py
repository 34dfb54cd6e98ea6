"""A probe tells what a fine-tuning of the same weights tells, and leaves the training alone."""

from __future__ import annotations

import os
import signal

import pytest

import road_ray as rr
from road_ray.errors import ConfigError, DataError, InterruptedRunError
from road_ray.objectives.supervised import Supervised
from road_ray.training.monitoring.metrics_journal import read_rows
from tests.runs import weights

PROBE = {"data.evaluate_on": ["sst2"], "training.evaluate_every_steps": 2}
ACCURACY = "eval/sst2/accuracy"


@pytest.fixture(scope="module", autouse=True)
def short():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("road_ray.recipes.pretraining.pretrain._STEPS", 3)
        yield


@pytest.fixture(scope="module")
def probed(pretraining, tmp_path_factory):
    directory = tmp_path_factory.mktemp("probed") / "run"
    return rr.pretrain(overrides=pretraining | PROBE, run_dir=directory)


def test_the_figures_are_those_of_a_fine_tuning(probed, world, tmp_path):
    keys = {"data.root": world, "data.max_length_tokens": 64, "training.steps": 3}
    tuned = rr.finetune(init=probed.directory, run_dir=tmp_path, overrides=keys)
    assert probed.metrics[ACCURACY] == tuned.metrics[ACCURACY]


def test_it_is_told_in_every_due_row_and_at_the_end(probed):
    rows = read_rows(probed.directory / "metrics.jsonl")
    assert [row["step"] for row in rows if ACCURACY in row] == [2, 4, 6]


def test_missing_data_is_named_before_the_training(pretraining, world, tmp_path):
    missing = {"data.evaluate_on": ["sst2", "snli"]}
    message = rf"no files of snli \(train\), snli \(dev\) below {world}"
    with pytest.raises(DataError, match=message) as error:
        rr.pretrain(overrides=pretraining | missing, run_dir=tmp_path / "run")
    assert "data.root" in str(error.value)


def test_the_training_is_the_same_and_nothing_is_left(probed, pretrained, pretraining, tmp_path):
    assert weights(probed) == weights(pretrained)
    assert weights(rr.pretrain(overrides=pretraining, seed=1, run_dir=tmp_path)) != weights(probed)
    assert not list(probed.directory.glob(".probe-*"))


def test_a_stop_during_a_probe_stops_the_training_which_goes_on(
    pretraining, pretrained, tmp_path, monkeypatch
):
    forward, calls = Supervised.forward, iter(range(100))

    def interrupted(self, batch):
        if next(calls) == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return forward(self, batch)

    overrides = pretraining | PROBE
    with monkeypatch.context() as patch:
        patch.setattr(Supervised, "forward", interrupted)
        with pytest.raises(InterruptedRunError, match="stopped after step 2 of 6"):
            rr.pretrain(overrides=overrides, run_dir=tmp_path)
    run = rr.pretrain(overrides=overrides, run_dir=tmp_path)
    assert weights(run) == weights(pretrained)
    assert not list(tmp_path.glob(".probe-*"))


def test_evaluating_nothing_is_refused(pretraining, tmp_path):
    with pytest.raises(ConfigError, match=r"data\.evaluate_on"):
        rr.pretrain(overrides=pretraining | {"training.evaluate_every_steps": 2}, run_dir=tmp_path)
