"""Comparisons of a second: one layer of 32, two steps, a few rows of the miniature world."""

import pytest

TINY = {"num_seeds": 2, "optimizer.peak_lr": 1e-2, "console": "quiet"}
TINY |= {"data.batch_size": 8, "data.max_length_tokens": 32, "data.max_judged_rows": 20}
TINY |= {"training.steps": 2, "training.log_every_steps": 1}


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
    small |= {"comparison": "algorithms", "run_dir": str(tmp_path / "run"), "flops": 2e9}
    small |= {"data.root": str(world), "targets": {"sst2": {}}, "data.max_judged_rows": 20}
    return small | {"num_seeds": 1, "training.steps": 1, "console": "quiet"}
