"""Scales: numbers to positions along an axis, with ticks at round numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10

from road_ray.reporting.plots.chart import Axis

SHADES = 10  # colours of the scale from worst to best


@dataclass(frozen=True)
class Scale:
    """Linear or logarithmic scale from ``low`` at pixel ``start`` to ``high`` at pixel ``end``."""

    axis: Axis
    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Return the position of a value."""
        low, high, here = self.low, self.high, value
        if self.axis.log:
            low, high, here = log10(low), log10(high), log10(max(value, self.low))
        return self.start + (here - low) / ((high - low) or 1.0) * (self.end - self.start)

    def ticks(self, most: int = 5) -> list[tuple[float, str]]:
        """Return positions and labels of the ticks."""
        if self.axis.names:
            every = ceil(len(self.axis.names) / 12)
            named = list(enumerate(self.axis.names))[::every]
            return [(self.at(float(place)), name) for place, name in named]
        values = log_ticks(self.low, self.high) if self.axis.log else ticks(self.low, self.high)
        if self.axis.whole:
            values = [value for value in values if float(value).is_integer()] or values
        values = values[: 2 * most]
        labels = [short(value) for value in values]
        for digits in range(4, 10):
            if len(set(labels)) == len(labels):
                break
            labels = [short(value, digits) for value in values]
        return [(self.at(value), label) for value, label in zip(values, labels, strict=True)]


def scale(axis: Axis, values: Iterable[float], start: float, end: float) -> Scale:
    """Return a scale that covers all finite values, with a small margin."""
    shown = [value for value in values if isfinite(value) and (value > 0 or not axis.log)]
    if axis.names:
        return Scale(axis, -0.5, len(axis.names) - 0.5, start, end)
    low, high = (min(shown), max(shown)) if shown else (0.0, 1.0)
    if axis.log:
        low, high = (low, high) if shown else (1.0, 10.0)
        return Scale(axis, low / 1.1, high * 1.1, start, end)
    high = high if low or high else 1.0  # all are zero
    room = (high - low) * 0.04 or abs(high) * 0.1 or 1.0
    return Scale(axis, low - room, high + room, start, end)


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return about ``most`` multiples of 1, 2 or 5 times a power of ten within the range."""
    if not high > low:
        return [low]
    rough = (high - low) / most
    power = 10.0 ** floor(log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    first = ceil(low / step - 1e-9)
    return [round(n * step, 12) for n in range(first, floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Return the powers of ten within the range, and multiples of them if these are too few."""
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    for factors in ((1,), (1, 2, 5), (1, 1.5, 2, 3, 5, 7), tuple(range(1, 10))):
        marks = [f * 10.0**p for p in powers for f in factors if low <= f * 10.0**p <= high]
        if len(marks) >= 3:
            every = ceil(len(marks) / 6)
            return marks[::every]
    return marks or [low, high]


def short(value: float, digits: int = 3) -> str:
    """Return a number in few characters: ``1.5k``, ``2e-4``, ``0.75``."""
    size = abs(value)
    if not isfinite(size):
        return str(value)
    if size >= 1e6 or (0 < size < 1e-3):
        mantissa, _, power = f"{value:.{digits - 2}e}".partition("e")
        return f"{mantissa.removesuffix('.' + '0' * (digits - 2))}e{int(power)}"
    if size >= 1000:
        return f"{value / 1000:.{digits}g}k"
    return f"{value:.{digits}g}"


def shades(values: Sequence[float | None], *, larger_is_better: bool) -> list[float | None]:
    """Return the rank of each value between the worst (0) and the best (1).

    With ranks, one diverged trial does not give all others a single colour. Equal values are all
    best.
    """
    ranked = sorted({value for value in values if value is not None}, reverse=not larger_is_better)
    last = len(ranked) - 1
    place = {value: index / last if last else 1.0 for index, value in enumerate(ranked)}
    return [None if value is None else place[value] for value in values]


def shade_class(shade: float) -> str:
    """Return the CSS class of a shade."""
    return f"c{min(int(shade * SHADES), SHADES - 1)}"
