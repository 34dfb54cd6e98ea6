"""Smaller students made of layers of their ``init``."""

from __future__ import annotations

import json

import pytest
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification

import road_ray as rr
from road_ray.errors import ConfigError
from road_ray.recipes.train.config import StudentConfig


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        (3, (0, 2, 4)),
        (4, (0, 1, 3, 4)),
        (6, (0, 1, 2, 3, 4, 5)),
        ((0, 5), (0, 5)),
        (None, (0, 1, 2, 3, 4, 5)),
    ],
)
def test_chosen_layers_of_six(layers, expected):
    assert StudentConfig(layers=layers).chosen(6) == expected


@pytest.mark.parametrize("layers", [0, 7, (0, 6), (2, 1), (1, 1), (), (-1, 0)])
def test_layers_that_init_does_not_have_are_refused(layers):
    with pytest.raises(ConfigError, match="init has 6 layers"):
        StudentConfig(layers=layers).chosen(6)


def test_a_student_of_one_layer_is_a_plain_model_with_the_weights_of_that_layer(
    sentiment, pretrained, tmp_path
):
    size = json.loads((pretrained.hf_dir / "config.json").read_text())["num_hidden_layers"]
    chosen = {"student.layers": [size - 1], "training.steps": 1, "optimizer.peak_lr": 1e-12}
    run = rr.finetune(overrides=sentiment | chosen, run_dir=tmp_path)
    model = AutoModelForSequenceClassification.from_pretrained(run.hf_dir)
    assert model.config.num_hidden_layers == 1
    student, init = (load_file(d / "model.safetensors") for d in (run.hf_dir, pretrained.hf_dir))
    key = "electra.encoder.layer.{}.output.dense.weight"
    assert student[key.format(0)].allclose(init[key.format(size - 1)], atol=1e-6)
    record = json.loads((run.hf_dir / "road_ray.json").read_text())
    assert record["layers_of_init"] == [size - 1]
    assert record["parameters"] == sum(p.numel() for p in model.parameters())
