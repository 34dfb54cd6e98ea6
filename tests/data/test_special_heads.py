"""The table of heads that plain transformers has no class for."""

from __future__ import annotations

import pytest

from road_ray.data.config import SourceConfig
from road_ray.data.load_split import find_dataset
from road_ray.data.task_and_dataset import SPECIAL_HEADS, JointSpan, Reason


@pytest.mark.parametrize("head", SPECIAL_HEADS, ids=lambda head: head.override)
@pytest.mark.parametrize("name", ["squad_v2", "mnli", "sst2", "stsb", "conll2003", "swag"])
def test_a_data_set_gets_the_head_that_was_asked_for_where_it_fits_and_no_other(head, name):
    plain = find_dataset(name, SourceConfig())
    result = find_dataset(name, SourceConfig(**{head.key: head.value}))
    expected = {"span_head": {"squad_v2": JointSpan}, "pair_head": {"mnli": Reason}}[head.key]
    if name not in expected:
        assert result == plain
        return
    dataset, task = result
    assert type(task.kind) is expected[name]
    assert task.name == dataset.task == f"{plain[1].name}_{head.value}"
    assert getattr(task.kind, "labels", None) == getattr(plain[1].kind, "labels", None)
