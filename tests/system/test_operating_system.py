"""Locks and processes; the core without what only Linux has and without Ray: a process in which it
is missing trains, predicts and asks teachers.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from road_ray.errors import ConfigError
from road_ray.models.precision import default_device
from road_ray.system.operating_system import lock_exclusively
from tests.runs import python

ROOT = Path(__file__).parents[2]
PROCESS = """
import json, os, sys
import datasets, sklearn.metrics, torch, transformers.modeling_utils
del os.sched_getaffinity
import road_ray as rr
overrides = json.loads(sys.argv[1])
run = rr.finetune(overrides=overrides)
again = rr.finetune(overrides=overrides)
assert again.metrics == run.metrics
prediction = rr.load(run.directory)("a fine film")
import road_ray.recipes.sweep.sweep
with rr.Ensemble([run.directory], task="sst2", host="process") as ensemble:
    size = ensemble.size
accuracy = run.metrics["eval/sst2/accuracy"]
print(json.dumps([accuracy, prediction, size, "ray" in sys.modules]))
"""

MEMORY = """
import torch
from road_ray.system.operating_system import keep_freed_memory
used = lambda: int(open("/proc/self/statm").read().split()[1]) * 4096 // 2**20
keep_freed_memory()
blocks = [torch.ones(200_000) for _ in range(400)]  # 320 MB
last = blocks.pop()
blocks.clear()
kept = used()
keep_freed_memory()
print(kept - used())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc")
def test_a_run_returns_the_memory_that_the_one_before_it_left():
    assert int(python(MEMORY).stdout) > 250


@pytest.mark.slow
def test_core_trains_and_predicts_without_what_only_linux_has_and_without_ray(sentiment, tmp_path):
    """Ray reads RAY_AUTH_MODE once, at its import: a sweep imports it after it has set that."""
    overrides = sentiment | {"run_dir": str(tmp_path / "run"), "data.max_judged_rows": 16}
    done = python(PROCESS, json.dumps(overrides))
    assert done.returncode == 0, done.stderr
    accuracy, prediction, size, imports_ray = json.loads(done.stdout.splitlines()[-1])
    assert 0 <= accuracy <= 100
    assert prediction["label"] in ("negative", "positive")
    assert (size, imports_ray) == (1, False)


def test_a_device_that_is_not_here_is_refused(monkeypatch):
    monkeypatch.setenv("ROAD_DEVICE", "tpu")
    with pytest.raises(ConfigError, match="allowed: cpu"):
        default_device()


HOLDER = """
import sys, time
from road_ray.system.operating_system import lock_exclusively
file = open(sys.argv[1], "a+")
assert lock_exclusively(file) is None
print("held", flush=True)
time.sleep(60)
"""


def test_lock_exclusively_names_the_holder_and_is_free_once_it_is_killed(tmp_path):
    path = tmp_path / "lock"
    command = [sys.executable, "-c", HOLDER, str(path)]
    with (
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as holder,
        path.open("a+", encoding="utf-8") as file,
    ):
        assert holder.stdout.readline() == "held\n"
        assert lock_exclusively(file).startswith(f"process {holder.pid} on ")
        holder.kill()
        holder.wait()
        began = time.monotonic()
        assert lock_exclusively(file) is None
        assert time.monotonic() - began < 1
