"""Reports of ``road report``: choose the page for a path, then write it or its figures."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from road_ray.errors import ConfigError
from road_ray.reporting.pages.comparison_page import compare_page, experiment_page
from road_ray.reporting.pages.page import Page, render
from road_ray.reporting.pages.run_page import run_page
from road_ray.reporting.pages.sweep_page import sweep_page
from road_ray.reporting.plots import save_plots
from road_ray.reporting.records.comparison_table import TABLE
from road_ray.reporting.records.run_record import is_run, read_run, runs_below
from road_ray.reporting.records.sweep_record import JOURNAL, RECORD, read_sweep
from road_ray.system.files import write_atomic

_log = logging.getLogger(__name__)
REPORT = "report.html"
Format = Literal["html", "svg", "png", "pdf"]


def page_of(paths: Sequence[Path]) -> Page:
    """Return the page of a run, sweep, comparison or folder; several paths are compared.

    Raises ``ConfigError`` for a path with nothing to report.
    """
    path = paths[0]
    if len(paths) == 1:
        if (path / JOURNAL).is_file() or (path / RECORD).is_file():
            return sweep_page(read_sweep(path))
        if (path / TABLE).is_file():
            return experiment_page(path)
        if (path / "metrics.jsonl").is_file() or (is_run(path) and not runs_below(path)):
            return run_page(read_run(path))
    several = len(paths) > 1
    runs: list[Path] = []
    for path in paths:
        below = runs_below(path)
        # Of a fine-tuning, those are its seeds; teachers or generations are no seeds of theirs.
        whole = several and is_run(path) and not (below and read_run(path).verb == "finetune")
        if not whole and not below:
            raise ConfigError(
                f"{path}: no run, sweep or folder of runs\n"
                "  allowed: a directory with metrics.jsonl, metrics.json or study.journal, or one "
                "that contains such\n"
                "  fix: name the run_dir of a run (`road runs list`); nothing was written"
            )
        runs += [path] if whole else below
    title = "Comparison" if several else path.resolve().name
    return compare_page([read_run(run) for run in runs], title)


def report(paths: Sequence[Path], out: Path | None = None, kind: Format = "html") -> list[Path]:
    """Write the page, or its figures one per file, and return the paths written.

    Without ``out``, write ``report.html`` or ``figures/`` into the only path, or into the working
    directory if there are several.
    """
    place = paths[0] if len(paths) == 1 else Path()
    target = out or place / REPORT
    target = target / REPORT if target.is_dir() else target
    page = page_of(paths)
    if kind == "html":
        write_atomic(target, render(page, target.parent))
        return [target]
    return save_plots(page.plots(), out or place / "figures", kind)


def write_report(directory: Path) -> None:
    """Write ``report.html`` of a run that has ended. Errors are logged only, so that a report never
    fails a run.
    """
    try:
        report([directory])
    except Exception as error:
        _log.warning("no report.html: %s; `road report %s` writes it", error, directory)
