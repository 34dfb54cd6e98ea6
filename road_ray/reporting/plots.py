"""Plots drawn by matplotlib: inline SVG, which a dark page inverts, or a file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from warnings import catch_warnings

from road_ray.reporting.text_tables import printable

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes
    from matplotlib.axis import XAxis, YAxis
    from matplotlib.collections import Collection
    from matplotlib.figure import Figure

Format = Literal["svg", "png", "pdf"]
ASSETS = Path(__file__).parent / "pages" / "assets"
_STYLE = ASSETS / "plots.mplstyle"
SERIES = ("#0b63c5", "#d1600a", "#12855f", "#a3338f", "#927600", "#4c6fae", "#b8334a", "#5c6878")
_RANKS = ("#b0bca6", "#5db0b0", "#1e386d")
_POINTS = 72  # of an inch: one unit of an SVG is one point
_PNG_DPI = 3 * _POINTS


@dataclass(frozen=True, eq=False)
class Plot:
    """A figure of matplotlib with its axes, a title and a note. ``wide`` ones span the page."""

    title: str
    figure: Figure
    axes: Axes
    note: str = ""
    wide: bool = False


def new_plot(
    title: str, x: str = "", y: str = "", *, note: str = "", wide: bool = False, height: int = 250
) -> Plot:
    """Return an empty plot with the labels of its axes; ``height`` is in points."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(fname=_STYLE):
        size = ((1140 if wide else 400) / _POINTS, height / _POINTS)
        figure = Figure(size, layout="constrained")
        axes = figure.add_subplot()
        axes.set_xlabel(short_label(x), loc="right")
        axes.set_title(short_label(y), loc="left")
        axes.set_prop_cycle(color=SERIES)
        axes.locator_params(nbins=6)
        axes.locator_params(axis="x", integer=x in ("step", "trial"))
        return Plot(title, figure, axes, note, wide)


def rank_colors(ranks: Sequence[float | None]) -> list[Any]:
    """Return the colour of each rank from 0 (worst) to 1 (best); None is that of a series."""
    from matplotlib.colors import LinearSegmentedColormap

    scale = LinearSegmentedColormap.from_list("ranks", _RANKS)
    return [SERIES[0] if rank is None else scale(rank) for rank in ranks]


def add_legend(plot: Plot) -> None:
    """Name the lines of a plot above it, if there are several."""
    lines = plot.axes.get_lines()
    if len(lines) < 2:
        return
    names = [short_label(str(line.get_label())) for line in lines]
    columns = min(len(lines), 4, 400 // (45 + 5 * max(map(len, names))))  # points of the widest
    plot.figure.legend(lines, names, loc="outside upper left", ncols=columns, frameon=False)


def link_trials(collection: Collection, trials: Sequence[int]) -> None:
    """Link the marks of a collection with the rows of these trials in the table of the page."""
    collection.set_urls([f"#trial-{number}" for number in trials])


def logarithmic(axis: XAxis | YAxis, values: Sequence[float]) -> None:
    """Make the axis of some values logarithmic, with plain numbers beside it."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    marks = (1, 2, 5) if max(values) < 50 * min(values) else (1,)  # more would overlap
    several = max(values) > 5 * min(values)  # below, a LogLocator marks more than there is room for
    axis.set_major_locator(LogLocator(subs=marks, numticks=6) if several else MaxNLocator(4))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def intervals(
    title: str,
    rows: Sequence[tuple[str, float, tuple[float, float] | None, Sequence[float]]],
    note: str = "",
    *,
    wide: bool = False,
    zero: bool = False,
) -> Plot:
    """Return a plot with a dot for each row ``(name, value, (low, high), single values)``, with an
    error bar if it has bounds; single values are small circles. ``zero`` draws a line at zero.
    """
    plot = new_plot(title, note=note, wide=wide, height=50 + 26 * len(rows))
    axes, (first, second, *_) = plot.axes, SERIES
    for place, (_, value, ends, singles) in enumerate(rows):
        if ends:
            bounds = [[value - ends[0]], [ends[1] - value]]
            axes.errorbar(value, place, xerr=bounds, color=first, capsize=4)
        if len(singles) > 1:
            axes.scatter(singles, [place] * len(singles), 20, "none", edgecolors=second, zorder=4)
        axes.scatter(value, place, 50, first, zorder=3)
        beside = axes.get_yaxis_transform()
        text = f"{value:,.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.3g}"
        axes.text(1.01, place, text, transform=beside, va="center")
    if zero:
        axes.axvline(0.0, color=second)
    axes.set_yticks(range(len(rows)), [short_label(name, 90 if wide else 27) for name, *_ in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.grid(visible=False)
    axes.grid(axis="x")
    return plot


def short_label(text: str, most: int = 48) -> str:
    """Return a text for a plot, on one line and not too long; dollar signs begin no formula."""
    plain = printable(text)
    return (plain if len(plain) <= most else f"{plain[: most - 1]}…").replace("$", r"\$")


def inline_svg(plot: Plot) -> Markup:
    """Return the plot as an ``<svg>`` element. All text in it is escaped."""
    import matplotlib as mpl
    from markupsafe import Markup, escape
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    target = StringIO()
    # Warnings are of labels in a script that the font lacks; `savefig` would draw twice.
    with mpl.rc_context(fname=_STYLE), catch_warnings(action="ignore"):
        FigureCanvasSVG(plot.figure).print_svg(target)  # type: ignore[no-untyped-call]
    svg = target.getvalue().partition("<svg")[2]
    svg = svg[svg.index(">") + 1 :].replace(' target="_blank"', "")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)  # those of several figures would clash
    svg = re.sub(r"<[^>]*>", lambda tag: re.sub(r"(\.\d\d)\d+", r"\1", tag[0]), svg)
    width, height = (round(side * _POINTS) for side in plot.figure.get_size_inches())
    label = escape(printable(plot.title))
    head = f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{label}">'
    return Markup(head + svg)


def save_plots(plots: Sequence[Plot], directory: Path, kind: Format) -> list[Path]:
    """Write one file per plot, with its title, numbered in the order of the page."""
    import matplotlib as mpl

    directory.mkdir(parents=True, exist_ok=True)
    paths = []
    for number, plot in enumerate(plots, start=1):
        name = re.sub(r"\W+", "-", plot.title.lower()).strip("-")[:60]
        paths.append(directory / f"{number:02d}-{name}.{kind}")
        plot.figure.set_facecolor("white")
        plot.figure.suptitle(short_label(plot.title, 60), x=0.01, ha="left", weight="bold")
        metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)  # undated
        with mpl.rc_context(fname=_STYLE), catch_warnings(action="ignore"):
            plot.figure.savefig(paths[-1], format=kind, dpi=_PNG_DPI, metadata=metadata)
    return paths
