"""Trackers: only when installed, offline too, and never with a secret."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from road_ray.errors import ConfigError
from road_ray.training.journal import Journal, read_rows
from road_ray.training.trackers import (
    mlflow_tracker,
    tensorboard_tracker,
    wandb_tracker,
    watched,
    watchers,
)

CHILD = """
import sys
from pathlib import Path
from road_ray.training.journal import Journal
from road_ray.training import trackers
trackers.START_TIMEOUT_SECONDS = float(sys.argv[3])
run_dir, mode = Path(sys.argv[1]), sys.argv[2]
config = {
    "hf_token": "CANARYkey", "nested": [{"password": "CANARYnested"}], "lr": 0.125,
    "note": "see CANARYkey", "url": "https://u:CANARYurl@host", "marker": "harmless-text",
}
tracker = trackers.wandb_tracker("project", "name", config, run_dir, mode)
print("CANARYprinted")
with Journal(run_dir, console="plain", trackers=[tracker]) as journal:
    for step in range(3):
        journal.write(step, {"train/loss": 1.0 / (step + 1)})
"""


def start(run_dir, mode, timeout, **environment):
    pytest.importorskip("wandb")
    root = str(Path(__file__).parents[2])
    own = {"HOME": str(run_dir.parent), "PYTHONPATH": root, "HF_TOKEN": "CANARYenviron"}
    return subprocess.run(
        [sys.executable, "-c", CHILD, str(run_dir), mode, timeout, "--hub.token=CANARYargument"],
        env=os.environ | own | environment,
        cwd=run_dir.parent,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_without_the_package_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ConfigError, match=r"pip install road-ray\[wandb\]"):
        wandb_tracker("project", "name", {}, tmp_path)


def test_an_offline_run_holds_numbers_and_no_secret(tmp_path):
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    done = start(run_dir, "offline", "60", WANDB_API_KEY="CANARY" + "0" * 34)
    assert done.returncode == 0, done.stderr
    files = {path: path.read_bytes() for path in run_dir.rglob("*") if path.is_file()}
    records = [content for path, content in files.items() if path.suffix == ".wandb"]
    assert len(records) == 1
    assert b"harmless-text" in records[0]
    assert b"train/loss" in records[0]
    assert [str(path) for path, content in files.items() if b"CANARY" in content] == []


def test_an_unreachable_server_costs_an_event_and_no_row(tmp_path):
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    key = {"WANDB_API_KEY": "0" * 40, "WANDB_BASE_URL": "http://127.0.0.1:9"}
    done = start(run_dir, "online", "2", **key)
    assert done.returncode == 0, done.stderr
    assert len((run_dir / "metrics.jsonl").read_text().splitlines()) == 3
    (event,) = map(json.loads, (run_dir / "events.jsonl").read_text().splitlines())
    assert event["kind"] == "tracker_failed"


def mlflow_run(uri, run_dir):
    config = {"seed": 3, "optimizer": {"peak_lr": 0.125}, "hub": {"token": "CANARYkey"}}
    tracker = mlflow_tracker(uri, "mine", "first", config, run_dir)
    with Journal(run_dir, console="quiet", trackers=[tracker]) as journal:
        journal.write(1, {"train/loss": 0.5, "train/norm": float("nan")})
        journal.write(2, {"train/loss": 0.25})


def test_mlflow_holds_numbers_and_no_secret_and_resumes_as_one_run(tmp_path):
    client = pytest.importorskip("mlflow.tracking").MlflowClient
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    mlflow_run(uri, tmp_path / "run")
    mlflow_run(uri, tmp_path / "run")
    known = client(tracking_uri=uri)
    experiment = known.get_experiment_by_name("mine").experiment_id
    (run,) = known.search_runs([experiment])
    assert (run.info.run_name, run.info.status) == ("first", "FINISHED")
    assert (run.data.params["seed"], run.data.params["optimizer.peak_lr"]) == ("3", "0.125")
    assert run.data.metrics == {"train/loss": 0.25}
    assert b"CANARY" not in (tmp_path / "mlflow.db").read_bytes()


def test_an_mlflow_that_is_not_there_costs_an_event_and_no_row(tmp_path, monkeypatch):
    pytest.importorskip("mlflow")
    monkeypatch.setattr("road_ray.training.trackers.START_TIMEOUT_SECONDS", 1.0)
    mlflow_run("http://127.0.0.1:9", tmp_path / "run")
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 2
    assert "tracker_failed" in (tmp_path / "run" / "events.jsonl").read_text()


def test_without_mlflow_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow.entities", None)
    with pytest.raises(ConfigError, match=r"pip install road-ray\[mlflow\]"):
        mlflow_tracker("sqlite://", "mine", "first", {}, tmp_path)


def test_who_watches_the_thread_sees_every_row(tmp_path):
    seen = []
    with watched(lambda step, total, row: seen.append((step, total, row["a"]))):
        trackers = watchers(9)
    assert watchers(9) == []
    with Journal(tmp_path, console="quiet", trackers=trackers) as journal:
        journal.write(2, {"a": 0.5})
    assert seen == [(2, 9, 0.5)]


def test_a_watcher_may_end_the_run(tmp_path):
    def stop(step, total, row):
        raise SystemExit(0)

    with (
        watched(stop),
        pytest.raises(SystemExit),
        Journal(tmp_path, console="quiet", trackers=watchers(9)) as journal,
    ):
        journal.write(2, {"a": 0.5})
    assert len(read_rows(tmp_path / "metrics.jsonl")) == 1


def test_tensorboard_has_every_row(tmp_path):
    with Journal(tmp_path, console="quiet", trackers=[tensorboard_tracker(tmp_path)]) as journal:
        journal.write(2, {"train/a": 0.5})
    [path] = (tmp_path / "tensorboard").iterdir()
    assert b"train/a" in path.read_bytes()
    assert not (tmp_path / "events.jsonl").exists()
