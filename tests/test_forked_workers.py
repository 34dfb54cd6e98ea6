"""Workers that are forks give their tasks ids of their own."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import os

from tests.forked_workers import import_ray

import_ray()
import ray

for _ in range(2):
    if os.fork() == 0:
        print(ray.WorkerID.from_random().hex(), flush=True)
        os._exit(0)
    os.wait()
"""


@pytest.mark.slow
def test_two_forks_draw_different_ids():
    one, other = subprocess.check_output([sys.executable, "-c", SCRIPT], text=True).split()
    assert one != other
