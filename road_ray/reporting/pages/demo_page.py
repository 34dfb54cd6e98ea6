"""Page of ``road demo``: results of each kind of model and curves of the stages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from road_ray.errors import DataError
from road_ray.reporting.pages.page import Cell, Figures, Page, Section, Table
from road_ray.reporting.plots.chart import Axis, Chart, Line, thinned
from road_ray.reporting.run_record import read_run
from road_ray.reporting.tables import mean_with_deviation

TABLE = "table.json"
_CURVES = (
    ("pretrain", "train/generator", "Pre-training: generator loss (nats)"),
    ("pretrain", "train/detection_auc", "Pre-training: detection, area under the ROC curve"),
    ("multitask", "train/squad_v2", "Multi-task: loss on squad_v2 (nats)"),
    ("teacher-0", "train/squad_v2", "Teacher 0: loss on squad_v2 (nats)"),
)


def is_demo(directory: Path) -> bool:
    """Return True if a directory is a demo directory."""
    return (directory / TABLE).is_file()


def demo_page(directory: Path) -> Page:
    """Return the page with the table of models and the curves of the stages."""
    rows = _rows(directory / TABLE)
    charts = [
        Chart(title, Axis("step"), Axis(), lines=[Line(thinned(points))])
        for stage, name, title in _CURVES
        if len(points := read_run(directory / stage).series(name)) > 1
    ]
    sections = [Section("Models", [_table(rows)]), Section("Stages", [Figures(charts)])]
    return Page(
        title="Demo: from pre-training to distillation",
        about="Mean over seeds and standard deviation, in percent. "
        "Out of domain: text of another style.",
        kicker="road demo",
        sections=sections if charts else sections[:1],
    )


def _rows(path: Path) -> list[dict[str, Any]]:
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        rows, why = None, str(error).splitlines()[0]
    else:
        why = "not the rows of a table"
    if not (isinstance(rows, list) and rows and all(isinstance(row, dict) for row in rows)):
        raise DataError(f"{path}: damaged: {why}\n  fix: delete it and run `road demo` again")
    if any(rows[0].keys() - row.keys() for row in rows):
        raise DataError(
            f"{path}: damaged: its rows do not have the columns of the first\n"
            "  fix: delete it and run `road demo` again"
        )
    return rows


def _table(rows: Sequence[Mapping[str, Any]]) -> Table:
    names = [name for name in rows[0] if not name.endswith(" +-")]
    best = {
        name: max(row[name] for row in rows)
        for name in names
        if all(isinstance(row[name], float) for row in rows)
    }
    shown = [
        [
            Cell(mean_with_deviation(row, name), row[name], strong=row[name] == best[name])
            if name in best
            else Cell(str(row[name]), row[name] if isinstance(row[name], int) else None)
            for name in names
        ]
        for row in rows
    ]
    return Table(names, shown, note="The highest value of each column is bold.")
