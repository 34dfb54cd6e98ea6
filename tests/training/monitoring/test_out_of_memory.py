"""Memory that runs out is told with rank, step and batch."""

from __future__ import annotations

import pytest
import torch

from road_ray.errors import ResourceError
from road_ray.training.monitoring.out_of_memory import oom_as_error, shapes
from road_ray.training.run_context import RunContext


def test_an_allocation_that_fails_names_what_was_worked_on():
    context = RunContext(step=12, batch="8 x 512 tokens")
    with (
        pytest.raises(ResourceError, match="worker 3 ran out of memory after step 12") as caught,
        oom_as_error(3, context),
    ):
        torch.empty(2**60)
    assert "at work on 8 x 512 tokens" in str(caught.value)
    assert "training.passes" in str(caught.value)


@pytest.mark.parametrize(
    "message",
    [
        "CUDA error: out of memory",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    ],
)
def test_memory_that_other_libraries_of_a_gpu_lack_is_told_too(message):
    with pytest.raises(ResourceError, match="ran out of memory"), oom_as_error(0, RunContext()):
        raise RuntimeError(message)


def test_other_errors_stay_as_they_are():
    with pytest.raises(RuntimeError, match="shapes differ"), oom_as_error(0, RunContext()):
        raise RuntimeError("shapes differ")


def test_shapes_of_all_passes_are_told():
    passes = [{"input_ids": torch.zeros(4, 16)}, {"input_ids": torch.zeros(2, 4, 8)}]
    assert shapes(passes) == "4 x 16, 2 x 4 x 8 tokens"
