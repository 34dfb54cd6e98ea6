"""Real steps, counted: weights, gradients, moments and what autograd keeps."""

from __future__ import annotations

import pytest
import torch

from road_ray.data.mixing import accumulated
from road_ray.training.loop import train
from road_ray.training.performance import profile
from road_ray.training.run_context import RunContext
from road_ray.training.worker import Worker


def test_a_plan_measures_and_trains_nothing(tiny, tmp_path):
    objective, stream = tiny.electra(dropout=0.0), tiny.stream(tiny.rows())
    context = RunContext(plan_only=True)
    made = tiny.training(tmp_path, context=context)
    steps = lambda start: accumulated(stream.since(start), 1)  # noqa: E731
    assert train(objective, steps, made, Worker()) == {}
    assert context.measured is not None
    assert context.measured.total_steps == made.total_steps
    assert list(tmp_path.iterdir()) == []


def test_what_autograd_keeps_is_counted_once_and_parameters_are_not():
    weight = torch.nn.Parameter(torch.ones(3, 3))
    x = torch.ones(5, 3)
    with profile._saved_tensors() as saved:
        y = (x @ weight).tanh()  # keeps x and tanh's result
        z = y * y  # keeps y again
        z.sum().backward()
    assert saved.largest == (5 * 3 + 5 * 3) * 4


def test_a_part_of_a_batch_has_its_rows_everywhere(tiny):
    batch = tiny.stream(tiny.rows())[0]
    part = profile._part(batch, 3)
    assert torch.equal(part["input_ids"], batch["input_ids"][:3])
    assert torch.equal(part["labels"], batch["labels"][:3])
    assert torch.equal(part["noise"], batch["noise"][:, :3])
    assert part["dataset"] == batch["dataset"]
    assert profile._part(batch, 8) is batch


def test_rows_of_whole_batches_are_reckoned_from_parts(tiny, tmp_path, monkeypatch):
    """A step that would take too long is measured on two rows; sizes and counts are of all."""

    def measured():
        objective = tiny.electra(dropout=0.0)
        stream = tiny.stream(tiny.rows(length=16))
        steps = lambda start: accumulated(stream.since(start), 1)  # noqa: E731
        return profile.measure(objective, steps, tiny.training(tmp_path), Worker(), None)

    whole = measured()
    monkeypatch.setattr(profile, "_LONGEST_STEP_SECONDS", 0.0)
    part = measured()
    assert part.rows_per_step == whole.rows_per_step
    assert part.tokens_per_step == whole.tokens_per_step
    assert part.parameters == whole.parameters
    assert part.activation_bytes == pytest.approx(whole.activation_bytes, rel=0.25)


def test_phases_are_measured_each_and_weighed_by_their_steps(tiny, tmp_path):
    """Nine steps on rows of 8 tokens, then one on rows of 16: what is told is that of all ten."""
    short = tiny.stream(tiny.rows(count=8, length=8))
    long = tiny.stream(tiny.rows(count=4, length=16), batch_size=4)
    streams = {0: short, 9: long}
    result = profile.measure(
        tiny.electra(dropout=0.0),
        lambda start: accumulated(streams[start].since(0), 1),
        tiny.training(tmp_path, steps=10, phase_starts=(0, 9)),
        Worker(),
        None,
    )
    assert result.rows_per_step == pytest.approx((9 * 8 + 4) / 10)
    assert result.tokens_per_step == pytest.approx((9 * 8 * 8 + 4 * 16) / 10)
    first, second = result.seconds_by_phase
    assert result.seconds_per_step == pytest.approx(0.9 * first + 0.1 * second)
