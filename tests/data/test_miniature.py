"""The miniature world: published layouts, true positions, honest labels, some difficulty."""

import hashlib
import json
import os
import subprocess
import sys
import time

import pytest

from road_ray.data import miniature
from tools.miniature import write


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROAD_CACHE", str(tmp_path_factory.mktemp("cache")))
        return miniature.cached()


def digests(root):
    """SHA-256 of each file; of a parquet file's table, as pyarrow versions differ in bytes."""
    import pyarrow.parquet as pq

    digests = {}
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        content = path.read_bytes()
        if path.suffix == ".parquet":
            content = json.dumps(pq.read_table(path).to_pydict()).encode()
        digests[str(path.relative_to(root))] = hashlib.sha256(content).hexdigest()
    return digests


@pytest.mark.slow
@pytest.mark.guide  # 6 s
def test_the_archive_is_what_the_generator_writes(whole, tmp_path):
    assert digests(whole) == digests(write(tmp_path / "world"))


def test_a_killed_first_use_leaves_nothing_half_written(whole, tmp_path):
    """Three processes begin at once, one is killed while it unpacks: readers see all or nothing."""
    code = "from road_ray.data import miniature; print(miniature.cached())"
    options = {"env": os.environ | {"ROAD_CACHE": str(tmp_path)}, "stdout": subprocess.PIPE}
    racing = [subprocess.Popen([sys.executable, "-c", code], **options) for _ in range(3)]
    place = tmp_path / whole.name
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob(".*/*")) and not place.exists() and time.monotonic() < deadline:
        time.sleep(0.002)
    racing[0].kill()
    while not place.exists() and time.monotonic() < deadline:
        time.sleep(0.002)
    at_first_sight = digests(place)
    for process in racing:
        process.communicate()
    assert [process.returncode for process in racing[1:]] == [0, 0]
    assert at_first_sight == digests(place) == digests(whole)
