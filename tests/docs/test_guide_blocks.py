"""Blocks of the guides that have no guide of their own to run: files that load as they stand, and a
rule that weights as it says.
"""

from __future__ import annotations

import pytest
import torch

from road_ray.data.load_split import find_dataset
from road_ray.distillation.weighting.registry import WEIGHTINGS
from road_ray.recipes.sweep.sweep_file import load_sweep
from road_ray.verbs import configure, verb_of_file
from tests.docs.blocks import blocks


@pytest.fixture
def file(tmp_path):
    """The path that a block is written to."""
    return tmp_path / "block.yaml"


def test_the_file_of_the_sweep_guide_is_a_sweep(file):
    file.write_text(blocks("docs/guides/sweeps.md", "yaml")["file"])
    sweep = load_sweep(file)
    assert (sweep.verb, sweep.trials, sweep.metric) == ("distill", 24, ("eval/squad_v2/best_f1",))
    assert sorted(sweep.space) == ["distillation.temperature", "weighting.wrong"]


def test_the_file_of_the_multi_task_guide_has_a_data_set_that_fits(file):
    file.write_text(blocks("docs/guides/multitask.md", "yaml")["own"])
    config = configure(verb_of_file(file), path=file)
    dataset, task, *_ = find_dataset(config.data.dataset, config.data)
    assert (dataset.name, task.kind.labels) == ("tickets", ("sales", "help"))


def test_the_rule_of_the_distillation_guide_weights_by_the_largest_logit(monkeypatch):
    monkeypatch.setattr("road_ray.distillation.weighting.registry.WEIGHTINGS", dict(WEIGHTINGS))
    names: dict[str, object] = {}
    exec(blocks("docs/guides/distillation.md", "python")["rule"], names)
    logits = torch.tensor([[[0.0, 1.0]], [[3.0, 0.0]]])  # two teachers, one row, two classes
    weights = names["loudest"](logits, torch.tensor([1]))
    assert weights.squeeze(-1).tolist() == pytest.approx([0.2384, 1.7616], abs=1e-4)
