"""Figures for papers: those of the page, drawn by matplotlib as SVG or PNG."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from road_ray.errors import ConfigError
from road_ray.reporting.plots.chart import (
    Axis,
    Bars,
    Cell,
    Chart,
    Figure,
    Intervals,
    Parallel,
)
from road_ray.reporting.plots.scales import scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Format = Literal["svg", "png"]
_COLORS = ("#0b63c5", "#d1600a", "#12855f", "#a3338f", "#927600", "#4c6fae", "#b8334a", "#5c6878")
_SCALE = "YlGnBu"
_STYLE = {
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e9ee",
    "axes.axisbelow": True,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "road_ray",  # equal figures give equal files
    "savefig.dpi": 300,
    "savefig.bbox": "tight",
}


def save_figures(figures: Sequence[Figure], directory: Path, kind: Format) -> list[Path]:
    """Write one file per figure, numbered in page order and named after its title.

    Raises ``ConfigError`` if matplotlib is not installed.
    """
    try:
        import matplotlib
    except ImportError:
        raise ConfigError(
            f"--format {kind} needs matplotlib, which is not installed\n"
            "  fix: pip install 'road-ray[figures]', or --format html; nothing was written"
        ) from None
    matplotlib.use("agg")
    from matplotlib.figure import Figure as Canvas

    directory.mkdir(parents=True, exist_ok=True)
    paths = []
    with matplotlib.rc_context(_STYLE):
        for number, figure in enumerate(figures, start=1):
            canvas = Canvas(figsize=(7.0, 2.6) if figure.wide else (3.3, 2.2))
            axes = canvas.add_subplot()
            _DRAW[type(figure)](figure, axes)
            name = re.sub(r"\W+", "-", figure.title.lower()).strip("-")[:60]
            paths.append(directory / f"{number:02d}-{name}.{kind}")
            metadata = {"Date": None} if kind == "svg" else None
            canvas.savefig(paths[-1], metadata=metadata)
    return paths


def _chart(chart: Chart, axes: Axes) -> None:
    points = chart.points()
    across = scale(chart.x, (p[0] for p in points), 0, 1)
    up = scale(chart.y, (p[1] for p in points), 0, 1)
    _axis(axes.xaxis, axes.set_xscale, axes.set_xlabel, chart.x)
    _axis(axes.yaxis, axes.set_yscale, axes.set_ylabel, chart.y)
    axes.set_xlim(across.low, across.high)
    axes.set_ylim(up.low, up.high)
    if chart.title != chart.x.label:
        axes.set_title(_plain(chart.title))
    colors = _colormap()
    _cells(chart.cells, axes, colors)
    for line in chart.lines:
        color = _COLORS[line.color % 8] if line.shade is None else colors(line.shade)
        xs, ys = [x for x, _ in line.points], [y for _, y in line.points]
        style = "--" if line.aid else "-"
        axes.plot(xs, ys, style, color=color, linewidth=1.1, label=_plain(line.name) or "_")
    for hollow in (True, False):
        dots = [dot for dot in chart.dots if dot.hollow is hollow]
        shades = [_COLORS[0] if dot.shade is None else colors(dot.shade) for dot in dots]
        style_of_dots: dict[str, Any] = {"s": 8, "facecolors": "none" if hollow else shades}
        axes.scatter([d.x for d in dots], [d.y for d in dots], edgecolors=shades, **style_of_dots)
    for dot in chart.dots:
        if dot.name:
            axes.annotate(_plain(dot.name), (dot.x, dot.y), (3, 2), textcoords="offset points")
    if sum(bool(line.name) for line in chart.lines) > 1:
        axes.legend()


def _cells(cells: Sequence[Cell], axes: Axes, colors: Any) -> None:
    from matplotlib.collections import PolyCollection

    corners = [(c.low, (c.high[0], c.low[1]), c.high, (c.low[0], c.high[1])) for c in cells]
    shown = [colors(cell.shade) for cell in cells]
    if corners:
        axes.add_collection(PolyCollection(corners, facecolors=shown, edgecolors=shown, lw=0.2))
    for cell in cells:
        if cell.text:
            (x0, y0), (x1, y1) = cell.low, cell.high
            tone = "white" if cell.shade > 0.5 else "black"
            middle = (x0 + x1) / 2, (y0 + y1) / 2
            axes.text(*middle, _plain(cell.text), ha="center", va="center", color=tone)


def _axis(
    ticked: Any, set_scale: Callable[..., Any], label: Callable[..., Any], axis: Axis
) -> None:
    if axis.log:
        from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

        set_scale("log")
        ticked.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ticked.set_major_formatter(StrMethodFormatter("{x:g}"))
        ticked.set_minor_formatter(NullFormatter())
    if axis.names:
        ticked.set_ticks(range(len(axis.names)), [_plain(name) for name in axis.names])
    label(_plain(axis.label))


def _bars(bars: Bars, axes: Axes) -> None:
    names = [_plain(name) for name, _ in bars.rows]
    drawn = axes.barh(range(len(names)), [value for _, value in bars.rows], color=_COLORS[0])
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.bar_label(drawn, fmt=f"%.3g{bars.unit.replace('%', '%%')}", padding=2)
    axes.set_title(_plain(bars.title))


def _intervals(figure: Intervals, axes: Axes) -> None:
    for number, (_, value, ends, values) in enumerate(figure.rows):
        low, high = ends or (value, value)
        error = [[value - low], [high - value]]
        axes.errorbar(value, number, xerr=error, fmt="o", color=_COLORS[0], capsize=2, markersize=4)
        if len(values) > 1:
            axes.scatter(values, [number] * len(values), s=8, facecolors="none", edgecolors="grey")
    if figure.zero:
        axes.axvline(0.0, color=_COLORS[1], linewidth=1.1)
    axes.set_yticks(range(len(figure.rows)), [_plain(name) for name, *_ in figure.rows])
    axes.invert_yaxis()
    axes.set_title(_plain(figure.title))


def _parallel(figure: Parallel, axes: Axes) -> None:
    colors = _colormap()
    scales = [
        scale(axis, [row[2][n] for row in figure.rows if row[2][n] is not None], 0, 1)  # type: ignore[misc]
        for n, axis in enumerate(figure.axes)
    ]
    for _, shade, values in figure.rows:
        known = [(n, scales[n].at(v)) for n, v in enumerate(values) if v is not None]
        color = colors(0.0 if shade is None else shade)
        axes.plot([n for n, _ in known], [y for _, y in known], color=color, linewidth=0.6)
    for n, along in enumerate(scales):
        axes.axvline(n, color="#5c6878", linewidth=0.6)
        for at, label in along.ticks():
            axes.text(n + 0.02, at, _plain(label), fontsize=6)
    axes.set_xticks(range(len(scales)), [_plain(s.axis.label) for s in scales])
    axes.set_yticks([])
    axes.set_title(_plain(figure.title))


def _plain(text: str) -> str:
    """Return text in which a dollar sign does not start a formula."""
    return text.replace("$", r"\$")


def _colormap() -> Callable[[float], Any]:
    """Return colours for shades from 0 to 1, without those invisible on white."""
    import matplotlib

    colors = matplotlib.colormaps[_SCALE]
    return lambda shade: colors(0.2 + 0.8 * shade)


_DRAW: dict[type, Callable[[Any, Any], None]] = {
    Chart: _chart,
    Bars: _bars,
    Intervals: _intervals,
    Parallel: _parallel,
}
