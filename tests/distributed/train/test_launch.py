"""A recipe gives the same here and in Ray workers; errors keep their class, dead workers return."""

import os
import re
import signal
import socket
import threading
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
import ray
import torch

from road_ray.data.load_split import resolve_root
from road_ray.distributed import connection, parallel_runs
from road_ray.distributed import room as room_module
from road_ray.distributed.connection import connected
from road_ray.distributed.parallel_runs import run_all
from road_ray.distributed.room import SCALE_UP_VARIABLE, room
from road_ray.errors import (
    ClusterError,
    ConfigError,
    DataError,
    DivergedError,
    InterruptedRunError,
    RoadError,
)
from road_ray.recipes.config import RunConfig
from road_ray.recipes.run_directory.run import launch
from road_ray.training.monitoring.metrics_journal import Journal
from road_ray.training.monitoring.trackers import Tracker
from road_ray.training.run_context import RunContext, StopRequest
from road_ray.training.worker import Worker
from tests.cluster import until

HEALTH = "RAY_TRAIN_WORKER_HEALTH_CHECK_TIMEOUT_S"
WARNS = "RAY_TRAIN_COLLECTIVE_WARN_INTERVAL_S"  # one that the cluster's processes do not have
PARALLEL = SimpleNamespace(max_concurrent=4, address=None, gpus_per_worker=0.0)


def named(*configs):
    return {f"run {number}": config for number, config in enumerate(configs)}


def report(config, worker, context, *extra):
    """What a worker sees."""
    return {"rank": worker.rank, "size": worker.size, "extra": sum(extra)}


class Slow:
    """Answers late."""

    def answer(self):
        time.sleep(0.4)


def wait_for(slow, context):
    """Ask twice; when it began and ended."""
    start = time.time()
    for _ in range(2):
        ray.get(slow.answer.remote(), timeout=60)
    return start, time.time()


def fall_once(number, config, worker, context):
    """Rank 1 sends itself a signal the first time; afterwards the group adds up its ranks."""
    config.run_dir.with_name(f"started-{worker.rank}-{os.getpid()}").touch()
    if worker.rank == 1 and len([*config.run_dir.parent.glob("started-1-*")]) == 1:
        config.run_dir.with_name("fallen").write_text(str(os.getpid()))
        os.kill(os.getpid(), number)
    return {"sum": float(worker.total(torch.tensor(float(worker.rank + 1))))}


def fail_alone(config, worker, context):
    """Rank 1 raises an error of ours while rank 0 waits for it; both have started by then."""
    config.run_dir.with_name(f"started-{worker.rank}-{os.getpid()}").touch()
    worker.barrier()
    if worker.rank == 1:
        raise DivergedError("step 7: loss nan\n  kept: step 6")
    worker.barrier()
    return {}


def wait_for_a_stop(config, worker=None, context=None):
    """A loop without end."""
    worker = worker or Worker.alone()
    with StopRequest(context) as stop:
        for step in range(10_000):
            time.sleep(0.05)
            (config.run_dir / "ready").touch()
            if stop.after_step(step, worker)[0]:
                raise InterruptedRunError(f"stopped after step {step}")
    return {}


@contextmanager
def signalled_when(ready, number):
    """This process gets the signal once there is a file."""

    def send():
        until(ready.exists, 120)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=send)
    thread.start()
    yield
    thread.join()


def report_place(config, worker, context, *extra):
    """What a worker sees of its place; each writes rows, of which the main one tells."""
    told = {"rows": lambda: Tracker(lambda step, row: context.on_row(step, 3, row))}
    how = {"console": "quiet", "enabled": worker.rank == 0, "trackers": told}
    with Journal(Path("rows", str(worker.rank)), **how) as journal:
        for step in (1, 2, 3):
            journal.write(step, {"m": step / 2})
    figures = {"here": float(Path("here.txt").is_file()), "threads": float(torch.get_num_threads())}
    group = torch.distributed.group.WORLD._get_backend(torch.device("cpu"))
    figures["timeout"] = group.options._timeout.total_seconds()
    figures["root"] = resolve_root(None)
    figures["seconds"] = float(os.environ.get(WARNS, "0"))
    return report(config, worker, context, *extra) | figures


def test_more_workers_than_cores_are_refused_before_anything_starts(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    connection.check_machine(2, None)
    connection.check_machine(8, "10.0.0.1:6379")
    with pytest.raises(ClusterError, match=r"(?s)workers = 8 do not fit.*CPU +8 +2"):
        connection.check_machine(8, None)
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    connection.check_machine(8, None)


def test_an_address_where_nobody_listens_is_told_at_once(monkeypatch):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(connection, "require_token", lambda create: None)
    with socket.socket() as taken:  # bound, not listening: no other program can answer
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with (
            pytest.raises(ClusterError, match=rf"{address}: .*does not answer as Ray does"),
            connected(address),
        ):
            pass


def test_several_workers_on_one_gpu_are_refused_before_a_cluster_starts():
    with pytest.raises(ConfigError, match=r"gpus_per_worker = 0.5(?s:.)*NCCL(?s:.)*fix"):
        launch(report, RunConfig(workers=2, gpus_per_worker=0.5))


@pytest.mark.ray
@pytest.mark.usefixtures("cluster")
class TestCluster:
    """On the cores of a cluster of our own."""

    def test_two_workers_see_each_other_and_rank_0_answers_and_its_rows_reach_the_driver(
        self, tmp_path, monkeypatch
    ):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv(WARNS, "77")
        monkeypatch.setenv("ROAD_DATA", str(tmp_path))
        Path("here.txt").touch()
        before = signal.getsignal(signal.SIGINT)
        (tmp_path / "scratch" / ".ray" / "fit-of-a-killed-driver").mkdir(parents=True)
        rows = []
        context = RunContext(on_row=lambda *row: rows.append(row))
        result = launch(
            report_place, RunConfig(workers=2, run_dir=Path("scratch")), 1, 2, context=context
        )
        assert signal.getsignal(signal.SIGINT) == before
        seen = {"rank": 0, "size": 2, "extra": 3, "root": tmp_path}
        figures = {"here": 1.0, "threads": 1.0, "seconds": 77.0, "timeout": 1800.0}
        assert result == seen | figures, "relative paths mean the same there"
        assert list(Path("scratch").iterdir()) == [], "Ray's own record of a run stayed"
        assert rows == [(step, 3, {"m": step / 2}) for step in (1, 2, 3)]

    def test_our_error_on_one_worker_comes_out_as_it_is_and_starts_no_group_again(self, tmp_path):
        with pytest.raises(DivergedError) as raised:
            launch(fail_alone, RunConfig(workers=2, run_dir=tmp_path / "run"))
        assert str(raised.value) == "step 7: loss nan\n  kept: step 6"
        assert raised.value.exit_code == 5
        assert len(list(tmp_path.glob("started-*"))) == 2
        assert list((tmp_path / "run").iterdir()) == []

    @pytest.mark.parametrize(
        "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.chaos)]
    )
    def test_a_signal_to_the_driver_reaches_the_loops_of_all_workers(self, tmp_path, number):
        before = signal.getsignal(signal.SIGTERM)
        with (
            signalled_when(tmp_path / "ready", number),
            pytest.raises(InterruptedRunError, match="stopped after step"),
        ):
            launch(wait_for_a_stop, RunConfig(workers=2, run_dir=tmp_path))
        assert signal.getsignal(signal.SIGTERM) is before

    def test_a_signal_stops_runs_side_by_side_also_those_not_begun(self, tmp_path):
        with (
            signalled_when(tmp_path / "ready", signal.SIGTERM),
            pytest.raises(InterruptedRunError),
        ):
            run_all(wait_for_a_stop, named(*[RunConfig(run_dir=tmp_path)] * 5), PARALLEL)

    @pytest.mark.chaos
    def test_a_worker_that_hangs_is_named_and_ended(
        self, tmp_path, caplog, monkeypatch, record_property
    ):
        monkeypatch.setenv(HEALTH, "5")
        hang = partial(fall_once, signal.SIGSTOP)
        result = launch(hang, RunConfig(workers=2, run_dir=tmp_path / "run"))
        assert result == {"sum": 3.0}
        assert len(list(tmp_path.glob("started-1-*"))) == 2, "rank 1 did not hang once"
        assert not Path("/proc", (tmp_path / "fallen").read_text()).exists(), "what hung lives on"
        assert "worker 1 failed" in caplog.text
        message = f"5 s here; {connection._READ_AT_IMPORT[HEALTH]} s unless told"
        record_property("worker stopped (SIGSTOP): noticed after", message)

    @pytest.mark.chaos
    def test_a_worker_that_dies_is_told_and_replaced_with_its_group(self, tmp_path, caplog):
        die = partial(fall_once, signal.SIGKILL)  # as the kernel does when memory runs out
        assert launch(die, RunConfig(workers=2, run_dir=tmp_path / "run")) == {"sum": 3.0}
        assert len(list(tmp_path.glob("started-1-*"))) == 2, "rank 1 did not die once"
        assert re.search("worker 1 failed at .*\n  was it for memory?", caplog.text)

    def test_more_workers_than_room_is_said_at_once(self, tmp_path):
        with pytest.raises(ClusterError, match=r"room for \d of 9 workers"):
            launch(report, RunConfig(workers=9, run_dir=tmp_path))

    def test_room_that_others_hold_is_not_waited_for_in_vain(self, monkeypatch):
        holder = ray.remote(num_cpus=2)(Slow).remote()
        ray.get(holder.answer.remote(), timeout=60)
        monkeypatch.setattr(room_module, "_BUSY_SECONDS", 1.0)
        with pytest.raises(ClusterError, match=r"room for 3 of 3 workers.*; free: CPU 2 of 4"):
            room("workers", 3, {"CPU": 1.0}, free=True)
        # A cluster that adds machines is asked for them, and waited for.
        monkeypatch.setenv(SCALE_UP_VARIABLE, "60")
        threading.Timer(1.0, ray.kill, [holder]).start()
        room("workers", 3, {"CPU": 1.0}, free=True)

    def test_runs_that_wait_for_answers_keep_their_processors(self, cluster):
        slow = cluster.remote(num_cpus=0)(Slow).remote()
        cpus = int(cluster.cluster_resources()["CPU"])
        spans = run_all(wait_for, named(*[slow] * (cpus + 1)), PARALLEL).values()
        begun = sorted(start for start, _ in spans)
        assert begun[-1] >= min(end for _, end in spans), "one more ran than there are processors"

    def test_a_run_that_fails_or_dies_is_raised_or_leaves_the_results_of_the_others(
        self, monkeypatch
    ):
        def one(config, context):
            if config == 2:
                raise DataError("row 2")
            if config == 3:
                os._exit(1)
            if config == "stop":
                raise InterruptedRunError("stopped")
            return config

        after = {"run 3": ["run 0"], "run 4": ["run 1"], "run 5": ["run 2"], "run 6": ["run 4"]}
        found = run_all(one, named(*range(1, 8)), PARALLEL, after=after, return_errors=True)
        assert [*found] == [f"run {number}" for number in range(7)]
        runs = [*found.values()]
        assert (runs[0], runs[3]) == (1, 4)
        assert isinstance(runs[1], DataError)
        assert isinstance(runs[2], ClusterError)
        assert "the process of a run died" in str(runs[2])
        assert [str(runs[number]) for number in (4, 6)] == ["run 1 failed: row 2"] * 2
        assert str(runs[5]).startswith("run 2 failed: the process of a run died")
        with pytest.raises(InterruptedRunError):
            run_all(one, named(1, "stop"), PARALLEL, return_errors=True)
        # None that has ended may be cancelled: Ray 2.60 aborts a driver that does so too early.
        monkeypatch.setattr("ray.cancel", lambda *_, **__: pytest.fail("cancelled"))
        with pytest.raises(DataError, match="row 2"):
            run_all(one, named(1, 2, 4), PARALLEL)

    def test_an_exception_of_any_kind_costs_no_other_result_and_is_told_at_once(
        self, tmp_path, monkeypatch
    ):
        """The second run ends only when the driver has told the error of the first."""
        told = tmp_path / "told"

        def tell(words, *about):
            if "TypeError" in words % about:
                told.touch()

        def one(config, context):
            if config == 1:
                raise TypeError("no such thing")
            if config == 3:  # Ray cannot make it again here
                raise httpx.HTTPStatusError("status 500", request=None, response=None)
            return until(told.exists, 60)

        monkeypatch.setattr(parallel_runs._log, "error", tell)
        runs = [*run_all(one, named(1, 2, 3), PARALLEL, return_errors=True).values()]
        assert runs[1] is True
        assert type(runs[0]) is RoadError
        assert str(runs[0]) == "TypeError: no such thing"
        assert (type(runs[2]), str(runs[2])) == (RoadError, "httpx.HTTPStatusError: status 500")
