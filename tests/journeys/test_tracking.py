"""Figures go to Weights & Biases too, offline, and nothing secret goes anywhere."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import road_ray as rr


@pytest.mark.slow
def test_an_offline_run_is_tracked_and_holds_no_secret(sentiment, tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    secret = "0123456789abcdef0123456789abcdef01234567"
    monkeypatch.setenv("WANDB_API_KEY", secret)
    monkeypatch.setenv("HF_TOKEN", f"hf_{secret[:34]}")
    monkeypatch.setenv("WANDB_SILENT", "true")
    settings = {"tracking.wandb_project": "tiny"}
    run = rr.finetune(overrides=sentiment | settings, run_dir=tmp_path / "run")
    files = [path for path in run.directory.rglob("*") if path.is_file()]
    tracked = [path for path in files if path.suffix == ".wandb"]
    assert len(tracked) == 1
    deadline = time.monotonic() + 30  # a process of its own writes the file
    while b"eval/sst2/accuracy" not in tracked[0].read_bytes():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    for path in files:
        assert secret[:34].encode() not in path.read_bytes(), path
    assert not (Path.cwd() / "wandb").exists()


def test_a_tracker_changes_no_weight_and_is_free_on_resume(road, flags, sentiment, tmp_path):
    command = ["finetune", *flags(sentiment), "--run-dir", tmp_path]
    assert road(*command).code == 0
    assert road(*command, "tracking.wandb_project=tiny").code == 0
