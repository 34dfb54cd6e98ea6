"""A cluster that does not come up is told as such; the surroundings of a driver in its workers."""

from __future__ import annotations

import os
from pathlib import Path

import ray

from road_ray.distributed.connection import driver_environment, start, variables_for_workers


def test_workers_share_variables_of_the_driver_and_keep_those_it_lacks(tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    monkeypatch.setenv("ROAD_DATA", "/data")
    monkeypatch.setenv("ROAD_SCALE_UP_SECONDS", "60")
    monkeypatch.delenv("ROAD_CACHE", raising=False)
    variables = variables_for_workers()
    monkeypatch.delenv("ROAD_DATA")  # the machine of a worker has other ones
    monkeypatch.setenv("ROAD_SCALE_UP_SECONDS", "5")
    monkeypatch.setenv("ROAD_CACHE", "/disk")
    before = dict(os.environ)
    with driver_environment(str(tmp_path), variables):
        assert Path.cwd() == tmp_path
        changed = {"ROAD_DATA": "/data", "ROAD_SCALE_UP_SECONDS": "60"}
        assert dict(os.environ) == before | changed
    assert dict(os.environ) == before, "a process of Ray may go on with a task of another run"


def test_a_directory_that_a_worker_lacks_is_not_entered(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with driver_environment(str(tmp_path / "elsewhere"), {}):
        assert Path.cwd() == tmp_path


def test_a_slow_start_is_tried_again(monkeypatch, caplog):
    outcomes = iter([Exception("timed out"), Exception("timed out"), None])

    def init(**options):
        if (error := next(outcomes)) is not None:
            raise error

    monkeypatch.setattr(ray, "init", init)
    start(1, dashboard=False)
    assert next(outcomes, "none left") == "none left"
    assert caplog.text.count("trying again") == 2
