"""What a figure shows, said without saying how it is drawn: a page draws it as SVG, a paper with
matplotlib.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

Point = tuple[float, float]


@dataclass(frozen=True)
class Axis:
    """A name, and how numbers lie along it. ``names``: position ``i`` stands for the i-th name."""

    label: str = ""
    log: bool = False
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Line:
    """Points joined in their order. ``trial`` links it with the row of a table; ``color`` names the
    series it belongs to, ``shade`` (0 worst, 1 best) replaces it.
    """

    points: Sequence[Point]
    name: str = ""
    color: int = 0
    trial: int | None = None
    shade: float | None = None


@dataclass(frozen=True)
class Dot:
    """One point; ``shade`` from 0 (worst) to 1 (best) colours it, None leaves the plain colour."""

    x: float
    y: float
    shade: float | None = None
    trial: int | None = None
    hollow: bool = False


@dataclass(frozen=True)
class Cell:
    """One field of a heat map with its lower left and upper right corner in units of the axes."""

    low: Point
    high: Point
    shade: float
    text: str = ""


@dataclass(frozen=True)
class Chart:
    """Lines, dots and cells over two axes; later layers lie above earlier ones."""

    title: str
    x: Axis
    y: Axis
    cells: Sequence[Cell] = ()
    lines: Sequence[Line] = ()
    dots: Sequence[Dot] = ()
    note: str = ""

    def points(self) -> list[Point]:
        """Everything that must be within the frame."""
        found = [point for line in self.lines for point in line.points]
        found += [(dot.x, dot.y) for dot in self.dots]
        found += [corner for cell in self.cells for corner in (cell.low, cell.high)]
        return [(x, y) for x, y in found if isfinite(x) and isfinite(y)]


@dataclass(frozen=True)
class Bars:
    """One horizontal bar a name."""

    title: str
    rows: Sequence[tuple[str, float]]
    unit: str = ""
    note: str = ""


@dataclass(frozen=True)
class Parallel:
    """One upright axis a quantity, one line a trial: ``rows`` are ``(trial, shade, values)``."""

    title: str
    axes: Sequence[Axis]
    rows: Sequence[tuple[int, float | None, Sequence[float | None]]]
    note: str = ""


Figure = Chart | Bars | Parallel


def thinned(points: Sequence[Point], most: int = 240) -> list[Point]:
    """At most ``most`` of the points, first and last among them, each stretch by its lowest and
    highest, so that a spike of one step is still seen.
    """
    if len(points) <= most:
        return list(points)
    stretch = -(-2 * len(points) // max(most - 2, 2))
    kept = [points[0]]
    for start in range(1, len(points) - 1, stretch):
        part = points[start : min(start + stretch, len(points) - 1)]
        ends = {min(part, key=lambda p: p[1]), max(part, key=lambda p: p[1])}
        kept += sorted(ends)
    return [*kept, points[-1]]
