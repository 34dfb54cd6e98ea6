"""Out-of-memory errors with the rank, the step and the shapes of the batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from road_ray.data.batching import Batch
from road_ray.errors import ResourceError
from road_ray.training.run_context import RunContext

# The allocator of the CPU, cuBLAS, pinned memory and NCCL raise a plain RuntimeError.
_SIGNS = ("can't allocate memory", "out of memory", "STATUS_ALLOC_FAILED")
REMEDY = "a smaller data.batch_size with more training.passes, or a smaller data.max_length_tokens"


def shapes(passes: Sequence[Batch]) -> str:
    """Return the shapes of a step's batches on this worker, rows first: ``8 x 128 tokens``."""
    sizes = (" x ".join(map(str, batch["input_ids"].shape)) for batch in passes)
    return f"{', '.join(sizes)} tokens"


@contextmanager
def oom_as_error(rank: int, context: RunContext) -> Iterator[None]:
    """Turn an out-of-memory error into a ``ResourceError`` that names rank, step and batch."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        known = isinstance(error, torch.OutOfMemoryError | MemoryError)
        if not known and not any(sign in str(error) for sign in _SIGNS):
            raise
        raise ResourceError(
            f"worker {rank} ran out of memory after step {context.step}, at work on "
            f"{context.batch}: {str(error).splitlines()[0]}\n  fix: {REMEDY}\n"
            "  kept: the newest checkpoint, if there is one; the same command resumes from it"
        ) from error
