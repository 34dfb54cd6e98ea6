"""Compiled teachers answer as eager ones do, from one graph for batches of all lengths."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch._dynamo.testing import CompileCounter
from torch.testing import assert_close

from road_ray.data.catalog import task
from road_ray.data.shuffle_into_batches import padded_width
from road_ray.distillation.ensemble.teacher import Teacher
from road_ray.models.performance import int8_linear
from road_ray.models.performance.compilation import compile_for_all_shapes

pytestmark = pytest.mark.slow
WIDTHS = sorted({padded_width(longest) for longest in range(9, 33)})
TOLERANCE = {"fp32": 1e-5, "bf16": 2e-2, "int8": 2e-2}


@pytest.fixture
def counter(monkeypatch):
    counter = CompileCounter()
    monkeypatch.setattr(
        "road_ray.distillation.ensemble.teacher.compile_for_all_shapes",
        partial(compile_for_all_shapes, backend=counter),
    )
    torch._dynamo.utils.counters.clear()
    yield counter
    torch._dynamo.reset()


def batch(rows, width, *, padded):
    ids = torch.randint(5, 24, (rows, width), generator=torch.Generator().manual_seed(width))
    mask = torch.ones_like(ids)
    if padded:
        mask[-1, width // 2 :] = 0
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": torch.zeros_like(ids)}


@pytest.mark.parametrize(
    ("kind", "precision"),
    [
        ("mrc", "fp32"),
        ("nli", "int8"),
        *(pytest.param("nli", precision, marks=pytest.mark.long) for precision in ("fp32", "bf16")),
    ],
)
def test_a_teacher_is_compiled_once_for_all_widths_and_once_for_single_rows(
    kind, precision, teacher, tmp_path, counter, monkeypatch
):
    monkeypatch.setattr(int8_linear, "_LEAST_WIDTH", 16)  # the teacher is narrow
    place = teacher(tmp_path, kind=kind)
    eager, compiled = (
        Teacher(place, task(kind), precision=precision, compiled=how) for how in (False, True)
    )
    assert len(WIDTHS) >= 12
    close = partial(assert_close, rtol=TOLERANCE[precision], atol=TOLERANCE[precision])
    for number, width in enumerate(WIDTHS):
        rows = batch(4 + number % 3, width, padded=number % 2 == 0)
        close(compiled.logits(**rows), eager.logits(**rows))
    assert counter.frame_count == 1
    for width in WIDTHS[:3]:
        rows = batch(1, width, padded=False)
        close(compiled.logits(**rows), eager.logits(**rows))
    assert counter.frame_count == 2
    assert not torch._dynamo.utils.counters["graph_break"]
