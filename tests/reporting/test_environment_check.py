"""Checks of ``road check``, and the environment that a run records."""

from __future__ import annotations

import shutil
from collections import namedtuple
from importlib.metadata import PackageNotFoundError

import pytest
import torch

from road_ray.reporting import environment_check
from road_ray.reporting.environment_check import environment, findings, version_of


def states(*given):
    rows, good = findings(*given)
    return {row["what"]: (row["found"], row["state"]) for row in rows}, good


def test_folders_of_the_data_root_are_named(world):
    result, _ = states(None, str(world))
    assert result["data"][1] == "ok"
    assert "glue, newsqa, squad, wikipedia" in result["data"][0]


def test_without_a_root_it_is_the_hub(monkeypatch):
    monkeypatch.delenv("ROAD_DATA", raising=False)
    assert states(None, None)[0]["data"][0].startswith("hub")


@pytest.mark.parametrize(("package", "state"), [("torch", "PROBLEM"), ("wandb", "ok")])
def test_a_missing_package_is_a_problem_unless_optional(monkeypatch, world, package, state):
    real = environment_check.version

    def version(name):
        if name == package:
            raise PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(environment_check, "version", version)
    result, good = states(None, str(world))
    assert result[package] == ("not installed", state)
    assert good is False or state == "ok"


def test_too_little_disk_is_a_problem(monkeypatch, world):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(1, 1, 2**30))
    result, good = states(None, str(world))
    assert result["disk"] == ("1.0 GiB free here", "PROBLEM")
    assert not good
    (row,) = [row for row in findings(None, str(world))[0] if row["what"] == "disk"]
    assert "free space" in row["mend"]


def test_small_shared_memory_is_a_problem(monkeypatch, world):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(64 * 2**20, 1, 2**40))
    rows = {row["what"]: row for row in findings(None, str(world))[0]}
    assert rows["shared memory"]["state"] == "PROBLEM"
    assert "--shm-size" in rows["shared memory"]["mend"]


def test_a_cluster_that_cannot_be_joined_is_a_problem(monkeypatch, world):
    from contextlib import contextmanager

    from road_ray.distributed import connection
    from road_ray.errors import ClusterError

    @contextmanager
    def refused(address):
        raise ClusterError(f"address = {address}: no Ray cluster could be joined\n  fix: start one")
        yield

    monkeypatch.setattr(connection, "connected", refused)
    result, good = states("10.0.0.1:6379", str(world))
    what = "address = 10.0.0.1:6379: no Ray cluster could be joined"
    assert result["cluster"] == (what, "PROBLEM")
    assert not good


def test_the_environment_holds_no_arguments(monkeypatch):
    monkeypatch.setattr("sys.argv", ["/bin/road", "finetune", "tracking.key=secret"])
    assert environment()["command"] == ["road", "finetune"]


def test_versions_are_those_that_run():
    assert environment()["packages"]["torch"].startswith(torch.__version__.split("+")[0])
    assert version_of("no-such-package-of-anyone") == "not installed"
