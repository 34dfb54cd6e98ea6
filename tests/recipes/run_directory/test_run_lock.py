"""One process at a time trains in a run directory."""

from __future__ import annotations

import os

import pytest

from road_ray.errors import ResourceError
from road_ray.recipes.run_directory.run import lock_run_directory


def test_a_second_process_is_refused_until_the_lock_is_closed(tmp_path):
    with lock_run_directory(tmp_path / "run"):
        with pytest.raises(ResourceError) as refused:
            lock_run_directory(tmp_path / "run")
        assert refused.value.exit_code == 4
        assert f"in use by process {os.getpid()} on " in str(refused.value)
    lock_run_directory(tmp_path / "run").close()


def test_a_file_in_its_place_is_named(tmp_path):
    (tmp_path / "run").write_text("a file")
    with pytest.raises(ResourceError, match=r"run_dir = .*run: cannot be written"):
        lock_run_directory(tmp_path / "run")
