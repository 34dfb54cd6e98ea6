"""What heads say of themselves."""

from __future__ import annotations

import pytest
from transformers import ElectraConfig

from road_ray.data.task_and_dataset import (
    Choose,
    Classify,
    FeatureTag,
    JointSpan,
    Reason,
    Regress,
    Span,
    Tag,
)
from road_ray.models.heads.base import Head
from road_ray.models.heads.standard import build_head

CONFIG = ElectraConfig(hidden_size=32, num_attention_heads=2)
LABELS = ("a", "b")


@pytest.mark.parametrize(
    ("kind", "reads_batch", "feature_layers"),
    [
        (Classify(LABELS), False, None),
        (Regress(0, 5), False, None),
        (Span(), False, None),
        (Tag(LABELS), False, None),
        (Choose(2), False, None),
        (JointSpan(), True, None),
        (Reason(LABELS), True, None),
        (FeatureTag(LABELS), True, 4),
    ],
)
def test_a_head_says_what_it_reads(kind, reads_batch, feature_layers):
    head = build_head(kind, CONFIG)
    assert isinstance(head, Head)
    assert (head.reads_batch, head.feature_layers) == (reads_batch, feature_layers)
