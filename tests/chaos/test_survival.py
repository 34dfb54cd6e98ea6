"""Kills in the midst of a training of two workers; its weights are those of a quiet run, bit for
bit.
"""

import os
import subprocess
import sys
import time
import uuid
from functools import partial

import psutil
import pytest
from torch.testing import assert_close

import road_ray as rr
from road_ray.errors import InterruptedRunError
from tests.chaos.runs import NOISE, InThread, killed, quiet, rows_of, stopped, trained, weights
from tests.cluster import alive, own_cluster, processes_with, until

pytestmark = [pytest.mark.ray, pytest.mark.chaos, pytest.mark.timeout(2400)]


@pytest.fixture(scope="module", autouse=True)
def cluster():
    with own_cluster(3, include_dashboard=False) as ray:
        yield ray


@pytest.fixture(scope="module")
def settings(pretraining):
    paces = {"training.steps": 24, "training.save_every_steps": 4, "training.log_every_steps": 1}
    return pretraining | paces | {"data.batch_size": 8}


@pytest.fixture(scope="module")
def calm(settings, tmp_path_factory):
    return trained(settings, tmp_path_factory.mktemp("runs") / "calm", quiet)


@pytest.mark.parametrize("rank", [1, 0])
def test_a_killed_worker_costs_time_and_changes_nothing(
    settings, calm, tmp_path, rank, record_property
):
    run = tmp_path / "run"
    training = InThread(run, lambda: trained(settings, run, partial(killed, rank)))
    training.to_the_end()
    assert (run / "killed").exists(), "the kill did not fire"
    gap, again = training.watched.gap, training.watched.again
    record_property(f"worker {rank} killed: longest gap between steps", f"{gap:.1f} s")
    record_property(f"worker {rank} killed: steps done again, a checkpoint every 4", str(again))
    assert again <= 8, "more than what was done since the checkpoint before the last"
    ours, theirs = weights(run), weights(calm)
    for name, tensor in theirs.items():
        assert_close(ours[name], tensor, rtol=0, atol=0)
    steps = [row["step"] for row in rows_of(run)]
    assert steps == sorted(set(steps)) == list(range(1, 25))


def test_a_stopped_group_goes_on_alone(settings, calm, tmp_path):
    with pytest.raises(InterruptedRunError):
        trained(settings, tmp_path / "run", stopped)
    assert 9 <= len(rows_of(tmp_path / "run")) < 24
    run = rr.pretrain(overrides=settings | {"run_dir": str(tmp_path / "run")})
    ours, theirs = weights(run.directory), weights(calm)
    for name, tensor in theirs.items():
        assert_close(ours[name], tensor, **NOISE)


def test_a_killed_driver_leaves_no_orphans_and_a_run_to_go_on_with(
    settings, flags, tmp_path, record_property
):
    mark, run = f"ROAD_TEST_MARK={uuid.uuid4().hex}", tmp_path / "run"
    settings = settings | {"training.steps": 1000}  # long enough to be killed in the middle
    calm = trained(settings, tmp_path / "calm", quiet)
    line = [sys.executable, "-m", "road_ray", "pretrain", *flags(settings)]
    line += ["--workers", "2", "--run-dir", str(run)]
    environment = {key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"}
    environment |= [mark.split("=")]
    driver = subprocess.Popen(line, env=environment, stdout=subprocess.DEVNULL)
    until(lambda: len(rows_of(run)) >= 9 or driver.poll() is not None, 900, 0.05)
    # Titles of processes may overwrite their environments, so the mark alone misses some.
    family = {p.pid: p.name() for p in psutil.Process(driver.pid).children(recursive=True)}
    driver.kill()
    driver.wait()

    def left() -> list[str]:
        remaining = {pid: name for pid, name in family.items() if alive(pid)}
        return [
            name for name in {**processes_with(mark), **remaining}.values() if "Agent" not in name
        ]

    assert len(family) > 1, "there was nothing to be orphaned"
    began = time.monotonic()
    until(lambda: not left(), 60, 0.2)
    gone = time.monotonic() - began
    assert left() == []
    # Ray's agents tell the head, which has died with the driver, and give up after its 60 s.
    assert until(lambda: not any(map(alive, family)), 90, 0.2), "agents of Ray are left"
    agents = time.monotonic() - began
    record_property(
        "driver killed: processes left after", f"0 after {gone:.1f} s, Ray's agents {agents:.0f} s"
    )
    assert len(rows_of(run)) < 1000
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, done.stderr
    for name, tensor in weights(calm).items():
        assert_close(weights(run)[name], tensor, rtol=0, atol=0)
