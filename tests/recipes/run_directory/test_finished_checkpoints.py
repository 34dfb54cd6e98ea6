"""Checkpoints after the end of a run: removed unless something needs them, and never missed
silently.
"""

from __future__ import annotations

import json

import pytest

import road_ray as rr
from road_ray.errors import CheckpointError, ConfigError
from road_ray.reporting.records.run_record import read_run
from road_ray.training.monitoring.metrics_journal import read_rows

EARLY = {
    "training.evaluate_every_steps": 2,
    "training.early_stopping.patience": 5,
    "data.max_judged_rows": 20,
}


def test_a_finished_fine_tuning_keeps_its_model_and_no_checkpoint(sentiment, tmp_path):
    saving = sentiment | EARLY | {"training.save_every_steps": 2}
    place = rr.finetune(overrides=saving, run_dir=tmp_path / "run").directory
    assert [path.name for path in (place / "checkpoints").iterdir()] == ["removed.json"]
    assert json.loads((place / "checkpoints" / "removed.json").read_text()) == {"step": 6}
    (row,) = [r for r in read_rows(place / "events.jsonl") if r["kind"] == "checkpoints_removed"]
    model = (place / "hf" / "model.safetensors").stat().st_size
    assert row["bytes"] > 3 * model  # weights, two moments, and the model of two steps
    assert rr.load(place)(["a good film"])
    assert read_run(place).faults == []


def test_the_key_keeps_the_newest(sentiment, tmp_path):
    keys = {"training.save_every_steps": 2, "training.keep_checkpoints": 3}
    kept = sentiment | EARLY | keys | {"training.keep_checkpoints_at_end": 2}
    run = rr.finetune(overrides=kept, run_dir=tmp_path / "run")
    steps = sorted(path.name for path in (run.directory / "checkpoints").glob("step-*"))
    assert steps == ["step-00000004", "step-00000006"]
    assert "checkpoints_removed" in (run.directory / "events.jsonl").read_text()


def test_a_finished_run_whose_figures_are_gone_never_starts_again(sentiment, tmp_path):
    run = rr.finetune(overrides=sentiment, run_dir=tmp_path / "run")
    rows = (run.directory / "metrics.jsonl").read_bytes()
    (run.directory / "metrics.json").unlink()
    with pytest.raises(CheckpointError, match=r"had finished.*\n.*restore") as refused:
        rr.finetune(overrides=sentiment, run_dir=tmp_path / "run")
    assert "training.keep_checkpoints_at_end" in str(refused.value)
    assert (run.directory / "metrics.jsonl").read_bytes() == rows
    with pytest.raises(ConfigError, match="seed: there 0, asked 1"):
        rr.finetune(overrides=sentiment, run_dir=tmp_path / "run", seed=1)
