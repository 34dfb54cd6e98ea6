"""The best trial is finite and complete; several metrics give the Pareto front."""

from __future__ import annotations

import json

from road_ray.config import load
from road_ray.distributed.tune.trial_record import Record
from road_ray.recipes.sweep.config import SweepConfig
from road_ray.recipes.sweep.result import Sweep, best_of, row_of, write_result


def trial(number, *values, state="complete"):
    return Record(
        number, {"x.y": number}, state, values, figures={"m": values[0]} if values else {}
    )


def test_the_best_is_never_pruned_failed_or_not_finite():
    trials = [trial(0, 0.5), trial(1, 0.9, state="pruned"), trial(2, state="failed")]
    trials += [trial(3, float("inf")), trial(4, float("nan")), trial(5, 0.6), trial(6, 0.6)]
    assert [item.number for item in best_of(trials, ["max"])] == [5]
    assert [item.number for item in best_of(trials, ["min"])] == [0]
    assert best_of(trials[1:3], ["max"]) == []


def test_of_several_figures_the_front_remains():
    trials = [trial(0, 0.9, 10.0), trial(1, 0.8, 5.0), trial(2, 0.7, 6.0), trial(3, 0.9, 10.0)]
    assert [item.number for item in best_of(trials, ["max", "min"])] == [0, 1, 3]


def test_the_result_is_written_with_every_trial(tmp_path):
    base = {"verb": "finetune", "metric": "m", "name": "s", "seeds": 2}
    config = load(SweepConfig, base=base | {"space": {"x.y": {"int": [0, 9]}}})
    sweep = Sweep(tmp_path, config, [trial(0, 0.5), trial(1, state="failed")])
    write_result(sweep)
    written = json.loads((tmp_path / "sweep.json").read_text())
    assert written["best"] == [0]
    assert [item["state"] for item in written["trials"]] == ["complete", "failed"]
    assert json.loads((tmp_path / "metrics.json").read_text()) == {"m": 0.5}
    row = row_of(sweep.trials[1], config)
    assert (row["m"], row["m +-"], row["x.y"]) == (None, None, 1)
