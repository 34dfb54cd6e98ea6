"""Retention keeps the models of the best trials and all other files."""

from __future__ import annotations

import pytest

from road_ray.config import load
from road_ray.distributed.tune.trial_record import Record, trial_directory
from road_ray.recipes.sweep.config import SweepConfig
from road_ray.recipes.sweep.retention import model_of, remove_models

BASE = {"verb": "finetune", "metric": "m", "space": {"x": {"uniform": [0, 1]}}}
STATES = {
    0: ("complete", (0.5,)),
    1: ("complete", (0.75,)),
    2: ("pruned", (0.9,)),
    3: ("failed", ()),
    4: ("running", ()),
}


@pytest.fixture
def trials(tmp_path):
    """One trial a state, each with two runs that left everything behind."""
    records = [Record(number, {}, *state) for number, state in STATES.items()]
    for trial in records:
        for run in ("seed-0/pretrain", "seed-0/finetune"):
            for name in ("checkpoints/step-00000001/model", "hf/model", "metrics.jsonl"):
                path = trial_directory(tmp_path, trial.number) / run / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
    return records


def left(directory, name):
    return {int(path.parts[-4]) for path in directory.glob(f"trials/*/seed-0/*/{name}")}


def test_models_of_the_best_and_of_what_runs_stay(trials, tmp_path):
    config = load(SweepConfig, base=BASE | {"keep": "best"})
    remaining = remove_models(tmp_path, trials, config)
    assert [trial.number for trial in remaining] == [1, 4]
    assert left(tmp_path, "hf") == left(tmp_path, "checkpoints") == {1, 4}
    assert left(tmp_path, "metrics.jsonl") == set(STATES)
    remove_models(tmp_path, [*trials[:4], Record(4, {}, "complete", (0.8,))], config)
    assert left(tmp_path, "hf") == {4}


def test_all_stay_unless_asked_for(trials, tmp_path):
    remove_models(tmp_path, trials, load(SweepConfig, base=BASE))
    assert left(tmp_path, "hf") == set(STATES)


def test_the_whole_front_stays(trials, tmp_path):
    several = {"metric": ["m", "n"], "mode": ["max", "min"], "sampler": "tpe"}
    several |= {"scheduler": "none", "keep": "best"}
    front = [Record(n, {}, "complete", (float(n), float(n))) for n in (0, 1, 2)]
    worse = Record(3, {}, "complete", (0.0, 9.0))
    remove_models(tmp_path, [*front, worse], load(SweepConfig, base=BASE | several))
    assert left(tmp_path, "hf") == {0, 1, 2, 4}


def test_the_model_is_that_of_the_last_run(tmp_path):
    first = load(SweepConfig, base=BASE)
    assert model_of(tmp_path, Record(7, {}), first) == tmp_path / "trials/0007/seed-0"
    two = load(SweepConfig, base=BASE | {"verb": "pretrain", "then": {"verb": "distill"}})
    assert model_of(tmp_path, Record(7, {}), two) == tmp_path / "trials/0007/seed-0/distill"
