"""The loss on labels: weights of classes, smoothing, and tasks that have neither."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.utils.class_weight import compute_class_weight

import road_ray as rr
from road_ray.config import load
from road_ray.data.task_and_dataset import Classify, Task
from road_ray.errors import ConfigError
from road_ray.recipes.train.config import FinetuneConfig
from road_ray.recipes.train.mixture import Mixture
from road_ray.recipes.train.prepare import _class_weights


def split(labels):
    features = SimpleNamespace(gold={"labels": np.array(labels)})
    return SimpleNamespace(task=Task("t", Classify(("a", "b", "c"))), features=features)


def test_balanced_weights_are_those_of_scikit_learn():
    labels = [0] * 6 + [1] * 3 + [2]
    weights = compute_class_weight("balanced", classes=np.arange(3), y=labels)
    assert _class_weights("balanced", split([*labels, -100])).tolist() == pytest.approx(weights)
    without = _class_weights("balanced", split([0, 0, 0, 1]))  # 4 / (2 * 3), 4 / (2 * 1)
    assert without.tolist() == pytest.approx([2 / 3, 2.0, 1.0])


def test_weights_by_label_are_1_for_others():
    assert _class_weights({"c": 4.0}, split([0])).tolist() == [1.0, 1.0, 4.0]
    assert _class_weights(None, split([0])) is None


@pytest.mark.trained
def test_training_follows_the_weights_and_equal_ones_change_nothing(sentiment, tmp_path):
    def weights(**more):
        run = rr.finetune(
            overrides=sentiment | {"training.steps": 2} | more,
            run_dir=tmp_path / str(len(list(tmp_path.iterdir()))),
        )
        return torch.cat([p.flatten() for p in _parameters(run.hf_dir)])

    plain = weights()
    ones = {"data.class_weights": {"positive": 1.0, "negative": 1.0}}
    assert torch.equal(weights(**ones), plain)
    assert not torch.equal(weights(**{"data.class_weights": {"positive": 9.0}}), plain)
    assert not torch.equal(weights(**{"data.label_smoothing": 0.1}), plain)


def _parameters(directory):
    from safetensors.torch import load_file

    return load_file(directory / "model.safetensors").values()


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ({"data.dataset": "stsb", "data.class_weights": "balanced"}, "classes or tags"),
        ({"data.dataset": "squad_v2", "data.label_smoothing": 0.1}, "tasks of labels"),
        ({"data.class_weights": {"positiv": 2.0}}, "did you mean 'positive'"),
        ({"data.class_weights": {"positive": -1.0}}, "allowed: 0 or more"),
    ],
)
def test_what_the_loss_does_not_have_is_refused(chosen, words):
    with pytest.raises(ConfigError, match=words):
        Mixture.of(load(FinetuneConfig, overrides=chosen)).check()
