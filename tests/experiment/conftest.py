"""Comparisons of a second: one layer of 32, two steps, a few rows of the miniature world."""

from __future__ import annotations

import pytest

TINY = {
    "num_seeds": 2,
    "data.batch_size": 8,
    "data.max_length_tokens": 32,
    "data.max_judged_rows": 20,
    "training.steps": 2,
    "training.log_every_steps": 1,
    "optimizer.peak_lr": 1e-2,
    "console": "quiet",
}


@pytest.fixture
def tiny(world, pretrained, tmp_path):
    """``tiny(name, **changes)``: overrides of a comparison in ``tmp_path / "run"``."""

    def overrides(name: str, **changes: object) -> dict[str, object]:
        settings = {"comparison": name, "run_dir": str(tmp_path / "run")}
        settings |= {"init": str(pretrained.directory), "data.root": str(world)}
        return TINY | settings | changes

    return overrides


@pytest.fixture
def small(world, pretraining, tmp_path):
    """Overrides of a comparison of three arms of a second."""
    small = {f"pretrain.{key}": value for key, value in pretraining.items() if key != "console"}
    del small["pretrain.optimizer.warmup_steps"]
    return small | {
        "comparison": "algorithms",
        "run_dir": str(tmp_path / "run"),
        "data.root": str(world),
        "flops": 2e9,
        "num_seeds": 1,
        "targets": {"sst2": {}},
        "training.steps": 1,
        "data.max_judged_rows": 20,
        "console": "quiet",
    }
