"""Real steps, counted: weights, gradients, moments and what autograd keeps."""

from __future__ import annotations

import pytest
import torch

from road_ray.data.mixing import accumulated
from road_ray.training import measure
from road_ray.training.worker import Worker


def test_only_inside_is_anything_measured():
    assert not measure.asked()
    with measure.measuring():
        assert measure.asked()
    assert not measure.asked()


def test_what_autograd_keeps_is_counted_once_and_parameters_are_not():
    weight = torch.nn.Parameter(torch.ones(3, 3))
    x = torch.ones(5, 3)
    with measure._held() as held:
        y = (x @ weight).tanh()  # keeps x and tanh's result
        z = y * y  # keeps y again
        z.sum().backward()
    assert held.largest == (5 * 3 + 5 * 3) * 4


def test_a_part_of_a_batch_has_its_rows_everywhere(tiny):
    batch = tiny.stream(tiny.rows())[0]
    part = measure._part(batch, 3)
    assert torch.equal(part["input_ids"], batch["input_ids"][:3])
    assert torch.equal(part["labels"], batch["labels"][:3])
    assert torch.equal(part["noise"], batch["noise"][:, :3])
    assert part["dataset"] == batch["dataset"]
    assert measure._part(batch, 8) is batch


def test_rows_of_whole_batches_are_reckoned_from_parts(tiny, tmp_path, monkeypatch):
    """A step that would take too long is measured on two rows; sizes and counts are of all."""

    def measured():
        objective = tiny.electra(dropout=0.0)
        stream = tiny.stream(tiny.rows(length=16))
        steps = lambda start: accumulated(stream.since(start), 1)  # noqa: E731
        return measure.measure(objective, steps, tiny.training(tmp_path), Worker(), None)

    whole = measured()
    monkeypatch.setattr(measure, "_LONGEST_STEP_SECONDS", 0.0)
    part = measured()
    assert part.rows_per_step == whole.rows_per_step
    assert part.tokens_per_step == whole.tokens_per_step
    assert part.parameters == whole.parameters
    assert part.activation_bytes == pytest.approx(whole.activation_bytes, rel=0.25)
