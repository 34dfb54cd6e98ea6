"""Memory that ran out, told with what was being worked on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from road_ray.data.batching import Batch
from road_ray.errors import ResourceError
from road_ray.training.signals import OUTSIDE

REMEDY = "a smaller data.batch_size with more training.passes, or a smaller data.max_length_tokens"


def shapes(passes: Sequence[Batch]) -> str:
    """The batches of a step on this worker, examples first: ``8 x 128 tokens``."""
    sizes = (" x ".join(map(str, batch["input_ids"].shape)) for batch in passes)
    return f"{', '.join(sizes)} tokens"


@contextmanager
def oom_as_error(rank: int) -> Iterator[None]:
    """Raises ``ResourceError`` with rank, step and batch where memory runs out inside."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not _ran_out(error):
            raise
        raise ResourceError(
            f"worker {rank} ran out of memory after step {OUTSIDE.step}, at work on "
            f"{OUTSIDE.batch}: {str(error).splitlines()[0]}\n  fix: {REMEDY}\n"
            "  kept: the newest checkpoint, if there is one; the same command goes on from it"
        ) from error


def _ran_out(error: BaseException) -> bool:
    # A CPU's allocator has no exception of its own.
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or (
        "can't allocate memory" in str(error)
    )
