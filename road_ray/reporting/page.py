"""One self-contained HTML page: tables and curves, readable from the file system and without a
network.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from road_ray.reporting.tables import spread
from road_ray.training.journal import read_rows

_STYLE = """
:root { color-scheme: light dark;
        --ink: #1b1f24; --paper: #fff; --line: #d0d7de; --mark: #0b62c4; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --paper: #0d1117; --line: #30363d; --mark: #6cb6ff; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
       max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; }
th, td { padding: .3rem .8rem; border-bottom: 1px solid var(--line); }
td { text-align: right; font-variant-numeric: tabular-nums; }
td:first-child, th:first-child { text-align: left; }
.wide { overflow-x: auto; }
figure { display: inline-block; margin: 1rem 1rem 0 0; }
svg { background: transparent; border: 1px solid var(--line); }
polyline { fill: none; stroke: var(--mark); }
text { fill: var(--ink); font-size: 11px; }
"""
_CURVES = (
    ("pretrain", "train/generator", "generator loss (nats)"),
    ("pretrain", "train/detection_auc", "detection, area under the ROC curve"),
    ("multitask", "train/squad_v2", "multi-task: loss on squad_v2"),
)


def write_page(directory: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """``report.html`` of a demo run: the table and the curves of its stages."""
    parts = [
        "<h1>road_ray: the whole story</h1>",
        "<p>Mean over seeds and standard deviation, in percent. "
        "Out of domain means another style of text.</p>",
        f'<div class="wide">{_table(rows)}</div>',
        *(_figure(directory / stage, name, title) for stage, name, title in _CURVES),
    ]
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>road_ray</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head><body>{''.join(parts)}</body></html>\n"
    )
    path = directory / "report.html"
    path.write_text(page, encoding="utf-8")
    return path


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    names = [name for name in rows[0] if not name.endswith(" +-")]
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(spread(row, name))}</td>" for name in names) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _figure(run: Path, name: str, title: str) -> str:
    journal = run / "metrics.jsonl"
    points = [
        (row["step"], row[name])
        for row in (read_rows(journal) if journal.is_file() else ())
        if row.get(name) is not None
    ]
    if len(points) < 2:
        return ""
    return f"<figure>{curve(points)}<figcaption>{html.escape(title)}</figcaption></figure>"


def curve(points: Sequence[tuple[float, float]], width: int = 300, height: int = 160) -> str:
    """A line through ``(x, y)`` as SVG, with the ends of both axes labelled."""
    xs, ys = [x for x, _ in points], [y for _, y in points]
    low, high = min(ys), max(ys)
    across, up = (max(xs) - min(xs)) or 1, (high - low) or 1
    pad = 24
    path = " ".join(
        f"{pad + (x - min(xs)) / across * (width - 2 * pad):.1f},"
        f"{height - pad - (y - low) / up * (height - 2 * pad):.1f}"
        for x, y in points
    )
    labels = (
        f'<text x="2" y="14">{high:.3g}</text><text x="2" y="{height - 8}">{low:.3g}</text>'
        f'<text x="{width - 4}" y="{height - 8}" text-anchor="end">step {max(xs):,.0f}</text>'
    )
    line = f'<polyline points="{path}"/>'
    return f'<svg width="{width}" height="{height}" role="img">{line}{labels}</svg>'
