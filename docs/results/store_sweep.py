"""Measure what a store of logits saves in a sweep of eight students.

The sweep varies temperature, W and kd_weight. Three lanes alternate in one process with one thread:
without teachers, with three live teachers, and with three teachers behind one store that is empty
at the start.
Usage: python docs/results/store_sweep.py DATA RUNS OUT [KEY=VALUE ...]   (OUT must not exist)
RUNS has the encoder and the teachers of distillation.sh. KEY=VALUE applies to all lanes, keys of
``distillation`` only to those with teachers.
"""

import sys
import time
from pathlib import Path
from typing import Any

import optuna
import yaml

import road_ray as rr

TRIALS = 8


def main(data: str, runs: Path, out: Path, settings: dict[str, Any]) -> None:
    shared = {
        "init": str(runs / "electra-256"),
        "data.root": data,
        "data.dataset": "sst2",
        "data.max_length_tokens": 64,
        "data.epochs": 1,
        "data.batch_size": 16,
        "data.max_rows": 2000,
        "optimizer.peak_lr": 5e-4,
        "optimizer.layer_decay": 1.0,
        "optimizer.bias_correction": True,
        "console": "quiet",
        "seed": 10,
    }
    distilled = {
        "distillation.teachers": [str(runs / "sst2-8k" / "teachers" / "teachers.json")],
        "distillation.host": "process",
    }
    for key, value in settings.items():
        (distilled if key.startswith("distillation.") else shared)[key] = value
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    seconds: dict[str, list[float]] = {"no KD": [], "live": [], "store": []}
    for number in range(TRIALS):
        trial = study.ask()
        drawn = {
            "distillation.temperature": trial.suggest_float("temperature", 1, 10, log=True),
            "distillation.kd_weight": trial.suggest_float("kd_weight", 0.1, 0.9),
            "weighting.wrong": trial.suggest_float("wrong", 0, 1),
        }
        lanes = {
            "no KD": (rr.finetune, {}),
            "live": (rr.distill, distilled | drawn),
            "store": (rr.distill, distilled | drawn | {"distillation.store": str(out / "store")}),
        }
        for name, (verb, more) in lanes.items():
            began = time.perf_counter()
            verb(overrides=shared | more, run_dir=out / f"{name.replace(' ', '-')}-{number}")
            seconds[name].append(time.perf_counter() - began)
        times = ", ".join(f"{name} {spent[-1]:.1f} s" for name, spent in seconds.items())
        print(f"trial {number}: {times}", flush=True)
    plain, live, stored = (sum(spent) for spent in seconds.values())
    print(f"eight trials: no KD {plain:.0f} s, live {live:.0f} s, store {stored:.0f} s")
    print(f"store against no KD {stored / plain:.2f}x; live against store {live / stored:.2f}x")


if __name__ == "__main__":
    place = Path(sys.argv[3])
    place.mkdir(parents=True)
    given = (setting.split("=", 1) for setting in sys.argv[4:])
    settings = {key: yaml.safe_load(value) for key, value in given}
    main(sys.argv[1], Path(sys.argv[2]), place, settings)
