"""A hundred short runs: memory, files, threads, actors and places on a cluster are given back."""

import gc
import os
import shutil
import tempfile
import threading
from collections import Counter
from pathlib import Path

import pytest

import road_ray as rr
from tests.chaos.runs import quiet, trained
from tests.cluster import new_occupants, own_cluster

ALONE, TOGETHER, FIRST = 90, 10, 20


def resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def held() -> tuple[float, int, int]:
    """Memory in MiB, open files and threads of this process."""
    gc.collect()
    return resident_mib(), len(os.listdir("/proc/self/fd")), threading.active_count()


@pytest.fixture
def cluster():
    with own_cluster(2, include_dashboard=False) as ray:
        yield ray


@pytest.mark.ray
@pytest.mark.chaos
@pytest.mark.timeout(2400)
def test_a_hundred_short_runs_leave_nothing_behind(
    pretraining, tmp_path, cluster, record_property, monkeypatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    memory, files, threads = [], [], []
    for number in range(ALONE):
        rr.pretrain(overrides=pretraining | {"run_dir": str(tmp_path / "run")})
        shutil.rmtree(tmp_path / "run")
        if number >= FIRST:  # libraries load and caches fill in the first ones
            for values, value in zip((memory, files, threads), held(), strict=True):
                values.append(value)
    before = held()
    for _ in range(TOGETHER):
        trained(pretraining, tmp_path / "run", quiet, workers=1)
        shutil.rmtree(tmp_path / "run")
        assert not new_occupants(Counter(), seconds=5)
    after = held()
    growth = memory[-1] - memory[0]
    assert growth < 25, f"{growth:.0f} MiB in {len(memory)} runs"
    assert files[-1] == files[0]
    assert threads[-1] == threads[0]
    assert after[1] - before[1] <= 8, "the cluster's own files are few"
    assert list((tmp_path / "tmp").iterdir()) == []
    record_property("a hundred short runs: growth", f"{growth:.1f} MiB, no file, thread or place")
