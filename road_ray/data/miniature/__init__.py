"""The embedded data set: a small seeded world, written out in the public file layouts.

People, places and things with relations that agree everywhere; an encyclopaedia about them, and
GLUE, SQuAD and NewsQA files whose labels follow from their facts. road_ray reads it as real data.
"""

from __future__ import annotations

from pathlib import Path

from road_ray.data.miniature.files import VERSION, write
from road_ray.data.paths import CACHE, cache_home
from road_ray.errors import DataError, ResourceError

__all__ = ["VERSION", "cached", "write"]


def cached(seed: int = 0, size: float = 1.0) -> Path:
    """The world below ``ROAD_CACHE`` (or ``~/.cache/road_ray``), written once for all processes."""
    root = cache_home() / f"miniature-v{VERSION}-seed{seed}-size{size:g}"
    if root.is_dir():
        return root
    try:
        return write(root, seed=seed, size=size)
    except DataError as error:
        if root.is_dir():  # another process was faster; its bytes are the same
            return root
        raise ResourceError(
            f"the embedded data set cannot be kept: {error}\n"
            f"  fix: {CACHE}=a directory that can be written"
        ) from error
