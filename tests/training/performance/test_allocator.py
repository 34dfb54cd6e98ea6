"""Memory that tensors have left is used again, without a word to the system."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

# In a process of its own: what malloc is told holds for all that comes after.
FAULTS = """
import resource, sys
import torch
from road_ray.training.performance.allocator import keep_freed_memory
if sys.argv[1] == "kept":
    keep_freed_memory()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def step():
    hidden = torch.ones(16 * 2**20)
    return float((hidden + 1).sum())
for _ in range(8):
    step()
before = faults()
for _ in range(8):
    step()
print(faults() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told")
def test_the_next_tensor_takes_the_pages_of_the_last():
    def faults(how):
        told = [sys.executable, "-c", FAULTS, how]
        return int(subprocess.run(told, check=True, capture_output=True, timeout=60).stdout)

    # 64 MiB twice in each of eight steps: 262,144 pages of 4 KiB.
    assert faults("kept") < faults("stock") / 4
