"""ELECTRA's masking as pure functions: choose positions, mask, sample, corrupt.

All randomness is an argument of uniform numbers, so any number of workers, and a resumed run, mask
and sample the same tokens.
"""

from road_ray.objectives.masking.corruption import corrupt, mask
from road_ray.objectives.masking.positions import choose
from road_ray.objectives.masking.sampling import sample

__all__ = ["choose", "corrupt", "mask", "sample"]
