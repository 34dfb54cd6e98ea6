"""Descriptions of figures, which ``svg.py`` draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

Point = tuple[float, float]


@dataclass(frozen=True)
class Axis:
    """A label and a scale. With ``names``, position ``i`` stands for the i-th name; ``whole`` marks
    whole numbers only.
    """

    label: str = ""
    log: bool = False
    names: tuple[str, ...] = ()
    whole: bool = False


@dataclass(frozen=True)
class Line:
    """Points joined in order. ``trial`` links the line with a table row; ``color`` is the index of
    its series, and ``shade`` (0 worst, 1 best) replaces that colour.
    """

    points: Sequence[Point]
    name: str = ""
    color: int = 0
    trial: int | None = None
    shade: float | None = None
    aid: bool = False  # drawn pale and dashed, for orientation


@dataclass(frozen=True)
class Dot:
    """One point. ``shade`` from 0 (worst) to 1 (best) sets its colour; None is the default. A
    ``mark`` stands out; a ``name`` is written beside it where there is room.
    """

    x: float
    y: float
    shade: float | None = None
    trial: int | None = None
    mark: bool = False
    name: str = ""


@dataclass(frozen=True)
class Cell:
    """One rectangle of a heat map, by its lower left and upper right corners in axis units."""

    low: Point
    high: Point
    shade: float
    text: str = ""


@dataclass(frozen=True)
class Chart:
    """Lines, dots and cells over two axes; later layers cover earlier ones. ``wide`` figures take
    the width of the page.
    """

    title: str
    x: Axis
    y: Axis
    cells: Sequence[Cell] = ()
    lines: Sequence[Line] = ()
    dots: Sequence[Dot] = ()
    note: str = ""
    wide: bool = False

    def points(self) -> list[Point]:
        """Return every point that must be inside the frame."""
        points = [point for line in self.lines for point in line.points]
        points += [(dot.x, dot.y) for dot in self.dots]
        points += [corner for cell in self.cells for corner in (cell.low, cell.high)]
        return [(x, y) for x, y in points if isfinite(x) and isfinite(y)]


@dataclass(frozen=True)
class Intervals:
    """A dot for each row ``(name, value, (low, high), single values)``, with an error bar if it has
    bounds; single values are small circles. ``zero`` draws a line at zero.
    """

    title: str
    rows: Sequence[tuple[str, float, tuple[float, float] | None, Sequence[float]]]
    note: str = ""
    wide: bool = False
    zero: bool = False


@dataclass(frozen=True)
class Parallel:
    """One vertical axis per quantity; a row ``(trial, shade, values)`` per trial."""

    title: str
    axes: Sequence[Axis]
    rows: Sequence[tuple[int, float | None, Sequence[float | None]]]
    note: str = ""
    wide: bool = True


Figure = Chart | Intervals | Parallel


def thinned(points: Sequence[Point], most: int = 240) -> list[Point]:
    """Return at most ``most`` of the points, including the first and the last. Each stretch keeps
    its lowest and highest point, so a spike of one step stays visible.
    """
    if len(points) <= most:
        return list(points)
    stretch = -(-2 * len(points) // max(most - 2, 2))
    chosen = [points[0]]
    for start in range(1, len(points) - 1, stretch):
        part = points[start : min(start + stretch, len(points) - 1)]
        ends = {min(part, key=lambda p: p[1]), max(part, key=lambda p: p[1])}
        chosen += sorted(ends)
    return [*chosen, points[-1]]
