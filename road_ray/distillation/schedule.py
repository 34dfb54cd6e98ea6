"""Schedule of the weight of the soft loss: a pure function of the fraction of the training that is
done, so a resumed run has the same weights.
"""

import itertools
from typing import Literal

from road_ray.errors import ConfigError

Points = tuple[tuple[float, float], ...]
Shape = Literal["constant", "linear"] | Points


class Schedule:
    """Weight as a function of the fraction of training in 0..1: ``constant`` is ``kd_weight``,
    ``linear`` goes from 1 to 0, and points are joined by straight lines, constant outside them.

    Linear is teacher annealing: a target of ``f * label + (1 - f) * teachers`` at fraction ``f``
    (Clark et al. 2019, BAM, section 3.2). Two points at one fraction are a jump; the later one
    holds from there on. Raises ``ConfigError`` unless the fractions rise and all numbers are in
    0..1.
    """

    def __init__(self, shape: Shape = "constant", kd_weight: float = 0.5) -> None:
        if isinstance(shape, str):
            shape = ((0.0, 1.0), (1.0, 0.0)) if shape == "linear" else ((0.0, kd_weight),)
        self.points = tuple((float(fraction), float(weight)) for fraction, weight in shape)
        numbers = [number for point in self.points for number in point]
        rising = all(a[0] <= b[0] for a, b in itertools.pairwise(self.points))
        if not numbers or not rising or not all(0 <= number <= 1 for number in numbers):  # NaN too
            raise ConfigError(
                f"distillation.schedule is {[list(point) for point in self.points]}\n"
                "  allowed: constant, linear, or points [fraction of training, kd_weight] such as "
                "[[0, 0.9], [0.5, 0.5], [1, 0]]: rising fractions, all in 0..1"
            )
        self.is_constant = len({weight for _, weight in self.points}) == 1

    def __call__(self, fraction: float) -> float:
        before = [point for point in self.points if point[0] <= fraction]
        after = [point for point in self.points if point[0] > fraction]
        if not before or not after:
            return before[-1][1] if before else after[0][1]
        (start, low), (end, high) = before[-1], after[0]
        return low + (high - low) * (fraction - start) / (end - start)
