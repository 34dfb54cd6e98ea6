"""Figures as SVG for a page. Colours come from the page's style sheet."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup, escape

from road_ray.reporting.plots.chart import (
    Axis,
    Chart,
    Dot,
    Figure,
    Intervals,
    Line,
    Parallel,
)
from road_ray.reporting.plots.scales import Scale, scale, shade_class, short

WIDTH, HEIGHT = 400, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 12, 8, 34
_ROW = 26  # height of a bar
_CROWD = 150  # lines from which on the worse half is drawn pale
_WIDE, _TALL = 1140, 380  # a figure as wide as the page; height of parallel coordinates
_NAME = 12  # height of a name beside a dot


def draw(figure: Figure) -> Markup:
    """Return the figure as one ``<svg>`` element; all text in it is escaped."""
    if isinstance(figure, Intervals):
        return _intervals(figure)
    if isinstance(figure, Parallel):
        return _parallel(figure)
    return _chart(figure)


def _svg(
    width: int, height: int, title: str, parts: Iterable[str], *, many: bool = False
) -> Markup:
    crowd = ' class="many"' if many else ""
    return Markup(
        f'<svg{crowd} viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}"'
        f">{''.join(parts)}</svg>"
    )


def _chart(chart: Chart) -> Markup:
    points = chart.points()
    left = _LEFT + min(60, max((6 * len(n) - 40 for n in chart.y.names), default=0))
    width = _WIDE if chart.wide else WIDTH
    x = scale(chart.x, (p[0] for p in points), left, width - _RIGHT)
    top = _TOP + (14 if chart.y.label else 0)
    y = scale(chart.y, (p[1] for p in points), HEIGHT - _BOTTOM, top)
    parts = [*_frame(x, y)]
    for cell in chart.cells:
        x0, x1 = x.at(cell.low[0]), x.at(cell.high[0])
        y0, y1 = y.at(cell.high[1]), y.at(cell.low[1])
        box = f'x="{x0:.1f}" y="{y0:.1f}" width="{x1 - x0 + 0.4:.1f}" height="{y1 - y0 + 0.4:.1f}"'
        parts.append(f'<rect class="{shade_class(cell.shade)}" {box}/>')
        if cell.text:
            tone = "on-light" if cell.shade > 0.5 else "on-dark"
            place = f'x="{(x0 + x1) / 2:.1f}" y="{(y0 + y1) / 2 + 4:.1f}"'
            parts.append(f'<text class="cell {tone}" {place}>{escape(cell.text)}</text>')
    parts += [_line(line, x, y) for line in chart.lines]
    for dot in chart.dots:
        color = "s0" if dot.shade is None else shade_class(dot.shade)
        name = f"dot {color}{' mark' * dot.mark}"
        place = f'cx="{x.at(dot.x):.1f}" cy="{y.at(dot.y):.1f}"'
        radius = 4.2 if dot.mark else 3.2
        parts.append(f'<circle class="{name}"{_trial(dot.trial)} {place} r="{radius}"/>')
    parts += _names_of_dots(chart.dots, x, y)
    return _svg(width, HEIGHT, chart.title, parts)


def _names_of_dots(dots: Iterable[Dot], x: Scale, y: Scale) -> Iterable[str]:
    """Yield the name of each dot from the top down, moved down where it would cover another."""
    middle, below = (x.start + x.end) / 2, dict[str, float]()
    for dot in sorted((dot for dot in dots if dot.name), key=lambda dot: -dot.y):
        to_the_left = x.at(dot.x) > middle
        side = "end" if to_the_left else ""
        column = f"{side} {x.at(dot.x) // 60}"
        place = max(y.at(dot.y) + 4, below.get(column, 0.0) + _NAME)
        below[column] = place
        edge = x.at(dot.x) + (-8 if to_the_left else 8)
        yield (
            f'<text class="tick {side}" x="{edge:.1f}" y="{place:.1f}">{_cut(dot.name, 60)}</text>'
        )


def _frame(x: Scale, y: Scale) -> Iterable[str]:
    """Return grid lines, tick labels and axis labels."""
    for place, label in y.ticks():
        yield f'<path class="grid" d="M{x.start:.0f} {place:.1f}H{x.end:.0f}"/>'
        where = f'x="{x.start - 6:.0f}" y="{place + 4:.1f}"'
        yield f'<text class="tick end" {where}>{_cut(label)}</text>'
    for place, label in x.ticks():
        yield f'<text class="tick mid" x="{place:.1f}" y="{y.start + 15:.0f}">{_cut(label)}</text>'
    yield f'<path class="base" d="M{x.start:.0f} {y.start:.0f}H{x.end:.0f}"/>'
    yield f'<text class="axis end" x="{x.end:.0f}" y="{HEIGHT - 5}">{_cut(x.axis.label, 48)}</text>'
    yield f'<text class="axis" x="4" y="11">{_cut(y.axis.label, 48)}</text>'


def _cut(text: str, most: int = 16) -> Markup:
    return escape(text if len(text) <= most else f"{text[: most - 1]}…")


def _line(line: Line, x: Scale, y: Scale) -> str:
    path = " ".join(f"{x.at(a):.1f},{y.at(b):.1f}" for a, b in line.points if a == a and b == b)
    color = (
        f"s{line.color % 8}{' aid' * line.aid}" if line.shade is None else shade_class(line.shade)
    )
    return f'<polyline class="line {color}"{_trial(line.trial)} points="{path}"/>'


def _trial(number: int | None) -> str:
    return "" if number is None else f' data-t="{number}"'


def _intervals(figure: Intervals) -> Markup:
    width, most, share = (_WIDE, 90, 600) if figure.wide else (WIDTH, 27, 190)
    left = min(share, 20 + 7 * max((len(name) for name, *_ in figure.rows), default=0))
    known = [0.0] * figure.zero
    for _, value, ends, values in figure.rows:
        known += [value, *(ends or ()), *values]
    foot = 8 + _ROW * len(figure.rows)
    x = scale(Axis(), known, left, width - 56)
    parts = [f'<path class="line s1" d="M{x.at(0.0):.1f} 4V{foot}"/>'] * figure.zero
    for place, label in x.ticks():
        parts.append(f'<path class="grid" d="M{place:.1f} 4V{foot}"/>')
        parts.append(f'<text class="tick mid" x="{place:.1f}" y="{foot + 14}">{_cut(label)}</text>')
    for number, (name, mean, ends, values) in enumerate(figure.rows):
        y = 8 + _ROW * number + _ROW / 2
        parts.append(f'<text class="tick end" x="{left - 8}" y="{y + 4}">{_cut(name, most)}</text>')
        if ends:
            low, high = x.at(ends[0]), x.at(ends[1])
            parts.append(
                f'<path class="bar-error" d="M{low:.1f} {y}H{high:.1f}'
                f'M{low:.1f} {y - 4}V{y + 4}M{high:.1f} {y - 4}V{y + 4}"/>'
            )
        for value in values if len(values) > 1 else ():
            parts.append(f'<circle class="dot hollow s1" cx="{x.at(value):.1f}" cy="{y}" r="2.4"/>')
        parts.append(f'<circle class="dot s0" cx="{x.at(mean):.1f}" cy="{y}" r="4"/>')
        parts.append(f'<text class="tick" x="{width - 50}" y="{y + 4}">{short(mean)}</text>')
    return _svg(width, foot + 20, figure.title, parts)


def _parallel(figure: Parallel) -> Markup:
    gap = (_WIDE - 110) / max(len(figure.axes) - 1, 1)
    places = [50 + gap * number for number in range(len(figure.axes))]
    scales = [
        scale(axis, _known(row[2][n] for row in figure.rows), _TALL - 20, 34)
        for n, axis in enumerate(figure.axes)
    ]
    parts = []
    for trial, shade, values in figure.rows:
        points = [
            f"{place:.0f},{along.at(value):.1f}"
            for place, along, value in zip(places, scales, values, strict=True)
            if value is not None
        ]
        color = "none" if shade is None else shade_class(shade)
        parts.append(
            f'<polyline class="way {color}" data-t="{trial}" points="{" ".join(points)}"/>'
        )
    for number, (place, along) in enumerate(zip(places, scales, strict=True)):
        parts.append(f'<path class="base" d="M{place:.0f} 34V{_TALL - 20}"/>')
        name = _cut(along.axis.label, 22)
        level = 10 if number % 2 == 0 or len(places) < 7 else 24
        parts.append(f'<text class="axis mid" x="{place:.0f}" y="{level}">{name}</text>')
        for at, label in along.ticks():
            parts.append(
                f'<text class="tick halo" x="{place + 4:.0f}" y="{at + 4:.1f}">{_cut(label)}</text>'
            )
    return _svg(_WIDE, _TALL, figure.title, parts, many=len(figure.rows) > _CROWD)


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]
