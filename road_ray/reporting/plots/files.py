"""Figure files for papers: the figures of the page in its light colours, as SVG, PNG or PDF."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from markupsafe import escape

from road_ray.errors import ConfigError
from road_ray.reporting.pages.page import asset
from road_ray.reporting.plots.chart import Chart, Figure
from road_ray.reporting.plots.svg import draw

Format = Literal["svg", "png", "pdf"]
_PIXELS = 3  # of a PNG for each unit: 1,200 for a figure 400 wide


def save_figures(figures: Sequence[Figure], directory: Path, kind: Format) -> list[Path]:
    """Write one file per figure, numbered in page order and named after its title.

    Raises ``ConfigError`` for PNG and PDF if the converter is not installed.
    """
    if kind != "svg":
        try:
            from vl_convert import svg_to_pdf, svg_to_png
        except ImportError:
            raise ConfigError(
                f"--format {kind} needs vl-convert-python, which is not installed\n"
                "  fix: pip install 'road-ray[figures]', or --format svg; nothing was written"
            ) from None
    directory.mkdir(parents=True, exist_ok=True)
    paths = []
    for number, figure in enumerate(figures, start=1):
        name = re.sub(r"\W+", "-", figure.title.lower()).strip("-")[:60]
        paths.append(directory / f"{number:02d}-{name}.{kind}")
        content = standalone(figure)
        if kind == "svg":
            paths[-1].write_text(content, encoding="utf-8")
        else:
            made = svg_to_pdf(content) if kind == "pdf" else svg_to_png(content, scale=_PIXELS)
            paths[-1].write_bytes(made)
    return paths


def standalone(figure: Figure) -> str:
    """Return a figure as an SVG document with title, legend and its colours as plain values."""
    head, _, body = str(draw(figure)).partition(">")
    width, height = map(int, re.findall(r'viewBox="0 0 (\d+) (\d+)"', head)[0])
    crowd = ' class="many"' if 'class="many"' in head else ""
    title = f'<text class="axis" x="4" y="14" style="font-weight:600">{escape(figure.title)}</text>'
    lines = figure.lines if isinstance(figure, Chart) else ()
    named = dict.fromkeys((line.name, line.color % 8) for line in lines if line.name)
    legend, across = "", 4
    for name, color in named if len(named) > 1 else ():
        legend += f'<rect class="s{color}" x="{across}" y="22" width="8" height="8"/>'
        legend += f'<text x="{across + 12}" y="30">{escape(name)}</text>'
        across += 24 + 6 * len(name)
    top = 38 if legend else 22
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height + top}" '
        f'viewBox="0 0 {width} {height + top}"><style>{_style()}</style>'
        f'<rect style="fill:#fff" width="{width}" height="{height + top}"/>{title}{legend}'
        f'<g{crowd} transform="translate(0 {top})">{body.removesuffix("</svg>")}</g></svg>\n'
    )


def _style() -> str:
    """Return the style sheet of figures without variables, which converters do not know.

    Every rule with the colour ``--k`` of an element is repeated for each class that sets it.
    """
    light = asset("page.css").partition("@media")[0]
    colors = dict(re.findall(r"--([\w-]+): (#\w+)", light))
    rules = ["text { font-family: sans-serif; font-size: 11px; }"]
    for selectors, content in re.findall(r"([^{}]+)\{([^{}]*)\}", asset("figure.css")):
        body = re.sub(r"font:[^;]*;", "", content)
        for name in colors if "var(--k" in body else [None]:
            if name is None:
                chosen = selectors
            elif re.fullmatch(r"[sc]\d", name):
                chosen = ",".join(f"{part.strip()}.{name}" for part in selectors.split(","))
            else:
                continue
            color = colors.get(name or "line", "")
            plain = re.sub(r"var\(--k(?:, var\(--\w+\))?\)", color, body)
            plain = re.sub(r"var\(--([\w-]+)\)", lambda found: colors[found[1]], plain)
            rules.append(f"{chosen.strip()} {{{plain}}}")
    return "\n".join(rules)
