"""A worker group: deaths, failures, and the messages between driver and workers."""

import re
from functools import partial
from unittest.mock import Mock

import pytest
import torch
from ray.exceptions import RayActorError
from ray.train import ControllerError, WorkerGroupError

from road_ray.distributed import connection, ray_private
from road_ray.distributed.train import worker_group as module
from road_ray.distributed.train.worker_group import Inbox, Messages, append
from road_ray.errors import ClusterError, DataError
from road_ray.models import precision
from road_ray.models.precision import default_device
from road_ray.training.run_context import RunContext
from tests.cluster import until


def test_workers_that_die_for_ever_are_an_error_of_the_cluster(tmp_path):
    def fit(error):
        raise error

    gone = {0: RuntimeError("Connection closed by peer"), 1: RayActorError()}
    for error in (WorkerGroupError("x", gone), ControllerError(RayActorError()), RayActorError()):
        with pytest.raises(ClusterError, match="the same command resumes"):
            module._supervise(partial(fit, error), Messages(tmp_path), RunContext())
    error = WorkerGroupError("x", {0: ValueError("a mistake in an objective")})
    with pytest.raises(WorkerGroupError):  # its traceback is what helps
        module._supervise(partial(fit, error), Messages(tmp_path), RunContext())


def test_deaths_are_no_end_as_long_as_the_run_gets_further(tmp_path):
    tries, steps = [], iter([10, 20, 30, 30])

    def fit():
        tries.append(1)
        torn = '{"step": 40, "m"'
        (tmp_path / "metrics.jsonl").write_text(f'{{"step": {next(steps)}, "m": 1.0}}\n{torn}')
        raise WorkerGroupError("died", {0: RuntimeError()})

    with pytest.raises(WorkerGroupError):
        module._persistent(fit, tmp_path)
    assert len(tries) == 4


def test_a_worker_that_failed_is_told_with_what_to_do(tmp_path, caplog):
    messages = Messages(tmp_path)
    killed = RayActorError(error_msg="the worker died\nconnection error code 2. End of file\n")
    messages.after_exception(None, {1: killed})
    module._supervise(dict, messages, RunContext())
    assert re.search("worker 1 failed at [0-9:]+: connection .*file\n  was it for", caplog.text)
    assert "training.passes" in caplog.text


OLD = "The NVIDIA driver on your system is too old (found version 11040)."


def test_one_process_uses_the_cpu_and_says_why(monkeypatch, tmp_path, caplog):
    """On a machine with a GPU whose driver is older than torch wants."""
    (tmp_path / "version").write_text("NVRM version: 470")
    monkeypatch.setattr(precision, "_DRIVER", tmp_path / "version")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "init", Mock(side_effect=RuntimeError(f"{OLD} Update\nmore")))
    monkeypatch.delenv("ROAD_DEVICE", raising=False)
    precision._tell_unusable_gpu.cache_clear()
    for _ in range(2):
        assert default_device().type == "cpu"
    assert caplog.text.count(OLD) == 1
    assert "ROAD_DEVICE=cpu" in caplog.text
    caplog.clear()
    monkeypatch.setenv("ROAD_DEVICE", "cpu")
    default_device()
    assert not caplog.text


def test_the_first_failure_counts_and_comes_back_with_its_class_and_text(tmp_path):
    messages = Messages(tmp_path)
    assert messages.failure() is None
    messages.fail(DataError("a.tsv:3\n  fix: it"))
    messages.fail(ClusterError("connection closed by peer"))
    error = messages.failure()
    assert (type(error), str(error)) == (DataError, "a.tsv:3\n  fix: it")
    (tmp_path / "failure.jsonl").write_text('["FromElsewhereError", "x"]\n')
    assert type(messages.failure()) is ClusterError


def test_a_stop_reaches_the_context_of_a_worker_before_and_while_it_runs(tmp_path):
    messages, late, context = Messages(tmp_path), RunContext(), RunContext(preempted=bool)
    with messages.reach(context):
        assert context.check_preemption
        assert not context.stop.is_set()
        messages.stop()
        assert context.stop.wait(10)
    with messages.reach(late):
        assert late.stop.is_set()


def test_rows_are_told_once_in_their_order_and_a_torn_one_is_none(tmp_path):
    inbox, told = Inbox(tmp_path / "rows.jsonl"), []
    assert list(inbox.new()) == []
    for step in range(9):
        append(tmp_path / "rows.jsonl", step, None, {"m": step / 3})
        if step % 3 == 0:
            told += inbox.new()
    with (tmp_path / "rows.jsonl").open("a") as file:
        file.write("[9, 9, {")  # the rest may follow
    told += inbox.new()
    with (tmp_path / "rows.jsonl").open("a") as file:
        file.write("[10, null, {}]\n")  # after the death of the process that wrote it
    append(tmp_path / "rows.jsonl", 11, 12, {})
    told += inbox.new()
    assert told == [[step, None, {"m": step / 3}] for step in range(9)] + [[11, 12, {}]]


def test_a_worker_that_waits_for_a_failed_one_ends(tmp_path, monkeypatch):
    ended = []
    monkeypatch.setattr(module.os, "_exit", ended.append)
    monkeypatch.setattr(module, "_GRACE_SECONDS", 0.1)
    monkeypatch.setattr(module, "_LOOK_SECONDS", 0.05)
    messages = Messages(tmp_path)
    messages.fail(DataError("x"))
    with messages.reach(RunContext()):
        assert until(lambda: ended, 10)
    assert ended[0] == 1


def test_a_collective_that_hangs_ends_the_group(monkeypatch):
    from ray.train.torch import TorchTrainer
    from ray.train.v2._internal.callbacks.nccl_ras import NCCLRASCallback

    for name, value in connection._READ_AT_IMPORT.items():
        monkeypatch.setenv(name, value)
    callbacks = TorchTrainer(print)._create_default_callbacks()
    (detector,) = [one for one in callbacks if isinstance(one, NCCLRASCallback)]
    assert (detector._action, detector._confirm_duration_s) == ("fail", 600)


def test_an_environment_variable_is_handed_on(monkeypatch):
    from ray.train.v2._internal.constants import ENV_VARS_TO_PROPAGATE, get_env_vars_to_propagate

    ray_private.propagate_environment_variable("ROAD_RAY_TEST")
    monkeypatch.setenv("ROAD_RAY_TEST", "1")
    assert get_env_vars_to_propagate()["ROAD_RAY_TEST"] == "1"
    ENV_VARS_TO_PROPAGATE.discard("ROAD_RAY_TEST")
