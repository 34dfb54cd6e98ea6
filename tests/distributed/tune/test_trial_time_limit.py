"""A hanging call ends its process and leaves its stack."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from road_ray.distributed.tune.trial_time_limit import HUNG, with_time_limit

CODE = """
import time
from pathlib import Path
from road_ray.distributed.tune.trial_time_limit import with_time_limit
with with_time_limit(0.2, Path({path!r})):
    time.sleep(100)
"""


@pytest.mark.slow
def test_a_hanging_call_ends_the_process_and_says_where_it_stood(tmp_path):
    path = tmp_path / "deep" / HUNG
    code = CODE.format(path=str(path))
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, check=False, timeout=120)
    assert done.returncode == 1
    assert "line 6" in path.read_text()


def test_what_ends_in_time_leaves_nothing(tmp_path):
    with with_time_limit(60.0, tmp_path / HUNG):
        pass
    with with_time_limit(None, tmp_path / HUNG):
        pass
    assert list(tmp_path.iterdir()) == []
