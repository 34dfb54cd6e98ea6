"""Secrets of the environment and of the command line stand in nothing that a run leaves."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

CANARY = "cAnArY0123456789"
SECRETS = {
    "HF_TOKEN": f"hf_{CANARY}abcdefghijklmnop",
    "WANDB_API_KEY": CANARY + "0" * 24,
    "AWS_SECRET_ACCESS_KEY": f"{CANARY}/aws",
    "MLFLOW_TRACKING_PASSWORD": f"{CANARY}-mlflow",
    "DATABASE_PASSWORD": f"{CANARY}-database",
}


@pytest.fixture
def scratch():
    with tempfile.TemporaryDirectory(prefix="rr", dir="/tmp") as directory:
        yield Path(directory)


def road(scratch, *words):
    """One command in a process of its own, whose Ray lives below ``scratch``."""
    own = {"TMPDIR": str(scratch), "RAY_TMPDIR": str(scratch), "HOME": str(scratch)}
    return subprocess.run(
        [sys.executable, "-m", "road_ray", *map(str, words)],
        env=os.environ | SECRETS | own | {"ROAD_CACHE": str(scratch / "cache")},
        cwd=scratch,
        capture_output=True,
        text=True,
        timeout=400,
    )


def holding(place: Path) -> list[str]:
    """Files below a directory that hold a secret."""
    files = [path for path in place.rglob("*") if path.is_file() and not path.is_socket()]
    return [str(path) for path in files if CANARY.encode() in path.read_bytes()]


@pytest.mark.ray
@pytest.mark.timeout(900)
def test_no_secret_is_in_what_runs_and_reports_leave(
    flags, sentiment, tmp_path, scratch, record_property
):
    trackers = ["tracking.wandb_project=mine"]
    trackers.append(f"tracking.mlflow_uri=sqlite:///{tmp_path}/mlflow.db")
    settings = [*flags(sentiment), *trackers]
    run = tmp_path / "run"
    done = [
        road(scratch, "finetune", *settings, "--run-dir", run, "--workers", "1"),
        road(scratch, "evaluate", f"init={run}", "--run-dir", tmp_path / "judged"),
        road(scratch, "report", run),
    ]
    assert [one.returncode for one in done[::2]] == [0, 0], done[0].stderr + done[2].stderr
    told = [one.stdout + one.stderr for one in done]
    found = holding(tmp_path) + holding(scratch) + [text for text in told if CANARY in text]
    assert list(scratch.rglob("session_*")), "Ray wrote its logs elsewhere"
    assert list(tmp_path.rglob("*.wandb")), "W&B was not asked"
    record_property(
        "secrets found in what runs, jobs and reports leave",
        f"{len(found)}, in runs, reports and the logs of Ray, W&B and MLflow",
    )
    assert found == []


@pytest.mark.parametrize("key", ["tracking.mlflow_uri", "training.mirror"])
def test_an_address_with_a_key_is_refused_without_being_repeated(
    flags, sentiment, tmp_path, scratch, key
):
    address = f"https://me:{CANARY}@host/place"
    done = road(scratch, "finetune", *flags(sentiment), f"{key}={address}", "--run-dir", tmp_path)
    assert done.returncode == 2
    assert "holds a key" in done.stderr
    assert CANARY not in done.stdout + done.stderr
    assert holding(tmp_path) == []
