"""Exclusive locks on files: named holder, freed when the holder is killed."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from road_ray.system.file_lock import lock_exclusively

HOLDER = """
import sys, time
from road_ray.system.file_lock import lock_exclusively
file = open(sys.argv[1], "a+")
assert lock_exclusively(file) is None
print("held", flush=True)
time.sleep(60)
"""


def test_lock_exclusively_names_the_holder_and_is_free_once_it_is_killed(tmp_path):
    path = tmp_path / "lock"
    command = [sys.executable, "-c", HOLDER, str(path)]
    root = Path(__file__).parents[2]
    with (
        subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as holder,
        path.open("a+", encoding="utf-8") as file,
    ):
        assert holder.stdout.readline() == "held\n"
        assert lock_exclusively(file).startswith(f"process {holder.pid} on ")
        holder.kill()
        holder.wait()
        began = time.monotonic()
        assert lock_exclusively(file) is None
        assert time.monotonic() - began < 1
