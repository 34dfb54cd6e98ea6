"""One driver per sweep; a driver waits for trials of an earlier one."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from road_ray.distributed.tune.one_driver_at_a_time import (
    sweep_lock,
    wait_for_trials,
)
from road_ray.errors import ResourceError

TRIAL = """
import sys, time
from pathlib import Path
from road_ray.distributed.tune.one_driver_at_a_time import hold_trial_lock
hold_trial_lock(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(float(sys.argv[2]))
"""


def test_the_second_driver_is_told_who_is_the_first(tmp_path):
    with (
        sweep_lock(tmp_path),
        pytest.raises(ResourceError, match=r"process \d+ on"),
        sweep_lock(tmp_path),
    ):
        pass
    with sweep_lock(tmp_path):
        pass


def test_a_directory_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(ResourceError, match="cannot be written"),
        sweep_lock(tmp_path / "file" / "x"),
    ):
        pass


def test_trials_that_outlive_their_driver_are_waited_for(tmp_path):
    wait_for_trials(tmp_path)
    command = [sys.executable, "-c", TRIAL, str(tmp_path), "60"]
    root = Path(__file__).parents[3]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as trial:
        assert trial.stdout.readline() == "held\n"
        with pytest.raises(ResourceError, match="still run its trials"):
            wait_for_trials(tmp_path, timeout_seconds=0.3)
        trial.kill()
        began = time.monotonic()
        wait_for_trials(tmp_path, timeout_seconds=60.0)
        assert time.monotonic() - began < 60
