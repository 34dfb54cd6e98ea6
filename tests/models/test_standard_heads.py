"""Shapes of the heads and how they begin."""

from __future__ import annotations

import pytest
import torch
from transformers import BertConfig, ElectraConfig

from road_ray.data.task_and_dataset import Choose, Classify, Regress, Span, Tag
from road_ray.models.heads import build_head

BATCH = {"attention_mask": None}
CONFIG = ElectraConfig(hidden_size=32, num_attention_heads=2, hidden_dropout_prob=0.0)


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        (Classify(("a", "b", "c")), (4, 3)),
        (Classify(("no", "yes")), (4, 2)),
        (Regress(0, 5), (4, 1)),
        (Span(), (4, 2, 7)),
        (Tag(("O", "B-X", "I-X")), (4, 7, 3)),
        (Choose(2), (2, 2)),
    ],
)
def test_each_kind_gives_its_shape(kind, shape):
    assert build_head(kind, CONFIG)(torch.randn(4, 7, 32), BATCH).shape == shape


def test_new_heads_start_small_and_do_not_change_the_encoder_configuration():
    before = CONFIG.to_dict()
    head = build_head(Classify(tuple("abcdefg")), CONFIG).model
    assert CONFIG.to_dict() == before
    assert head.classifier.dense.weight.abs().max() <= 0.04 + 1e-6
    assert (head.classifier.out_proj.bias == 0).all()
    assert head.classifier.out_proj.weight.abs().max() <= (6 / 39) ** 0.5


@pytest.mark.parametrize("kind", [Classify(("a", "b")), Span(), Tag(("O", "B-X")), Choose(2)])
@pytest.mark.parametrize(
    ("config", "least", "most"),
    [
        (CONFIG, 0.04, (6 / 33) ** 0.5),  # Glorot-uniform of 32 inputs and at least one output
        (BertConfig(hidden_size=32, num_attention_heads=2), 0.01, 0.04),
    ],
    ids=["electra", "bert"],
)
def test_the_last_layer_begins_as_in_the_published_code_of_its_family(kind, config, least, most):
    torch.manual_seed(0)
    weight = [p for p in build_head(kind, config).parameters() if p.dim() == 2][-1]
    assert weight.shape[1] == 32
    assert least < weight.abs().max() <= most + 1e-6
