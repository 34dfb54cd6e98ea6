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
