"""Distil on SST-2 with two Ray Train workers and three teacher actors, twice.

In the second run one teacher is killed in the middle. The final weights must be equal.

Usage: python docs/results/killed_teacher.py DATA RUNS   (RUNS: of first-light.sh)
"""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import torch
from safetensors.torch import load_file

import road_ray as rr
from road_ray.training.monitoring.metrics_journal import read_rows

DATA, RUNS = sys.argv[1], Path(sys.argv[2])
SETTINGS = {
    "init": str(RUNS / "electra-256"),
    "data.root": DATA,
    "data.dataset": "sst2",
    "data.max_rows": 1600,
    "data.max_judged_rows": 200,
    "training.steps": 50,
    "training.log_every_steps": 5,
    "workers": 2,
    "console": "quiet",
}


def kill_when_halfway(pid: int, run: Path) -> None:
    """Kill the teacher (SIGKILL) once 20 steps are in the journal."""
    while not (run / "metrics.jsonl").is_file() or len(read_rows(run / "metrics.jsonl")) < 4:
        time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    print(f"killed teacher process {pid} at step {read_rows(run / 'metrics.jsonl')[-1]['step']}")


def main() -> None:
    """Run both trainings and compare their weights."""
    teachers = [RUNS / "sst2-8k" / "teachers" / f"teacher-{n}" for n in range(3)]
    weights, seconds = {}, {}
    with rr.Ensemble(teachers, task="sst2", num_cpus=0.0) as ensemble:
        for name in ("undisturbed", "killed"):
            run = RUNS / "sst2-8k" / f"two-workers-{name}"
            pids = ensemble.inner.health()
            if name == "killed":
                threading.Thread(target=kill_when_halfway, args=(pids[1], run), daemon=True).start()
            began = time.perf_counter()
            rr.distill(overrides=SETTINGS | {"run_dir": str(run)}, teachers=ensemble)
            seconds[name] = time.perf_counter() - began
            weights[name] = load_file(run / "hf" / "model.safetensors")
            print(name, "teachers before", pids, "after", ensemble.inner.health())
    equal = all(
        torch.equal(weights["undisturbed"][k], weights["killed"][k]) for k in weights["killed"]
    )
    print(f"final weights equal: {equal}; seconds: {seconds}")
    sys.exit(0 if equal else 1)


if __name__ == "__main__":
    main()
