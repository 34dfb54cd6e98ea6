"""The loss for a loop of one's own, by hand, for each kind of head."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from road_ray.distillation.custom_loop import model_inputs, soft_loss, student_loss
from road_ray.distillation.losses import kd_loss
from road_ray.errors import ConfigError, DataError

SOFT = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
KEEP = torch.tensor([True, True])


def classified() -> tuple[SimpleNamespace, dict]:
    logits = torch.tensor([[1.0, 0.0], [0.5, 0.0]], requires_grad=True)
    batch = {"soft_logits": SOFT, "kd_keep": KEEP, "labels": torch.tensor([0, 1])}
    loss = torch.nn.functional.cross_entropy(logits, batch["labels"])
    return SimpleNamespace(logits=logits, loss=loss), batch


def test_gold_and_teachers_share_the_loss():
    outputs, batch = classified()
    soft = kd_loss(outputs.logits, SOFT, temperature=3.0)
    loss = student_loss(outputs, batch, temperature=3.0, kd_weight=0.25)
    torch.testing.assert_close(loss, 0.75 * outputs.loss + 0.25 * soft)
    loss.backward()
    assert outputs.logits.grad.abs().sum() > 0


def test_question_and_padding_of_spans_are_left_out():
    torch.manual_seed(0)
    start, end = torch.randn(2, 1, 6)
    soft = torch.randn(1, 2, 6)
    batch = {
        "input_ids": torch.ones(1, 6, dtype=torch.long),
        "attention_mask": torch.tensor([[1, 1, 1, 1, 1, 0]]),
        "token_type_ids": torch.tensor([[0, 0, 1, 1, 1, 0]]),
        "start_positions": torch.tensor([2]),
        "end_positions": torch.tensor([3]),
        "soft_logits": soft,
        "kd_keep": torch.ones(1, 2, dtype=torch.bool),
    }
    outputs = SimpleNamespace(start_logits=start, end_logits=end, loss=torch.tensor(0.0))
    seen = [0, 2, 3, 4]
    both = torch.stack([start, end], 1)[..., seen]
    expected = kd_loss(both, soft[..., seen], temperature=2.0)
    torch.testing.assert_close(soft_loss(outputs, batch, 2.0), expected)


def test_mistakes_are_told():
    outputs, batch = classified()
    with pytest.raises(ConfigError, match="kd_weight"):
        student_loss(outputs, batch, kd_weight=1.5)
    with pytest.raises(ConfigError, match="temperature"):
        student_loss(outputs, batch, temperature=0.0)
    with pytest.raises(DataError, match="outputs have no loss"):
        student_loss(SimpleNamespace(loss=None), batch)


def test_unknown_answers_are_behind_the_row_where_models_ignore_them():
    ids = torch.ones(2, 6, dtype=torch.long)
    batch = {"input_ids": ids, "kd_keep": KEEP, "start_positions": torch.tensor([2, -100])}
    inputs = model_inputs(batch | {"end_positions": [3, -100]})
    assert inputs.keys() == {"input_ids", "start_positions", "end_positions"}
    assert inputs["start_positions"].tolist() == [2, 6]
    assert inputs["end_positions"].tolist() == [3, 6]


def test_a_batch_without_labels_learns_from_the_teachers_alone():
    outputs, batch = classified()
    unknown = batch | {"labels": torch.tensor([-100, -100])}
    outputs.loss = torch.nn.functional.cross_entropy(outputs.logits, unknown["labels"])
    assert outputs.loss.isnan()
    loss = student_loss(outputs, unknown, kd_weight=0.25)
    torch.testing.assert_close(loss, 0.25 * soft_loss(outputs, unknown, 2.0))
