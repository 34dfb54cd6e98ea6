"""What heads say of themselves."""

from __future__ import annotations

import pytest
from transformers import ElectraConfig

from road_ray.data.task_and_dataset import (
    Choose,
    Classify,
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
    ("kind", "reads_batch"),
    [
        (Classify(LABELS), False),
        (Regress(0, 5), False),
        (Span(), False),
        (Tag(LABELS), False),
        (Choose(2), False),
        (JointSpan(), True),
        (Reason(LABELS), True),
    ],
)
def test_a_head_says_what_it_reads(kind, reads_batch):
    head = build_head(kind, CONFIG)
    assert isinstance(head, Head)
    assert head.reads_batch == reads_batch
